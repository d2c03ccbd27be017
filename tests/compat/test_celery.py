"""Celery on Tandem: real workers, retries, results, remote control and events; workers and the broker are killed.

`make test` runs a few hundred tasks, `make test-sdks` two thousand.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from celery import Celery

from tandem.testing import Broker
from tests.compat.celery_shop import BROKER, LOCK_S, PREFETCH_MULTIPLIER, PREFIX, RECORD, make_app
from tests.compat.programs import IS_LONG
from tests.documentation import DOCS, follow
from tests.markers import mission
from tests.patience import PATIENCE_S, wait_until

TASKS: Final = 2_000 if IS_LONG else 200
# Processes of each worker.
CONCURRENCY: Final = 2
# Seconds. A worker imports Celery and forks; several of them share a slow machine.
START_LIMIT_S: Final = 3 * PATIENCE_S


class Shop:
    """A Celery application with queues of its own, its workers, and what their tasks have written."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.prefix = f"shop-{uuid.uuid4().hex[:8]}/"
        self.app: Celery = make_app(broker.connection_string, self.prefix)
        self._folder = folder
        self._record = folder / "record"
        self._workers: list[Worker] = []

    def start_worker(self, *arguments: str) -> Worker:
        name = f"worker{len(self._workers)}"
        settings = {BROKER: self.broker.connection_string, PREFIX: self.prefix, RECORD: str(self._record)}
        worker = Worker(name, self._folder / f"{name}.log", {**os.environ, **settings}, arguments)
        self._workers.append(worker)
        return worker

    def close(self) -> None:
        for worker in self._workers:
            worker.kill()
        self.app.close()

    def send(self, task: str, *arguments: Any, **options: Any) -> Any:
        return self.app.tasks[task].apply_async(arguments, **options)

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self._record.read_text().splitlines()] if self._record.exists() else []

    def count(self, *tasks: str) -> Counter[int]:
        """How often each number was written by one of these tasks."""
        return Counter(int(line[1]) for line in self.lines() if line[0] in tasks)

    def times_s(self, task: str) -> list[float]:
        return [float(line[2]) for line in self.lines() if line[0] == task]

    @property
    def queue(self) -> dict[str, Any]:
        return self.broker.queue(f"{self.prefix}celery")

    def logs(self) -> str:
        return "\n".join(worker.log[-3_000:] for worker in self._workers)


class Worker:
    """A `celery worker` in a process group of its own, which is killed as a whole."""

    def __init__(self, name: str, log: Path, environment: dict[str, str], arguments: tuple[str, ...]) -> None:
        self._log = log
        command = ["-m", "celery", "-A", "tests.compat.celery_shop", "worker", "-n", f"{name}@test", "-l", "INFO"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, *command, "-c", str(CONCURRENCY), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_until_ready(self) -> None:
        deadline_s = time.monotonic() + START_LIMIT_S
        while " ready." not in self.log:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline_s, self.log
            time.sleep(0.05)

    def stop(self) -> int:
        """Ask the worker to finish what it has begun, and return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(START_LIMIT_S)

    def kill(self) -> None:
        """End the worker and all its processes at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


# --- with one worker that all tests share ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(broker, tmp_path_factory.mktemp("shop"))
    shop.start_worker("-E").wait_until_ready()
    yield shop
    shop.close()


@mission("M35", "M1", "M3")
def test_tasks_run_and_a_task_that_fails_is_tried_again(shop: Shop) -> None:
    for number in range(20):
        shop.send("ship", number)
    shop.send("charge", 1)
    wait_until(lambda: set(range(20)) <= shop.count("ship").keys(), "all tasks", shop.logs)
    wait_until(lambda: shop.count("charge") == {1: 1}, "the second attempt", shop.logs)
    assert shop.count("declined") == {1: 1}


@mission("M35")
def test_results_come_back_to_the_caller(shop: Shop) -> None:
    results = [shop.send("add", number, 1) for number in range(5)]
    assert [result.get(timeout=PATIENCE_S) for result in results] == [1, 2, 3, 4, 5]


@mission("M35", "M5")
def test_a_task_with_a_countdown_waits_in_the_broker_and_not_in_a_worker(shop: Shop) -> None:
    sent_s = time.time()
    shop.send("ship", 1_000, countdown=1.5)
    assert shop.queue["scheduled_message_count"] == 1
    wait_until(lambda: 1_000 in shop.count("ship"), "the task", shop.logs)
    assert max(shop.times_s("ship")) >= sent_s + 1.5
    # Nor is it delivered before it is due: the worker never held it.
    assert shop.app.control.inspect(timeout=PATIENCE_S, limit=1).scheduled() == {"worker0@test": []}


@mission("M35")
def test_a_worker_answers_remote_control(shop: Shop) -> None:
    inspect = shop.app.control.inspect(timeout=PATIENCE_S, limit=1)
    assert inspect.ping() == {"worker0@test": {"ok": "pong"}}
    assert "charge" in inspect.registered()["worker0@test"]
    # The queue on which the reply came is gone.
    assert not [one for one in shop.broker.queues() if "reply.celery.pidbox" in one["name"]]


def test_a_task_that_is_revoked_does_not_run(shop: Shop) -> None:
    revoked = shop.send("ship", 2_000, countdown=1)
    shop.app.control.revoke(revoked.id)
    inspect = shop.app.control.inspect(timeout=PATIENCE_S, limit=1)
    wait_until(lambda: revoked.id in inspect.revoked()["worker0@test"], "the worker to know it", shop.logs)
    wait_until(lambda: f"Discarding revoked task: ship[{revoked.id}]" in shop.logs(), "the discarding", shop.logs)
    assert 2_000 not in shop.count("ship")


@mission("M35")
def test_events_tell_what_workers_do(shop: Shop) -> None:
    seen: dict[str, dict[str, Any]] = {}
    with shop.app.connection_for_read() as connection:
        keep = {"*": lambda event: seen.update({event["type"]: event})}
        receiver = shop.app.events.Receiver(connection, handlers=keep)
        consuming = receiver.itercapture(limit=None, timeout=PATIENCE_S, wakeup=True)
        sent: Any = None
        while not {"worker-heartbeat", "task-received", "task-succeeded"} <= seen.keys():
            next(consuming)
            sent = sent or shop.send("add", 1, 2)
        consuming.close()
    assert seen["task-succeeded"]["uuid"] == sent.id
    assert seen["worker-heartbeat"]["hostname"] == "worker0@test"


def test_a_worker_whose_queue_was_deleted_declares_it_again(shop: Shop) -> None:
    shop.broker.management.queues.delete(f"{shop.prefix}celery")
    wait_until(lambda: f"{shop.prefix}celery" in [one["name"] for one in shop.broker.queues()], "the queue", shop.logs)
    shop.send("ship", 3_000)
    wait_until(lambda: 3_000 in shop.count("ship"), "the task", shop.logs)


def test_a_program_that_knows_nothing_of_celery_can_send_a_task(shop: Shop) -> None:
    """With the official SDK: what the page on Celery says about other languages."""
    properties: dict[str | bytes, Any] = {"task": "ship", "id": str(uuid.uuid4()), "lang": "py"}
    message = ServiceBusMessage("[[4000], {}, {}]", content_type="application/json", application_properties=properties)
    with (
        ServiceBusClient.from_connection_string(shop.broker.connection_string) as client,
        client.get_queue_sender(f"{shop.prefix}celery") as sender,
    ):
        sender.send_messages(message)
    wait_until(lambda: 4_000 in shop.count("ship"), "the task", shop.logs)


def test_the_code_of_the_page_on_celery_runs(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_CONNECTION_STRING", broker.connection_string)
    monkeypatch.syspath_prepend(tmp_path)
    pid_file = tmp_path / "worker.pid"
    replacements = {
        "pip install 'tandem-bus[celery]' celery\n": "true\n",
        "tandem serve --dev &\n": "",
        'export TANDEM_CONNECTION_STRING="$(tandem connection-string --dev)"\n': "",
        "celery -A shop worker &": f"celery -A shop worker -c 1 --pidfile {pid_file} > worker.log 2>&1 &",
    }
    try:
        assert follow(DOCS / "howto" / "celery.md", tmp_path, replacements, skipped={"console"}) == 4
    finally:
        # The shell of the page has ended it, or does so just now.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGTERM)
        sys.modules.pop("shop", None)


@mission("M35", "M3")
def test_a_task_that_takes_longer_than_its_lock_runs_once(shop: Shop) -> None:
    shop.send("pack", 1, 1.5 * LOCK_S)
    wait_until(lambda: shop.count("pack") == {1: 1}, "the end of the task", shop.logs)
    assert shop.count("packing") == {1: 1}


# --- with workers and a broker that are killed ----------------------------------------------------------------------


@pytest.fixture
def own_shop(tmp_path: Path) -> Iterator[Shop]:
    with Broker(tmp_path / "data") as broker:
        shop = Shop(broker, tmp_path)
        yield shop
        shop.close()


@mission("M35", "M1", "M3", "M15", "M36")
@pytest.mark.timeout(900)
def test_no_task_is_lost_when_a_worker_and_the_broker_are_killed(own_shop: Shop) -> None:
    shop = own_shop
    quickly = ("--without-gossip", "--without-mingle")
    victim, survivor = shop.start_worker(*quickly), shop.start_worker(*quickly)
    victim.wait_until_ready()
    survivor.wait_until_ready()
    # One in ten fails at first.
    sending = threading.Thread(
        target=lambda: [shop.send("charge" if number % 10 == 0 else "ship", number) for number in range(TASKS)]
    )
    sending.start()
    wait_until(lambda: len(shop.count("ship")) > TASKS * 0.2, "a fifth of the tasks", shop.logs)
    shop.broker.kill()
    shop.broker.start()
    wait_until(lambda: len(shop.count("ship")) > TASKS * 0.4, "two fifths of the tasks", shop.logs)
    victim.kill()
    replacement = shop.start_worker(*quickly)
    sending.join()
    wait_until(lambda: len(shop.count("ship", "charge")) == TASKS, "all tasks", shop.logs)
    wait_until(lambda: shop.queue["message_count"] == 0, "an empty queue", shop.logs)
    counted = shop.count("ship", "charge")
    duplicates = sum(counted.values()) - TASKS
    # What a worker holds when it is killed runs again. What both hold when the broker is killed may go to the other.
    held = CONCURRENCY * PREFETCH_MULTIPLIER
    assert duplicates <= 3 * held, duplicates
    replacement.wait_until_ready()
    assert (survivor.stop(), replacement.stop()) == (0, 0)
    print(f"{TASKS} tasks, none lost, {duplicates} ran twice, {datetime.now(UTC):%Y-%m-%d}")
