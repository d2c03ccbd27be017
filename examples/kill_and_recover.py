"""Kill a broker twice under the official SDK, and account for every message.

    python examples/kill_and_recover.py [--messages 2000]        also the first part of `make demo`

A producer sends numbered messages and a consumer completes them, both with azure-servicebus as it comes from PyPI. The
broker is killed with SIGKILL halfway through sending and again halfway through receiving, and restarted on the same
data directory. Every acknowledged message must be received, and no completed message may be delivered again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError
from rich.console import Console
from rich.table import Table

from tandem.testing import Broker

QUEUE = "orders"
BATCH = 50
# Seconds without a message after which the consumer looks whether the queue is empty.
WAIT_S = 1

MEANINGS = {
    "sent": "sent and acknowledged",
    "received": "received",
    "completed": "completed and acknowledged",
    "lost": "lost",
    "duplicates": "delivered again after completion",
    "redelivered": "delivered again before completion",
    "errors": "errors that clients caught and retried",
}

console = Console()


class Account:
    """The messages that the broker acknowledged, and those that it delivered."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.received: Counter[int] = Counter()
        self.completed: set[int] = set()
        self.seen_again: list[int] = []
        self.failures = 0

    @property
    def lost(self) -> list[int]:
        return [number for number in self.sent if number not in self.received]

    @property
    def counts(self) -> dict[str, int]:
        return {
            "sent": len(self.sent),
            "received": len(self.received),
            "completed": len(self.completed),
            "lost": len(self.lost),
            "duplicates": len(self.seen_again),
            "redelivered": sum(count - 1 for count in self.received.values()) - len(self.seen_again),
            "errors": self.failures,
        }

    @property
    def is_sound(self) -> bool:
        return not self.lost and not self.seen_again


def produce(broker: Broker, account: Account, count: int) -> None:
    """Send until every message is acknowledged.

    A batch that failed is sent again, by the SDK or by this loop. If it had arrived, the queue recognizes it by its
    message ids.
    """
    numbers = list(range(count))
    while numbers:
        try:
            client = ServiceBusClient.from_connection_string(broker.connection_string)
            with client, client.get_queue_sender(QUEUE) as sender:
                while numbers:
                    batch = numbers[:BATCH]
                    sender.send_messages([ServiceBusMessage(str(number), message_id=str(number)) for number in batch])
                    account.sent += batch
                    numbers = numbers[BATCH:]
        except ServiceBusError as error:
            account.failures += 1
            console.print(f"  the producer caught [yellow]{type(error).__name__}[/] and retries")


def consume(broker: Broker, account: Account) -> None:
    """Receive and complete until the queue is empty."""
    while True:
        try:
            client = ServiceBusClient.from_connection_string(broker.connection_string)
            with client, client.get_queue_receiver(QUEUE, max_wait_time=WAIT_S, prefetch_count=100) as receiver:
                for message in receiver:
                    number = int(str(message))
                    account.received[number] += 1
                    if number in account.completed:
                        account.seen_again.append(number)
                    try:
                        receiver.complete_message(message)
                    except MessageLockLostError:
                        continue  # the crash ended the lock: delivered again, unless that completion had been written
                    account.completed.add(number)
            # Locked messages are counted too: nothing can be delivered any more.
            if broker.queue(QUEUE)["active_message_count"] == 0:
                return
        except ServiceBusError as error:
            account.failures += 1
            console.print(f"  the consumer caught [yellow]{type(error).__name__}[/] and retries")


def kill_when(broker: Broker, is_time: threading.Event) -> None:
    is_time.wait()
    started = time.monotonic()
    broker.kill()
    broker.restart()
    console.print(f"  broker killed ([red]kill -9[/]) and serving again after {time.monotonic() - started:.1f} s")


def run_with_a_kill(broker: Broker, account: Account, title: str, work: threading.Thread, threshold: int) -> None:
    console.print(f"[bold]{title}[/]")
    is_time = threading.Event()
    killer = threading.Thread(target=kill_when, args=(broker, is_time))
    killer.start()
    work.start()
    progress = account.sent if title.startswith("Sending") else account.completed
    while work.is_alive() and not is_time.is_set():
        if len(progress) >= threshold:
            is_time.set()
        time.sleep(0.005)
    is_time.set()
    killer.join()
    work.join()


def tandem(broker: Broker, command: str) -> None:
    """Run a command as a user would type it, and print its output."""
    console.print(f"[bold]$ tandem {command}[/]")
    environment = {**os.environ, "TANDEM_CONNECTION_STRING": broker.connection_string}
    program = [sys.executable, "-m", "tandem", *command.split()]
    finished = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    console.print(finished.stdout, markup=False, highlight=False)


def report(account: Account) -> None:
    table = Table(title="Every message accounted for")
    table.add_column("what")
    table.add_column("messages", justify="right")
    for name, count in account.counts.items():
        table.add_row(MEANINGS[name], f"{count:,}")
    console.print(table)
    console.print("[green]Nothing was lost.[/]" if account.is_sound else "[red]Messages were lost or came again.[/]")


def run(messages: int) -> Account:
    """Start a broker in a temporary folder, send and receive, and return the account."""
    account = Account()
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "data") as broker:
        console.print(f"the broker serves {broker.connection_string.split(';', maxsplit=1)[0]}\n")
        tandem(
            broker, f"queue create {QUEUE} --lock-duration 5s --max-delivery-count 100 --requires-duplicate-detection"
        )
        producer = threading.Thread(target=produce, args=(broker, account, messages))
        run_with_a_kill(broker, account, f"Sending {messages:,} messages", producer, messages // 2)
        consumer = threading.Thread(target=consume, args=(broker, account))
        tandem(broker, f"peek {QUEUE} --top 3")
        run_with_a_kill(broker, account, f"Receiving {messages:,} messages", consumer, messages // 2)
        tandem(broker, "queue list")
    return account


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the account to FILE as JSON")
    arguments = parser.parse_args()
    account = run(arguments.messages)
    report(account)
    if arguments.save is not None:
        arguments.save.write_text(json.dumps(account.counts), encoding="utf-8")
    return 0 if account.is_sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
