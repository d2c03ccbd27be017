"""Issues of several stores, published once and read twice: by an inventory system, and by a dashboard of one store.

    python examples/issue_tracking.py                                    with a broker of its own

    tandem serve --dev                                                   or with yours
    python examples/issue_tracking.py --connection-string "$(tandem connection-string --dev)"

The topic is IssueTrackingTopic. Its subscription Inventory gets every issue, and holds each until it was dealt with: it
is received by peek-lock. Dashboard gets the issues of Store1 only, by the filter `StoreName = 'Store1'`, and shows each
once: it is received and deleted in one. Topic and subscriptions are made by Tandem's JSON API, as these commands would:

    tandem topic create IssueTrackingTopic
    tandem subscription create IssueTrackingTopic Inventory
    tandem subscription create IssueTrackingTopic Dashboard
    tandem rule update IssueTrackingTopic Dashboard '$Default' --sql "StoreName = 'Store1'"

Everything else is azure-servicebus as it comes from PyPI.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode, ServiceBusReceiver
from rich.console import Console
from rich.table import Table

from tandem.connection_string import ConnectionString
from tandem.errors import TandemError
from tandem.management.client import ManagementClient
from tandem.testing import Broker

TOPIC = "IssueTrackingTopic"
INVENTORY = "Inventory"
DASHBOARD = "Dashboard"
FILTER = "StoreName = 'Store1'"

ISSUES = (
    ("Store1", "the till is broken"),
    ("Store2", "no bread left"),
    ("Store1", "a light does not work"),
    ("Store3", "the door is stuck"),
    ("Store1", "milk delivered twice"),
)
ISSUES_OF_STORE1 = [what for store, what in ISSUES if store == "Store1"]

# Seconds. How long to wait for what must come: it comes at once, unless the machine is busy.
PATIENCE_S = 60.0

console = Console()


@contextlib.contextmanager
def entities(connection_string: str) -> Iterator[None]:
    """The topic and its two subscriptions, which are gone again afterwards."""
    management = ManagementClient(ConnectionString.parse(connection_string))
    management.topics.create(TOPIC, {})
    try:
        subscriptions = management.subscriptions(TOPIC)
        # Without a rule of its own a subscription gets everything.
        subscriptions.create(INVENTORY, {})
        only_store1 = {"name": "OnlyStore1", "filter": {"kind": "sql", "expression": FILTER}}
        subscriptions.create(DASHBOARD, {"rules": [only_store1]})
        yield
    finally:
        management.topics.delete(TOPIC)


def publish(client: ServiceBusClient) -> None:
    with client.get_topic_sender(TOPIC) as sender:
        for store, what in ISSUES:
            sender.send_messages(ServiceBusMessage(what, application_properties={"StoreName": store}))


def work_through_the_inventory(client: ServiceBusClient) -> list[str]:
    """Each issue is locked until it is completed. The first try fails here, and nothing is lost by that."""
    done: list[str] = []
    has_failed = False
    with client.get_subscription_receiver(TOPIC, INVENTORY, max_wait_time=PATIENCE_S) as receiver:
        for message in receiver:
            if not has_failed:
                has_failed = True
                receiver.abandon_message(message)
                continue
            receiver.complete_message(message)
            done.append(str(message))
            if len(done) == len(ISSUES):
                break
        return done + left(receiver)


def read_the_dashboard(client: ServiceBusClient) -> list[str]:
    """Each issue is gone as soon as it was received: it is shown at most once."""
    mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
    with client.get_subscription_receiver(TOPIC, DASHBOARD, receive_mode=mode, max_wait_time=PATIENCE_S) as receiver:
        shown = [str(message) for message in itertools.islice(receiver, len(ISSUES_OF_STORE1))]
        return shown + left(receiver)


def left(receiver: ServiceBusReceiver) -> list[str]:
    """Issues that nobody expects: there should be none."""
    return [str(message) for message in receiver.peek_messages(len(ISSUES), sequence_number=1)]


def show(inventory: list[str], dashboard: list[str]) -> None:
    table = Table("store", "issue", "Inventory", "Dashboard", title=TOPIC)
    for store, what in ISSUES:
        table.add_row(store, what, "done" if what in inventory else "", "shown" if what in dashboard else "")
    console.print(table)


def run(connection_string: str) -> bool:
    """Whether each subscription got exactly what it wants, in order."""
    with entities(connection_string), ServiceBusClient.from_connection_string(connection_string) as client:
        publish(client)
        inventory, dashboard = work_through_the_inventory(client), read_the_dashboard(client)
    show(inventory, dashboard)
    everything = [what for _, what in ISSUES]
    return inventory == everything and dashboard == ISSUES_OF_STORE1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--connection-string", help="of a broker that runs; without it one is started for the example")
    connection_string: str | None = parser.parse_args().connection_string
    try:
        if connection_string is not None:
            return 0 if run(connection_string) else 1
        with tempfile.TemporaryDirectory() as directory, Broker(Path(directory)) as broker:
            return 0 if run(broker.connection_string) else 1
    except TandemError as error:
        # No broker answers, or it has such a topic already.
        parser.error(str(error))


if __name__ == "__main__":
    raise SystemExit(main())
