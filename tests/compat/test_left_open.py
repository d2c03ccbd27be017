"""The official SDK forgets its socket when it closes a connection whose broker is gone."""

from __future__ import annotations

import gc
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tandem.testing import Broker


def test_a_socket_that_the_sdk_leaves_open_fails_no_test(tmp_path: Path) -> None:
    with Broker(tmp_path, arguments=("--dev",)) as broker:
        broker.create_queue("orders")
        client = ServiceBusClient.from_connection_string(broker.connection_string, retry_total=0)
        sender = client.get_queue_sender("orders")
        sender.send_messages(ServiceBusMessage("sent"))
        broker.kill()
        sender.close()
        client.close()
    del client, sender
    # Reports what was left open, and would fail the test that runs meanwhile.
    gc.collect()
