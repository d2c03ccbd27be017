"""Durable queues through the official SDK: the broker is killed twice, and every message is accounted for.

    make demo        or        python examples/kill_and_recover.py [--messages 2000]

The queue is made and looked at on the command line. A producer sends numbered messages, a consumer completes them, both
with azure-servicebus as it comes from PyPI. In the middle of sending, and again in the middle of receiving, the broker
is ended with SIGKILL and started again on the same data directory. At the end each message that was acknowledged must
have been received, and none that was completed may have come again.
"""

from __future__ import annotations

import argparse
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

console = Console()


class Account:
    """What was promised, and what came."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.received: Counter[int] = Counter()
        self.completed: set[int] = set()
        self.seen_again: list[int] = []
        self.failures = 0

    @property
    def lost(self) -> list[int]:
        return [number for number in self.sent if number not in self.received]


def produce(broker: Broker, account: Account, count: int) -> None:
    """Send until all are acknowledged. What failed is sent again, by the SDK or by us: it may have arrived, and then
    the queue knows it by its message id."""
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
            console.print(f"  the producer saw [yellow]{type(error).__name__}[/], and goes on")


def consume(broker: Broker, account: Account) -> None:
    """Receive and complete until the queue is empty."""
    while True:
        try:
            client = ServiceBusClient.from_connection_string(broker.connection_string)
            with client, client.get_queue_receiver(QUEUE, max_wait_time=5, prefetch_count=100) as receiver:
                for message in receiver:
                    number = int(str(message))
                    account.received[number] += 1
                    if number in account.completed:
                        account.seen_again.append(number)
                    try:
                        receiver.complete_message(message)
                    except MessageLockLostError:
                        continue  # its lock went with the crash: it comes again, unless it was completed in that moment
                    account.completed.add(number)
            if broker.queue(QUEUE)["active_message_count"] == 0:
                return
        except ServiceBusError as error:
            account.failures += 1
            console.print(f"  the consumer saw [yellow]{type(error).__name__}[/], and goes on")


def kill_when(broker: Broker, is_time: threading.Event) -> None:
    is_time.wait()
    started = time.monotonic()
    broker.kill()
    broker.restart()
    console.print(f"  [red]kill -9[/], and back after {time.monotonic() - started:.1f} s")


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
    """A command as a user would type it, and what it prints."""
    console.print(f"[bold]$ tandem {command}[/]")
    environment = {**os.environ, "TANDEM_CONNECTION_STRING": broker.connection_string}
    program = [sys.executable, "-m", "tandem", *command.split()]
    finished = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    console.print(finished.stdout, markup=False, highlight=False)


def report(account: Account) -> bool:
    table = Table(title="Every message accounted for")
    table.add_column("what")
    table.add_column("messages", justify="right")
    again = sum(count - 1 for count in account.received.values())
    for what, count in (
        ("acknowledged sends", len(account.sent)),
        ("received", len(account.received)),
        ("completed, and told so", len(account.completed)),
        ("lost", len(account.lost)),
        ("completed, and seen again", len(account.seen_again)),
        ("received more than once, before they were completed", again),
        ("errors that clients saw and overcame", account.failures),
    ):
        table.add_row(what, f"{count:,}")
    console.print(table)
    return not account.lost and not account.seen_again


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--messages", type=int, default=2_000)
    arguments = parser.parse_args()
    account = Account()
    with tempfile.TemporaryDirectory() as directory, Broker(Path(directory) / "data") as broker:
        console.print(f"tandem serves {broker.connection_string.split(';', maxsplit=1)[0]}\n")
        options = "--lock-duration 5s --max-delivery-count 100 --requires-duplicate-detection"
        tandem(broker, f"queue create {QUEUE} {options}")
        half = arguments.messages // 2
        producer = threading.Thread(target=produce, args=(broker, account, arguments.messages))
        run_with_a_kill(broker, account, f"Sending {arguments.messages:,} messages", producer, half)
        consumer = threading.Thread(target=consume, args=(broker, account))
        tandem(broker, f"peek {QUEUE} --top 3")
        run_with_a_kill(broker, account, f"Receiving {arguments.messages:,} messages", consumer, half)
        tandem(broker, "queue list")
    is_sound = report(account)
    console.print("[green]Nothing was lost.[/]" if is_sound else "[red]Messages were lost or came again.[/]")
    return 0 if is_sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
