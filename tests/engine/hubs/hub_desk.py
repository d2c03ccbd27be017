"""The desk with event hubs on it."""

from __future__ import annotations

from collections.abc import Mapping

from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import Message, encode_message
from tandem.engine.effects import Effects
from tandem.engine.hubs.description import DEFAULT_CONSUMER_GROUP, EventHubDescription
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.partition import Partition
from tandem.engine.hubs.position import START, StartPosition
from tandem.engine.hubs.receiver import EventDelivery, EventReceiver
from tandem.errors import ProtocolError
from tests.engine.desk import Desk

__all__ = ["HubDesk", "Reading", "batch", "event", "text_of"]


def event(text: str = "a", *, key: str | None = None, annotations: Mapping[str, object] | None = None) -> bytes:
    """An event as a client encodes it."""
    own: dict[str, object] = dict(annotations or {})
    if key is not None:
        own["x-opt-partition-key"] = key
    return encode_message(message_annotations=own, data=text.encode())


def batch(*events: bytes, key: str | None = None, annotations: Mapping[str, object] | None = None) -> bytes:
    """The envelope around several, to be sent with BATCH_FORMAT."""
    own: dict[str, object] = dict(annotations or {})
    if key is not None:
        own["x-opt-partition-key"] = key
    return make_batch(list(events), message_annotations=own)


def text_of(one: Event) -> str:
    data = Message(one.encoded()).data
    assert data is not None
    return data.decode()


class Reading:
    """What stands behind a receiver: it writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.error: ProtocolError | None = None
        self.drained_count = 0
        self.receiver: EventReceiver | None = None

    def deliver_events(self, delivery: EventDelivery) -> None:
        assert delivery.receiver is self.receiver
        delivery.receiver.unsent_count -= len(delivery.events)
        if delivery.receiver.is_open:
            self.events += delivery.events
        self.drained_count += delivery.is_drained
        if delivery.error is not None:
            assert self.error is None, "it is over only once"
            assert isinstance(delivery.error, ProtocolError)
            self.error = delivery.error

    @property
    def own(self) -> EventReceiver:
        assert self.receiver is not None
        return self.receiver

    @property
    def texts(self) -> list[str]:
        return [text_of(one) for one in self.events]

    @property
    def numbers(self) -> list[int]:
        return [one.sequence_number for one in self.events]

    def take(self) -> list[str]:
        """The texts of what came since the last time."""
        texts = self.texts
        self.events = []
        return texts


class HubDesk(Desk):
    """A namespace with event hubs whose effects are performed at once."""

    def hub(self, name: str = "telemetry", **fields: object) -> EventHub:
        """With one partition, unless said otherwise."""
        description = EventHubDescription.from_fields({"name": name, "partition_count": 1, **fields})
        hub = self.namespace.hubs.create(description)
        self.flush()
        return hub

    def update_hub(self, hub: EventHub, **fields: object) -> None:
        self.namespace.hubs.update(hub, EventHubDescription.from_fields({**hub.description.to_fields(), **fields}))
        self.flush()

    def append(self, hub: EventHub, *texts: str, partition: Partition | None = None) -> None:
        """Each on its own, in order."""
        for text in texts:
            hub.send(event(text), 0, partition)
        self.flush()

    def append_batch(self, hub: EventHub, *texts: str, partition: Partition | None = None) -> None:
        hub.send(batch(*[event(text) for text in texts]), BATCH_FORMAT, partition)
        self.flush()

    def open(
        self,
        partition: Partition,
        position: StartPosition = START,
        *,
        group: str = DEFAULT_CONSUMER_GROUP,
        epoch: int | None = None,
        name: str | None = None,
        credit: int = 100,
    ) -> Reading:
        """A reader with credit, that has got what there is for it."""
        reading = self.open_without_flush(partition, position, group=group, epoch=epoch, name=name, credit=credit)
        self.flush()
        return reading

    def open_without_flush(
        self,
        partition: Partition,
        position: StartPosition = START,
        *,
        group: str = DEFAULT_CONSUMER_GROUP,
        epoch: int | None = None,
        name: str | None = None,
        credit: int = 100,
    ) -> Reading:
        """A reader as part of the turn that is not over yet."""
        reading = Reading()
        reading.receiver = partition.open_receiver(reading, group, epoch, name, position)
        if credit:
            partition.grant(reading.receiver, credit, False)
        return reading

    def credit(self, reading: Reading, credit: int, *, is_draining: bool = False) -> None:
        reading.own.partition.grant(reading.own, credit, is_draining)
        self.flush()

    def close(self, reading: Reading) -> None:
        reading.own.partition.close_receiver(reading.own)
        self.flush()

    def read(self, partition: Partition, position: StartPosition = START) -> list[str]:
        """Everything from there on, in a group that nobody else reads in."""
        reading = self.open(partition, position, group="the-desk", credit=1_000_000)
        self.close(reading)
        return reading.texts

    def maintain(self) -> None:
        """What the runner does about once a second: retention takes what is too old."""
        hubs = self.namespace.hubs
        for one in self.store.events.maintain(self.now_ms, hubs.retention()):
            hubs.trimmed(one.hub_number, one.partition_id, one.begin_sequence_number, one.size_bytes)
        self.flush()

    def commit(self, batch: list[Effects], duplicates: set[int]) -> None:
        super().commit(batch, duplicates)
        for effects in batch:
            for delivery in effects.event_deliveries:
                assert isinstance(delivery.receiver.context, Reading)
                delivery.receiver.context.deliver_events(delivery)
