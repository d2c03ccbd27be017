"""The twin for programs without asyncio: the same names, and calls that wait."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

import tandem.client as asynchronous
from tandem.client import MessagingEntityNotFoundError, sync
from tandem.client.blocking import run
from tandem.errors import UsageError
from tandem.testing import Broker
from tests.patience import PATIENCE_S
from tools.generate_sync import TARGET, Generator, formatted

TWINS = [name for name in sync.__all__ if getattr(sync, name).__class__ is type and hasattr(getattr(sync, name), "_of")]


def test_the_twin_is_what_its_source_says() -> None:
    assert TARGET.read_text(encoding="utf-8") == formatted(Generator().write())


def test_there_are_twins_of_everything_that_waits() -> None:
    assert set(TWINS) >= {
        "BrokeredMessage",
        "EventHubClient",
        "MessageReceiver",
        "MessageSender",
        "MessageSession",
        "MessagingFactory",
        "NamespaceManager",
        "QueueClient",
        "SubscriptionClient",
        "TopicClient",
        "Transaction",
    }


@pytest.mark.parametrize("name", TWINS)
def test_a_twin_has_no_coroutine_and_the_docstrings_of_its_source(name: str) -> None:
    twin, source = getattr(sync, name), getattr(asynchronous, name)
    for method_name, method in inspect.getmembers(twin, inspect.isfunction):
        assert not inspect.iscoroutinefunction(method), method_name
        if not method_name.startswith("_"):
            assert list(inspect.signature(method).parameters) == list(
                inspect.signature(getattr(source, method_name)).parameters
            )
    assert (twin.__doc__ or "").splitlines()[0] == (source.__doc__ or "").splitlines()[0].replace(
        "an async context manager", "a context manager"
    )


def test_a_plain_program_manages_sends_receives_and_settles(broker: Broker, name: str) -> None:
    manager = sync.NamespaceManager.from_connection_string(broker.connection_string)
    manager.create_queue(sync.QueueDescription(name, requires_session=True))
    with sync.MessagingFactory.from_connection_string(broker.connection_string) as factory:
        client = factory.create_queue_client(name)
        client.send_batch([sync.BrokeredMessage(str(number), session_id="s") for number in range(3)])
        with client.accept_session("s", PATIENCE_S) as session:
            first = session.receive(PATIENCE_S)
            assert first is not None
            assert first.body == b"0"
            first.label = "changed here"
            assert first.label == "changed here"
            first.complete()
            with factory.transaction() as transaction:
                client.send(sync.BrokeredMessage("3", session_id="s"), transaction=transaction)
            rest = session.receive_batch(10, PATIENCE_S)
            assert [message.body for message in rest] == [b"1", b"2", b"3"]
            assert session.receive(0) is None
        number = client.schedule(sync.BrokeredMessage(session_id="s"), datetime.now(UTC) + timedelta(days=1))
        client.cancel_scheduled(number)
    with pytest.raises(MessagingEntityNotFoundError):
        manager.get_queue(f"{name}-other")
    manager.delete_queue(name)


def test_several_threads_share_one_client(broker: Broker, queue: str) -> None:
    with sync.MessagingFactory.from_connection_string(broker.connection_string) as factory:
        client = factory.create_queue_client(queue, sync.ReceiveMode.RECEIVE_AND_DELETE)
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: client.send(sync.BrokeredMessage(str(number))), range(80)))
            received = [one for one in pool.map(lambda _: client.receive(PATIENCE_S), range(80)) if one is not None]
    assert sorted(int(message.body) for message in received) == list(range(80))


def test_an_event_hub_is_used_without_asyncio(broker: Broker, name: str) -> None:
    broker.create_hub(name, partition_count=1)
    with sync.EventHubClient.from_connection_string(broker.connection_string, name) as hub:
        hub.create_producer().send_batch([sync.EventData(str(number)) for number in range(3)])
        consumer = hub.create_consumer("$Default", "0")
        assert [event.body for event in consumer.receive_batch(10, PATIENCE_S)] == [b"0", b"1", b"2"]
        assert hub.get_properties().partition_ids == ("0",)


def test_a_call_that_waits_on_the_thread_of_the_loop_is_refused() -> None:
    async def wait_for_itself() -> None:
        async def nothing() -> None: ...

        run(nothing())

    with pytest.raises(UsageError, match="wait for itself"):
        run(wait_for_itself())


def test_the_thread_does_not_keep_a_program_alive() -> None:
    async def nothing() -> None: ...

    run(nothing())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "tandem.client.sync"]
    assert thread.daemon


# Another thread of the parent may be inside the library at the moment of the fork, and hold its lock.
FORKING = """
import os, sys, threading
from tandem.client import blocking
from tandem.client.sync import BrokeredMessage, MessagingFactory

connection_string, queue = sys.argv[1:]
with MessagingFactory.from_connection_string(connection_string) as parent:
    client = parent.create_queue_client(queue)
    client.send(BrokeredMessage("before"))
    entered, left = threading.Event(), threading.Event()

    def stay_inside():
        with blocking._lock:
            entered.set()
            left.wait()

    threading.Thread(target=stay_inside).start()
    entered.wait()
    child = os.fork()
    left.set()
    if child == 0:
        with MessagingFactory.from_connection_string(connection_string) as own:
            own.create_queue_client(queue).send(BrokeredMessage("from the child"))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    client.send(BrokeredMessage("after"))
    bodies = [client.receive(timeout=60).body.decode() for _ in range(3)]
print(bodies)
"""


def test_a_process_that_was_forked_has_a_loop_of_its_own_and_leaves_that_of_its_parent_alone(
    broker: Broker, queue: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING, broker.connection_string, queue],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
    )
    assert done.stdout == "['before', 'from the child', 'after']\n", done.stderr
