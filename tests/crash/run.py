"""`python -m tests.crash.run --cycles 200 [--only hubs]`: kill, start again, account for every message or event.

The seed decides when the broker is killed and what the producers send. What the threads of the clients do at that
moment is up to the machine, so that a seed makes a run similar and not the same. The report is one JSON object; the
exit code is 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tandem.testing import Broker
from tests.crash.driver_workers import DriverConsumer, DriverProducer, TransactionProducer
from tests.crash.hub_run import HubCrashTest
from tests.crash.ledger import Ledger, OnceLedger, ScheduleLedger, SessionLedger, TransactionLedger
from tests.crash.mortal import MortalBroker, Worker
from tests.crash.sdk_workers import (
    Consumer,
    DeferringConsumer,
    OnceConsumer,
    Producer,
    ScheduledConsumer,
    SchedulingProducer,
    SessionConsumer,
    SessionProducer,
)
from tests.crash.topic_ledger import TopicLedger
from tests.crash.topic_workers import DriverPublisher, DriverSubscriber, Publisher, Subscriber, TransactionPublisher

__all__ = ["CrashTest"]

# Acknowledged sends by the SDK that a life of the broker goes on for, with what comes on top by chance.
SENDS_PER_LIFE: Final = 1_000
# Seconds. A life takes a few; the rest is for a machine that is busy.
LIFE_LIMIT_S: Final = 60.0

# One life in so many ends at once, before its clients have come back; one start in so many is killed on the way.
EARLY_DEATH: Final = 0.15
DEATH_WHILE_STARTING: Final = 0.15

# Seconds beyond the locks' duration that emptying the queues may take at the end.
DRAIN_LIMIT_S: Final = 300.0
JOIN_LIMIT_S: Final = 120.0

# Deliveries. Crashes count as failed deliveries, and are no reason to dead-letter: the most that the service allows.
MAX_DELIVERY_COUNT: Final = 2_000


class CrashTest:
    """Queues and a topic, their accounts, and the clients that work with them."""

    def __init__(
        self, data_dir: Path, cycles: int, seed: int, lock_duration_s: float, sends_per_life: int = SENDS_PER_LIFE
    ) -> None:
        self.cycles = cycles
        self.seed = seed
        self.lock_duration_s = lock_duration_s
        self.sends_per_life = sends_per_life
        self.random = random.Random(seed)
        self.mortal = MortalBroker(Broker(data_dir))
        self.peek_lock = Ledger("peek-lock")
        self.once = OnceLedger("receive-and-delete")
        self.sessions = SessionLedger("sessions")
        self.scheduled = ScheduleLedger("scheduled")
        self.deferred = Ledger("deferred")
        self.volume = Ledger("volume")
        self.transactions = TransactionLedger("transactions")
        # Where a send by the SDK that was acknowledged must lead to a completion.
        self.by_sdk: list[Ledger] = [self.peek_lock, self.sessions, self.scheduled, self.deferred]
        self.ledgers = [*self.by_sdk, self.once, self.volume, self.transactions]
        self.topic = TopicLedger("topic")
        self.accounts: list[Ledger] = [*self.ledgers, self.topic, *self.topic.subscriptions]
        self.workers = [*self._workers(), *self._topic_workers()]
        self.left_over: dict[str, Any] = {}

    def _workers(self) -> list[Worker]:
        mortal, seed = self.mortal, self.seed
        return [
            Producer(mortal, self.peek_lock, seed + 1, max_waiting=3_000, pause_s=0.01),
            Producer(mortal, self.peek_lock, seed + 2, max_waiting=3_000, pause_s=0.01),
            Consumer(mortal, self.peek_lock),
            Consumer(mortal, self.peek_lock),
            # The SDK needs one to two milliseconds for a completion; this one takes what is too much for it.
            DriverConsumer(mortal, self.peek_lock, credit=50),
            Producer(mortal, self.once, seed + 3, max_waiting=500),
            OnceConsumer(mortal, self.once),
            SessionProducer(mortal, self.sessions, seed + 4, max_waiting=200),
            SessionConsumer(mortal, self.sessions),
            SchedulingProducer(mortal, self.scheduled, seed + 5, max_waiting=200),
            ScheduledConsumer(mortal, self.scheduled),
            Producer(mortal, self.deferred, seed + 6, max_waiting=50),
            DeferringConsumer(mortal, self.deferred),
            DriverProducer(mortal, self.volume, seed + 7, max_waiting=2_000),
            DriverConsumer(mortal, self.volume),
            TransactionProducer(mortal, self.transactions, seed + 8, max_waiting=100),
            DriverConsumer(mortal, self.transactions),
        ]

    def _topic_workers(self) -> list[Worker]:
        mortal, seed, topic = self.mortal, self.seed, self.topic
        everything, by_sql, by_correlation, with_actions = topic.subscriptions
        return [
            Publisher(mortal, topic, seed + 9, max_waiting=300),
            DriverPublisher(mortal, topic, seed + 10, max_waiting=300),
            TransactionPublisher(mortal, topic, seed + 11, max_waiting=300),
            Subscriber(mortal, everything),
            DriverSubscriber(mortal, everything),
            DriverSubscriber(mortal, by_sql),
            DriverSubscriber(mortal, by_correlation),
            Subscriber(mortal, with_actions),
            DriverSubscriber(mortal, with_actions),
        ]

    @property
    def sdk_sends(self) -> int:
        return sum(len(ledger.acknowledged) for ledger in self.by_sdk)

    @property
    def broken_count(self) -> int:
        return sum(count for ledger in self.accounts for count in ledger.broken_counts.values())

    def said(self) -> str:
        """How far it is, in a line."""
        sends = f"{self.sdk_sends:,} sends by the SDK, {len(self.volume.acknowledged):,} more"
        return f"{sends}, {self.broken_count} broken promises"

    def run(self, advance: Callable[[], None]) -> dict[str, Any]:
        """All cycles, the drain, and the report."""
        started_at = time.monotonic()
        with self.mortal.broker as broker:
            self._make_entities(broker)
            self.mortal.life = 1
            self.mortal.is_up.set()
            for worker in self.workers:
                worker.start()
            for _ in range(self.cycles):
                self._live()
                self.mortal.die()
                self.mortal.rise(self._death_while_starting())
                advance()
            self._drain()
        for ledger in self.accounts:
            ledger.close()
        return self._report(time.monotonic() - started_at)

    def _make_entities(self, broker: Broker) -> None:
        settings: dict[str, Any] = {
            "lock_duration_ms": int(self.lock_duration_s * 1_000),
            "max_delivery_count": MAX_DELIVERY_COUNT,
        }
        for ledger in self.ledgers:
            broker.create_queue(ledger.queue, requires_session=ledger is self.sessions, **settings)
        broker.create_topic(self.topic.queue)
        for subscription in self.topic.subscriptions:
            wish = subscription.wish
            rules = None if wish.rules is None else [dict(rule) for rule in wish.rules]
            broker.create_subscription(self.topic.queue, wish.name, rules=rules, **settings)

    def _live(self) -> None:
        # Not the first one: whatever becomes of the others, something was sent.
        if self.random.random() < EARLY_DEATH and self.mortal.life > 1:
            time.sleep(self.random.uniform(0.0, 0.3))
            return
        enough = self.sdk_sends + self.sends_per_life
        deadline = time.monotonic() + LIFE_LIMIT_S
        while self.sdk_sends < enough and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(self.random.uniform(0.0, 1.0))

    def _death_while_starting(self) -> float | None:
        is_wanted = self.random.random() < DEATH_WHILE_STARTING
        return self.random.uniform(0.05, 1.0) if is_wanted else None

    def _drain(self) -> None:
        """No more sends; then everything that is stored has to come out, and be completed."""
        self.mortal.is_closing.set()
        deadline = time.monotonic() + self.lock_duration_s + DRAIN_LIMIT_S
        for worker in self.workers:
            if worker.is_producer:
                worker.join(JOIN_LIMIT_S)
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.2)
        self.left_over = left
        self.mortal.is_over.set()
        for worker in self.workers:
            worker.join(JOIN_LIMIT_S)

    def _left(self) -> dict[str, Any]:
        """What the broker says is still there, with what its clients have not settled."""
        broker, topic = self.mortal.broker, self.topic
        found = {ledger.queue: broker.queue(ledger.queue) for ledger in self.ledgers}
        for subscription in topic.subscriptions:
            found[subscription.queue] = broker.subscription(topic.queue, subscription.wish.name)
        counts: dict[str, Any] = {}
        for name, entity in found.items():
            if entity["message_count"]:
                counts[name] = {key: value for key, value in entity.items() if key.endswith("message_count")}
        # The bytes that copies share go with the last one, and what is scheduled when it is due.
        fields = broker.topic(topic.queue)
        if fields["scheduled_message_count"] or (not counts and fields["size_in_bytes"]):
            counts[topic.queue] = {key: fields[key] for key in ("scheduled_message_count", "size_in_bytes")}
        return counts

    def _report(self, seconds: float) -> dict[str, Any]:
        broken = {ledger.queue: dict(ledger.broken) for ledger in self.accounts if ledger.broken}
        counts: dict[str, int] = {"lost": 0, "completed_and_seen_again": 0, "published_in_part": 0, "not_selected": 0}
        for ledger in self.accounts:
            for promise, count in ledger.broken_counts.items():
                counts[promise] = counts.get(promise, 0) + count
        stuck = [worker.name for worker in self.workers if worker.is_alive()]
        peek_locked = [ledger for ledger in self.ledgers if ledger is not self.once]
        acknowledged = sum(len(ledger.acknowledged) for ledger in peek_locked)
        completed = sum(len(ledger.completed) for ledger in peek_locked)
        return {
            "seed": self.seed,
            "cycles": self.cycles,
            "deaths_while_starting": self.mortal.deaths_while_starting,
            "seconds": round(seconds, 1),
            "longest_start_s": round(self.mortal.longest_start_s, 2),
            "acknowledged_sends": acknowledged,
            "acknowledged_sends_by_the_sdk": self.sdk_sends,
            "acknowledged_completions": completed,
            "acknowledged_publications": len(self.topic.acknowledged),
            "acknowledged_copies": sum(len(ledger.acknowledged) for ledger in self.topic.subscriptions),
            **counts,
            # The rule of three: with none of n, the chance of one is below 3/n, at 95 % confidence.
            "bound_on_loss": 3 / acknowledged if acknowledged and not counts["lost"] else None,
            "bound_on_seeing_again": 3 / completed if completed and not counts["completed_and_seen_again"] else None,
            "left_over": self.left_over,
            "stuck_clients": stuck,
            "broken_promises": broken,
            "is_kept": not (broken or stuck or self.left_over),
            "queues": {ledger.queue: ledger.figures() for ledger in self.ledgers},
            "topics": {ledger.queue: ledger.figures() for ledger in [self.topic, *self.topic.subscriptions]},
            "interruptions": dict(self.mortal.interruptions.most_common()),
        }


def checked(data_dir: Path) -> str:
    """What the offline check of the store says of a broker that died so often."""
    command = [sys.executable, "-c", "from tandem.cli import main; main()", "check", str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "sound" if done.returncode == 0 else (done.stdout + done.stderr).strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--only", choices=("queues", "hubs"), default="queues", help="what is sent to")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sends-per-life", type=int, default=SENDS_PER_LIFE, help="by the SDK, to queues")
    parser.add_argument("--lock-duration-s", type=float, default=20.0)
    parser.add_argument("--json", type=Path, default=Path("build/crash.json"), help="the report; - prints it")
    options = parser.parse_args()
    # What the SDK has to say about lost connections is expected here, and would be most of the output.
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with tempfile.TemporaryDirectory(prefix="tandem-crash-") as folder:
        test: CrashTest | HubCrashTest
        if options.only == "hubs":
            test = HubCrashTest(Path(folder), options.cycles, options.seed)
        else:
            test = CrashTest(
                Path(folder), options.cycles, options.seed, options.lock_duration_s, options.sends_per_life
            )
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(f"seed {options.seed}", total=options.cycles)

            def advance() -> None:
                progress.update(task, advance=1, description=test.said())

            report = test.run(advance)
        report["store"] = checked(Path(folder))
    report["is_kept"] = report["is_kept"] and report["store"] == "sound"
    text = json.dumps(report, indent=2) + "\n"
    if options.json == Path("-"):
        print(text, end="")
    else:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(text, encoding="utf-8")
        summary = {key: value for key, value in report.items() if key not in ("queues", "topics", "interruptions")}
        console.print_json(data=summary)
    return 0 if report["is_kept"] else 1


if __name__ == "__main__":
    sys.exit(main())
