"""Events over HTTP: sent to a hub, to one of its partitions, or by a publisher."""

from __future__ import annotations

from aiohttp import web

from tandem.addresses import HubPath
from tandem.amqp.batch import BATCH_FORMAT, make_batch, partition_key
from tandem.amqp.message import Message
from tandem.engine.hubs.description import OPERATIONS_HUB
from tandem.engine.namespace import Namespace
from tandem.errors import ArgumentError, NotAllowed, Scope
from tandem.management.gate import Gate
from tandem.management.metered import count_as
from tandem.management.rest.broker_properties import broker_properties
from tandem.management.rest.sent import is_batch, read_batch, read_message
from tandem.wire_names import BROKER_PROPERTIES_HEADER, PARTITION_KEY

__all__ = ["send_events"]


async def send_events(gate: Gate, path: HubPath, request: web.Request, body: bytes) -> None:
    """Return when they are on disk."""
    if is_batch(request):
        events = read_batch(body)
        payload, message_format = _batch(request, events), BATCH_FORMAT
        count_as(request, "send", [len(event) for event in events])
    else:
        payload, message_format = read_message(request, body), 0
        count_as(request, "send", (len(payload),))

    def send(namespace: Namespace) -> None:
        hub = namespace.hubs.get(path.hub)
        if path.consumer_group is not None:
            raise NotAllowed(f"Events cannot be sent to a consumer group: send them to '{hub.name}'.", Scope.DELIVERY)
        partition = None if path.partition_id is None else hub.partition(path.partition_id)
        if hub.name == OPERATIONS_HUB:
            # What clients report of themselves; they cannot speak for the broker.
            partition = hub.partitions[-1]
        gate.throttle_message(hub.name, len(payload), is_partitioned=False)
        hub.send(payload, message_format, partition, path.publisher)

    await gate.perform(send)


def _batch(request: web.Request, events: list[bytes]) -> bytes:
    """All events go to one partition, and so have one key: that of the request, or of any of them."""
    keys = {key for key in map(_key, events) if key is not None}
    key = broker_properties(request.headers.get(BROKER_PROPERTIES_HEADER)).get("PartitionKey")
    if key is not None:
        if not isinstance(key, str):
            raise ArgumentError(f"BrokerProperties.PartitionKey must be a text, got {key!r:.80}")
        keys.add(key)
    if len(keys) > 1:
        first, second, *_ = sorted(keys)
        raise ArgumentError(
            f"BrokerProperties.PartitionKey is {first!r:.80} and {second!r:.80} in one batch, which goes to one "
            "partition: send a batch for each key"
        )
    return make_batch(events, message_annotations={PARTITION_KEY: keys.pop()} if keys else None)


def _key(event: bytes) -> str | None:
    return partition_key(Message(event))
