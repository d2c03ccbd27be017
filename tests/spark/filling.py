"""Hubs filled with numbers, so that what arrives can be counted."""

from __future__ import annotations

from tandem.client.sync import EventData, EventHubClient
from tandem.testing import Broker

__all__ = ["fill"]


def fill(broker: Broker, hub: str, numbers: range, partition_count: int = 2, body_bytes: int = 0) -> None:
    """Events whose bodies are these numbers, padded; number n goes to partition n modulo their count."""
    with EventHubClient.from_connection_string(broker.connection_string, hub) as client, client.create_producer() as to:
        for partition in range(partition_count):
            mine = [number for number in numbers if number % partition_count == partition]
            to.send_batch([EventData(str(number).ljust(body_bytes)) for number in mine], partition_id=str(partition))
