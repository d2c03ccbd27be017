"""What a start finds: the segments by their names, the journal by its frames, and how both fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tandem.engine.hubs.record import ProducerMark
from tandem.errors import StoreCorrupt
from tandem.store.log.frames import (
    EVENTS,
    HUB_DROPPED,
    NEVER_MS,
    POSITION,
    PRODUCER,
    Position,
    RecordHead,
    decode_hub_dropped,
    decode_position,
    decode_producer,
    decode_record_head,
)
from tandem.store.log.journal import Found, Place
from tandem.store.log.partition_log import PartitionLog
from tandem.store.log.segment import (
    AMQP_SUFFIX,
    ARROW_SUFFIX,
    TEMPORARY_SUFFIX,
    Segment,
    partition_folder,
    segment_of,
)
from tandem.store.log.tail import Tail, TailRecord

__all__ = [
    "Contents",
    "LogRecovery",
    "PartitionRecord",
    "ProducerRecord",
    "ScannedFolder",
    "scan_folder",
    "segments_on_disk",
]


class PartitionRecord(NamedTuple):
    """Where a partition stands."""

    hub_number: int
    partition_id: int
    begin_sequence_number: int
    next_sequence_number: int
    # None if it never had an event.
    last_enqueued_at_ms: int | None
    size_bytes: int


class ProducerRecord(NamedTuple):
    """Where an idempotent producer stands."""

    hub_number: int
    partition_id: int
    mark: ProducerMark


class LogRecovery(NamedTuple):
    """What has to be in memory when a broker starts."""

    partitions: list[PartitionRecord]
    # Those that were silent longest first.
    producers: list[ProducerRecord]
    # The highest number that a hub ever had, as far as it is known here.
    last_hub_number: int


class ScannedFolder(NamedTuple):
    """What lies in the folder of a partition."""

    # Oldest first.
    segments: list[Segment]
    # What a crash left behind of segments that were not finished.
    leftovers: list[Path]
    # What is not ours.
    strangers: list[Path]
    # The names of segments without their .amqp file. Those that retention has taken may be so after a crash.
    halves: set[str]


def scan_folder(folder: Path) -> ScannedFolder:
    """By the names alone: nothing is opened."""
    arrow: dict[str, Segment] = {}
    amqp: dict[str, Path] = {}
    leftovers: list[Path] = []
    strangers: list[Path] = []
    for path in folder.iterdir() if folder.exists() else ():
        if path.suffix == TEMPORARY_SUFFIX:
            leftovers.append(path)
            continue
        segment = segment_of(path.stem)
        if segment is not None and path.suffix == ARROW_SUFFIX:
            arrow[path.stem] = segment
        elif segment is not None and path.suffix == AMQP_SUFFIX:
            amqp[path.stem] = path
        else:
            strangers.append(path)
    leftovers += [path for stem, path in amqp.items() if stem not in arrow]
    segments = sorted(arrow.values(), key=lambda segment: segment.first_sequence_number)
    return ScannedFolder(segments, leftovers, strangers, arrow.keys() - amqp.keys())


class Contents:
    """What the journal says of the partitions that exist, and how it goes together with the segments."""

    def __init__(self, hubs: Mapping[int, int], segments: Mapping[tuple[int, int], ScannedFolder]) -> None:
        self._hubs = hubs
        self._segments = {key: folder.segments for key, folder in segments.items() if folder.segments}
        self._halves = {key: folder.halves for key, folder in segments.items() if folder.halves}
        self._sealed = {key: found[-1].next_sequence_number for key, found in self._segments.items()}
        self._positions: dict[tuple[int, int], Position] = {}
        self._tails: dict[tuple[int, int], Tail] = {}
        # Records that do not follow the one before: others lie between, and were carried over to a later place.
        self._apart: dict[tuple[int, int], list[TailRecord]] = {}
        self.producers: dict[tuple[int, int, int], ProducerMark] = {}
        self.last_hub_number = max(hubs, default=0)

    def _exists(self, hub_number: int, partition_id: int) -> bool:
        self.last_hub_number = max(self.last_hub_number, hub_number)
        return partition_id < self._hubs.get(hub_number, 0)

    # --- the journal ----------------------------------------------------------------------------------------

    def add_journal(self, frames: Iterator[Found]) -> None:
        """Everything that the journal says, and is not sealed already."""
        for place, frame, buffer in frames:
            if frame.kind == EVENTS:
                head = decode_record_head(buffer, frame)
                if self._exists(head.hub_number, head.partition_id):
                    self._add_record(head, place)
            elif frame.kind == POSITION:
                position = decode_position(buffer, frame)
                if self._exists(position.hub_number, position.partition_id):
                    # Positions only rise, so the last one is the highest.
                    self._positions[position.hub_number, position.partition_id] = position
            elif frame.kind == PRODUCER:
                hub_number, partition_id, mark = decode_producer(buffer, frame)
                if self._exists(hub_number, partition_id):
                    self._add_producer(hub_number, partition_id, mark)
            elif frame.kind == HUB_DROPPED:
                self.last_hub_number = max(self.last_hub_number, decode_hub_dropped(buffer, frame))
            else:
                raise StoreCorrupt(
                    f"file {place.file_number} of the journal has a record of the unknown kind {frame.kind} at "
                    f"{place.position}: it was written by a newer version"
                )

    def _add_record(self, head: RecordHead, place: Place) -> None:
        key = (head.hub_number, head.partition_id)
        if head.producer is not None:
            self._add_producer(*key, head.producer)
        first = head.first_sequence_number
        if first < self._sealed.get(key, 0):
            return
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = Tail()
        if not len(tail) or first == tail.next_sequence_number:
            tail.append(first, head.event_count, head.enqueued_at_ms, head.size_bytes, place)
        elif tail.move(first, place) is None:
            record = TailRecord(first, head.event_count, head.enqueued_at_ms, head.size_bytes, place)
            self._apart.setdefault(key, []).append(record)

    def _add_producer(self, hub_number: int, partition_id: int, mark: ProducerMark) -> None:
        key = (hub_number, partition_id, mark.producer_id)
        # Anew at the end: the order is that in which they were heard last.
        self.producers.pop(key, None)
        self.producers[key] = mark

    # --- together -------------------------------------------------------------------------------------------

    def partition(self, hub_number: int, partition_id: int) -> PartitionLog:
        """One partition. StoreCorrupt if an event between its begin and its end is missing."""
        key = (hub_number, partition_id)
        position = self._positions.get(key, Position(hub_number, partition_id, 0, 0, NEVER_MS))
        partition = PartitionLog(hub_number, partition_id)
        partition.last_enqueued_at_ms = position.last_enqueued_at_ms
        covered = partition.begin_sequence_number = position.begin_sequence_number
        for segment in self._segments.get(key, ()):
            if segment.next_sequence_number <= covered and not partition.segments:
                # Retention has taken it, and a crash brought it back.
                continue
            # Only the first may begin before the partition does.
            if segment.first_sequence_number > covered or (
                partition.segments and segment.first_sequence_number < covered
            ):
                raise _gap(partition, covered, segment.first_sequence_number)
            if segment.stem in self._halves.get(key, ()):
                raise StoreCorrupt(
                    f"hub {hub_number}, partition {partition_id}: {segment.stem}{AMQP_SUFFIX} is missing; "
                    "run `tandem check`"
                )
            partition.segments.append(segment)
            partition.size_bytes += segment.size_bytes
            partition.last_enqueued_at_ms = max(partition.last_enqueued_at_ms, segment.last_at_ms)
            covered = segment.next_sequence_number
        tail = partition.tail = self._tail(key, covered)
        if len(tail):
            if tail[0].first_sequence_number != covered:
                raise _gap(partition, covered, tail[0].first_sequence_number)
            partition.size_bytes += tail.size_bytes
            partition.last_enqueued_at_ms = max(partition.last_enqueued_at_ms, tail[-1].enqueued_at_ms)
            covered = tail.next_sequence_number
        if covered < position.next_sequence_number:
            raise _gap(partition, covered, position.next_sequence_number)
        partition.next_sequence_number = partition.next_appended = covered
        return partition

    def _tail(self, key: tuple[int, int], covered: int) -> Tail:
        """The records of a partition from this number on, in order."""
        tail = self._tails.get(key, Tail())
        apart = self._apart.get(key)
        if apart:
            in_order = {record.first_sequence_number: record for record in (*tail, *apart)}
            tail = Tail()
            for _, record in sorted(in_order.items()):
                if len(tail) and record.first_sequence_number != tail.next_sequence_number:
                    if record.first_sequence_number > covered:
                        raise _gap(PartitionLog(*key), tail.next_sequence_number, record.first_sequence_number)
                    tail = Tail()
                tail.append(*record)
        if len(tail) and tail[0].first_sequence_number < covered:
            if tail.next_sequence_number <= covered:
                return Tail()
            tail.drop_front(tail.index_of(covered))
        return tail


def _gap(partition: PartitionLog, covered: int, first: int) -> StoreCorrupt:
    return StoreCorrupt(
        f"hub {partition.hub_number}, partition {partition.partition_id}: events are there up to {covered}, and then "
        f"from {first} on; run `tandem check`"
    )


def segments_on_disk(directory: Path, hubs: Mapping[int, int]) -> dict[tuple[int, int], ScannedFolder]:
    """What lies in the folders of the partitions that exist."""
    return {
        (hub_number, partition_id): scan_folder(partition_folder(directory, hub_number, partition_id))
        for hub_number, partitions in hubs.items()
        for partition_id in range(partitions)
        if (directory / str(hub_number)).exists()
    }
