"""Writes what the broker does to an event hub of its own, `$operations`, once a second.

The records are events like others: kept, replayed and read by whoever has the right to. Partition 0 is the broker's;
what clients report of themselves, such as a failover, goes to partition 1, so that nobody can forge a record.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from tandem.amqp.batch import make_batch
from tandem.amqp.message import Properties, encode_message
from tandem.engine.hubs.description import OPERATIONS_HUB, EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.metering import OperationRecord

if TYPE_CHECKING:
    from tandem.engine.namespace import Namespace
    from tandem.server.runner import Runner

__all__ = ["BROKER_PARTITION", "OPERATIONS_PARTITIONS", "OperationsRecorder", "operation_fields"]

BROKER_PARTITION: Final = 0
OPERATIONS_PARTITIONS: Final = 2

# Milliseconds. Thirty days: a month can be charged.
_RETENTION_MS: Final = 2_592_000_000

_INTERVAL_S: Final = 1.0

# Records in one batch: some hundred kilobytes, well below the largest size of an event.
_MAX_RECORDS_PER_BATCH: Final = 1_000

_JSON: Final = Properties(content_type="application/json")


class OperationsRecorder:
    """Appends the records of a namespace to its hub of operations."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._namespace = runner.namespace
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """The hub is made at the first start, and stays as its owner set it from then on."""
        self._runner.begin()
        operations_hub(self._namespace)
        self._runner.finish()
        self._timer = self._loop.call_later(_INTERVAL_S, self._on_time)

    def _on_time(self) -> None:
        # To begin a turn ends the second before it.
        self._runner.begin()
        self._append(self._namespace.meter.take())
        self._runner.finish()
        self._timer = self._loop.call_later(_INTERVAL_S, self._on_time)

    def stop(self) -> None:
        """What was counted last is written with all else that is written before the end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._runner.begin()
            self._append(self._namespace.meter.take_all())
            self._runner.finish()

    def abandon(self) -> None:
        """Write nothing more: the memory of the namespace is given up."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _append(self, records: list[OperationRecord]) -> None:
        if self._namespace.is_disk_full:
            # Clients come first: what could not be told is not told.
            return
        hub = operations_hub(self._namespace)
        for first in range(0, len(records), _MAX_RECORDS_PER_BATCH):
            portion = records[first : first + _MAX_RECORDS_PER_BATCH]
            events = [
                encode_message(
                    properties=_JSON, data=[msgspec.json.encode(operation_fields(self._namespace.name, record))]
                )
                for record in portion
            ]
            partition = hub.partitions[BROKER_PARTITION]
            partition.append(make_batch(events), True, len(events), None, None, None)


def operations_hub(namespace: Namespace) -> EventHub:
    hub = namespace.hubs.find(OPERATIONS_HUB)
    if hub is None:
        hub = namespace.hubs.create(
            EventHubDescription(OPERATIONS_HUB, partition_count=OPERATIONS_PARTITIONS, retention_ms=_RETENTION_MS)
        )
    return hub


def operation_fields(namespace: str, record: OperationRecord) -> dict[str, object]:
    """A record as it is read: `latency_ms_buckets` counts by upper bound in milliseconds."""
    return {
        "time": datetime.fromtimestamp(record.second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "namespace": namespace,
        "entity": record.entity,
        "entity_kind": record.entity_kind,
        "operation": record.operation,
        "stage": record.stage,
        "outcome": record.outcome,
        "client": record.client,
        "count": record.count,
        "bytes": record.size_bytes,
        "billable_units": record.billable_units,
        "latency_ms_buckets": {"inf" if bound < 0 else str(bound): count for bound, count in record.latencies.items()},
    }
