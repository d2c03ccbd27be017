"""What clients and managers do with event hubs. They draw from a generator of their own."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import encode_message
from tandem.amqp.types import Int
from tandem.engine.description import EntityStatus
from tandem.engine.hubs.description import DEFAULT_CONSUMER_GROUP, EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.position import LATEST, START, PositionKind, StartPosition
from tandem.engine.hubs.record import ProducerMark
from tandem.errors import (
    ArgumentError,
    EntityDisabled,
    LinkStolen,
    MessageSizeExceeded,
    NotFound,
    OutOfOrderSequence,
    ProtocolError,
    QuotaExceeded,
    ResourceLimitExceeded,
)
from tests.sim.clients import Ask
from tests.sim.hub_books import HubBook, HubBooks, PartitionBook, SimEvent
from tests.sim.hub_readers import Reader
from tests.sim.ledger import Violation

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["Hubs"]

# The service's figure, stated here once more on purpose.
_READERS_WITHOUT_EPOCH: Final = 5
_MAX_SEND_BYTES: Final = 1 << 20

_PADDING: Final = bytes(200_000)
_KEYS: Final = ("", "a", "b", "schlüssel", "x" * 128)
_GROUPS: Final = (DEFAULT_CONSUMER_GROUP, "audit")
_EPOCHS: Final = ((None,), (None, None, 0, 1, 2), (0, 1, 2))
_RETENTIONS_MS: Final = (None, 60_000, 60_000, 600_000)
_NUMBER: Final = "com.microsoft:producer-sequence-number"


class Hubs:
    """The event hubs of one run, those who read them and those who fill them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.random = Random(f"hubs of {world.seed}")
        self.books = HubBooks(world.ledger)
        self.readers: list[Reader] = []
        # Those that the broker has to tell that it is over.
        self.ending: list[Reader] = []
        self.uid = 0
        draw = self.random.random
        # Some runs have no hubs.
        self.hub_count = (0, 1, 2)[int(draw() * 3)]
        # How often a step is about hubs too.
        self.share = (0.1, 0.3, 0.6)[int(draw() * 3)]
        self._batch_size = (3, 30)[int(draw() * 2)]
        self._credit = (3, 40, 400)[int(draw() * 3)]
        self._large_share = (0.0, 0.0, 0.2)[int(draw() * 3)]
        self._large_bytes = 120_000
        self._reader_count = (3, 8, 14)[int(draw() * 3)]
        self._epochs: tuple[int | None, ...] = _EPOCHS[int(draw() * len(_EPOCHS))]
        weights: dict[Callable[[], None], float] = {
            self.append: 150,
            self.produce: 30,
            self.open: 25,
            self.close: 6,
            self.flow: 80,
            self.pause: 8,
            self.create: 4,
            self.update: 3,
            self.delete: 1,
        }
        self._actions = [one for one, weight in weights.items() for _ in range(round(weight * (0.3 + 2 * draw())))]

    def act(self, _: World) -> None:
        if not self.books.hubs:
            self.create()
        else:
            self._actions[int(self.random.random() * len(self._actions))]()

    # --- managers -------------------------------------------------------------------------------------------

    def _describe(self, name: str, partition_count: int) -> EventHubDescription:
        random = self.random.random
        status = EntityStatus.ACTIVE
        if random() < 0.15:
            status = list(EntityStatus)[int(random() * 4)]
        return EventHubDescription(
            name,
            partition_count=partition_count,
            retention_ms=_RETENTIONS_MS[int(random() * len(_RETENTIONS_MS))],
            status=status,
            consumer_groups=["audit"] if random() < 0.7 else [],
        )

    def create(self) -> None:
        world = self._world
        name = f"h-{int(self.random.random() * 3)}"
        if len(self.books.hubs) >= self.hub_count or world.namespace.hubs.find(name) is not None:
            return
        description = self._describe(name, 1 + int(self.random.random() * 3))
        world.note(f"create {description.to_fields()}")
        hub = world.namespace.hubs.create(description)
        if hub.number <= self.books.last_hub_number:
            raise Violation("a hub has a number of its own", f"{name} got {hub.number}")
        self.books.put(hub.number, description, world.now_ms)
        world.namespace.effects.reply(Ask(world, f"create {name}"), None)

    def update(self) -> None:
        world = self._world
        book = self._pick_hub()
        description = self._describe(book.description.name, book.description.partition_count)
        world.note(f"update {description.to_fields()}")
        for reader in self._readers_of(book):
            if description.find_group(reader.group) is None:
                reader.end_with(NotFound)
            elif not description.can_receive:
                reader.end_with(EntityDisabled)
        self._forget_closed()
        self.books.put(book.number, description, world.now_ms)
        world.namespace.hubs.update(self._hub(book), description)
        world.namespace.effects.reply(Ask(world, f"update {description.name}"), None)

    def delete(self) -> None:
        world = self._world
        book = self._pick_hub()
        world.note(f"delete {book.description.name}")
        hub = self._hub(book)
        for reader in self._readers_of(book):
            reader.end_with(NotFound)
        self._forget_closed()
        self.books.drop(book.number)
        world.namespace.hubs.delete(hub)
        world.namespace.effects.reply(Ask(world, f"delete {book.description.name}"), None)

    def _hub(self, book: HubBook) -> EventHub:
        hub = self._world.namespace.hubs.find(book.description.name)
        if hub is None or hub.number != book.number:
            raise Violation("hubs are what they were made", f"{book.description.name} is not there")
        return hub

    def _pick_hub(self) -> HubBook:
        hubs = self.books.hubs
        return hubs[int(self.random.random() * len(hubs))]

    def _pick_partition(self) -> tuple[HubBook, PartitionBook]:
        hub = self._pick_hub()
        return hub, hub.partitions[int(self.random.random() * len(hub.partitions))]

    # --- those who fill them --------------------------------------------------------------------------------

    def _make(self, key: str | None, number: int | None = None) -> tuple[bytes, int]:
        """An event that nobody has sent before, as to its last eight bytes."""
        random = self.random.random
        self.uid += 1
        size = int(random() * (self._large_bytes if random() < self._large_share else 100))
        annotations: dict[str, object] = {}
        if key is not None:
            annotations["x-opt-partition-key"] = key
        if number is not None:
            annotations[_NUMBER] = Int(number)
        data = _PADDING[:size] + self.uid.to_bytes(8, "big")
        return encode_message(message_annotations=annotations, data=data), self.uid

    def append(self) -> None:
        """One event or a batch, for a partition, for a key, or for whichever comes next."""
        random = self.random.random
        book, partition = self._pick_partition()
        draw = random()
        key = _KEYS[int(random() * len(_KEYS))] if draw < 0.4 else None
        named = partition if draw > 0.7 else None
        if random() < 0.5:
            payload, uid = self._make(key)
            uids, message_format = [uid], 0
        else:
            made = [self._make(None) for _ in range(1 + int(random() * self._batch_size))]
            annotations: dict[str, object] = {} if key is None else {"x-opt-partition-key": key}
            payload = make_batch([one for one, _ in made], message_annotations=annotations)
            uids, message_format = [uid for _, uid in made], BATCH_FORMAT
        self._send(book, named, payload, message_format, uids, key)

    def produce(self) -> None:
        """An idempotent producer goes on, repeats its last transfer, uses an old number, or leaves one out."""
        random = self.random.random
        book, partition = self._pick_partition()
        producer_id = int(random() * 3)
        last, repeated = self.books.last_transfer(partition, producer_id)
        mark = ProducerMark(producer_id, 0, 0)
        count = 1 + int(random() * 3)
        draw = random()
        if repeated and draw < 0.2:
            self._send(book, partition, repeated, BATCH_FORMAT, [], None, mark)
            return
        number = last + 1
        if repeated and draw < 0.3:
            number = 1 + int(random() * last)
        elif repeated and draw > 0.9:
            number = last + 2 + int(random() * 5)
        made = [self._make(None, number + at) for at in range(count)]
        payload = make_batch([one for one, _ in made], message_annotations={_NUMBER: Int(number)})
        uids = [uid for _, uid in made]
        try:
            is_taken = self._send(book, partition, payload, BATCH_FORMAT, uids, None, mark)
        except OutOfOrderSequence as error:
            if number == last + 1:
                raise Violation("a producer that goes on is not refused", f"{number} after {last}: {error}") from error
            return
        if number != last + 1 and is_taken:
            raise Violation("old numbers and gaps are refused", f"{number} after {last}")
        if is_taken:
            self.books.put_last_transfer(partition, producer_id, number + count - 1, payload)

    def _is_reason(self, error: Exception, book: HubBook, payload: bytes) -> bool:
        """Whether there is one to refuse a send like that."""
        if isinstance(error, EntityDisabled):
            return not book.description.can_send
        if isinstance(error, MessageSizeExceeded):
            return len(payload) > _MAX_SEND_BYTES
        return self._world.namespace.is_disk_full

    def _send(
        self,
        book: HubBook,
        named: PartitionBook | None,
        payload: bytes,
        message_format: int,
        uids: list[int],
        key: str | None,
        mark: ProducerMark | None = None,
    ) -> bool:
        """Whether it was taken. `uids` are the events that must be there then."""
        world = self._world
        hub = self._hub(book)
        effects = world.namespace.effects
        before = len(effects.events)
        partition = None if named is None else hub.partitions[named.partition_id]
        world.note(f"append {uids} to {book.description.name}/{named}")
        try:
            hub.send(payload, message_format, partition, None, mark)
        except (EntityDisabled, MessageSizeExceeded, QuotaExceeded) as error:
            if not self._is_reason(error, book, payload):
                raise Violation(
                    "a send is refused only for a reason", f"to {book.description.name}: {error!r}"
                ) from error
            return False
        if not book.description.can_send:
            raise Violation("a disabled hub takes nothing", book.description.name)
        if len(payload) > _MAX_SEND_BYTES:
            raise Violation("a hub takes no more than it says", f"{len(payload)} bytes")
        records = effects.events[before:]
        if len(records) != bool(uids):
            raise Violation("what is sent is stored once", f"{len(records)} records for {uids}")
        if not uids:
            world.namespace.effects.reply(Ask(world, "append of what was there"), None)
            return True
        (record,) = records
        chosen = book.partitions[record.partition_id]
        if named is not None and chosen is not named:
            raise Violation("a batch lands in one partition", f"{uids} went to {chosen} instead of {named}")
        if key is not None and named is None and book.homes.setdefault(key, chosen.partition_id) != chosen.partition_id:
            raise Violation("a key stays in its partition", f"{key!r} went to {chosen}")
        at_ms = max(world.namespace.now_ms, chosen.last_at_ms)
        found = (record.first_sequence_number, record.count, record.enqueued_at_ms)
        if found != (len(chosen.events), len(uids), at_ms):
            raise Violation("numbers have no gaps and times do not fall", f"{found} for {uids} in {chosen}")
        events = [SimEvent(uid, at_ms, key, len(payload) // len(uids)) for uid in uids]
        self.books.append(chosen, events)

        def released(_: object) -> None:
            for event in events:
                event.is_acknowledged = True

        world.namespace.effects.reply(Ask(world, f"append of {uids}", released), None)
        return True

    # --- those who read them --------------------------------------------------------------------------------

    def _readers_of(self, book: HubBook) -> list[Reader]:
        return [one for one in self.readers if one.is_open and one.book.hub_number == book.number]

    def _forget_closed(self) -> None:
        self.ending = [one for one in self.ending + self.readers if one.reason is not None]
        self.readers = [one for one in self.readers if one.is_open]

    def _pick_reader(self) -> Reader | None:
        self._forget_closed()
        return self.readers[int(self.random.random() * len(self.readers))] if self.readers else None

    def open(self) -> None:
        world = self._world
        random = self.random.random
        book, partition = self._pick_partition()
        group = _GROUPS[int(random() * len(_GROUPS))]
        if random() < 0.5:
            # Where many are that have to get along.
            book, group = self.books.hubs[0], _GROUPS[0]
            partition = book.partitions[0]
        known = book.description.find_group(group)
        # What the link itself looks after.
        if len(self.readers) >= self._reader_count or known is None or not book.description.can_receive:
            return
        epoch = self._epochs[int(random() * len(self._epochs))]
        position = self._draw_position(partition)
        reader = Reader(world, partition, known, epoch)
        place = self._hub(book).partitions[partition.partition_id]
        others = [one for one in self.readers if one.is_open and one.book is partition and one.group == known]
        expected = self._refusal(epoch, others)
        world.note(f"open {reader} at {position.kind.value} {position.value} {position.is_inclusive}")
        before = len(world.namespace.effects.queries)
        try:
            # Those that it displaces are told so in this very call, and not a moment later.
            reader.receiver = place.open_receiver(reader, known, epoch, None, position)
        except (LinkStolen, ResourceLimitExceeded) as error:
            if expected is None or not isinstance(error, expected):
                raise Violation("a reader is refused only for a reason", f"{reader}: {error!r}") from error
            return
        if expected is not None:
            raise Violation("there is one owner", f"{reader} was let in beside {others}")
        if epoch is not None:
            for other in others:
                other.end_with(LinkStolen)
        self._place(reader, position, before)
        self.readers.append(reader)
        self._forget_closed()
        if reader.is_open:
            self._grant(reader, 1 + int(random() * self._credit), False)

    def _refusal(self, epoch: int | None, others: list[Reader]) -> type[ProtocolError] | None:
        highest = max([one.epoch for one in others if one.epoch is not None], default=None)
        if highest is not None and (epoch is None or epoch < highest):
            return LinkStolen
        if epoch is None and len(others) >= _READERS_WITHOUT_EPOCH:
            return ResourceLimitExceeded
        return None

    def _draw_position(self, book: PartitionBook) -> StartPosition:
        random = self.random.random
        draw = random()
        if draw < 0.4:
            return START
        if draw < 0.55:
            return LATEST
        is_inclusive = random() < 0.5
        if draw < 0.8 or not book.events:
            kind = (PositionKind.OFFSET, PositionKind.SEQUENCE_NUMBER)[int(random() * 2)]
            return StartPosition(kind, int(random() * (len(book.events) + 2)), is_inclusive)
        event = book.events[int(random() * len(book.events))]
        at_ms = event.at_ms + int((random() - 0.5) * 2_000)
        return StartPosition(PositionKind.ENQUEUED_TIME, at_ms, is_inclusive)

    def _place(self, reader: Reader, position: StartPosition, queries_before: int) -> None:
        """Where it begins: known at once, or when the store is asked."""
        world = self._world
        book = reader.book
        if position is START:
            reader.following = 0
        elif position is LATEST:
            reader.following = book.committed_count
        elif position.kind is PositionKind.ENQUEUED_TIME:
            query = world.namespace.effects.queries[queries_before]

            def asked() -> None:
                reader.following = book.first_at(position.first)

            world.disk.before[query] = asked
        elif position.value >= book.committed_count:
            reader.end_with(ArgumentError)
        else:
            reader.following = position.first

    def _grant(self, reader: Reader, credit: int, is_draining: bool) -> None:
        reader.credit = credit
        reader.is_draining = is_draining
        receiver = reader.own
        receiver.partition.grant(receiver, max(0, credit - receiver.unsent_count), is_draining)

    def flow(self) -> None:
        reader = self._pick_reader()
        if reader is not None:
            random = self.random.random
            self._grant(reader, int(random() * self._credit), random() < 0.3)

    def pause(self) -> None:
        """Its connection is congested, or is not any more."""
        reader = self._pick_reader()
        if reader is None:
            return
        reader.is_paused = not reader.is_paused
        if reader.is_paused:
            reader.own.is_paused = True
        else:
            reader.own.partition.wake(reader.own)

    def close(self) -> None:
        reader = self._pick_reader()
        if reader is not None:
            reader.is_open = False
            self._world.note(f"close {reader}")
            reader.own.partition.close_receiver(reader.own)

    def crash(self) -> None:
        """The process is gone, and with it everybody's link."""
        self.readers.clear()
        self.ending.clear()
        self.books.crash()
