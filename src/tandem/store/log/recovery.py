"""What a start finds: the segments by their names, the journal by its frames, the marks, and how they fit together.

A number that was given is never given again: a partition goes on behind the highest number that any of them knows.
Events between its begin and its end that nothing holds are missing; they are reported, and readers skip them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tandem.engine.hubs.record import ProducerMark
from tandem.errors import StoreCorrupt
from tandem.store.log.damage_log import DamageLog
from tandem.store.log.journal.frames import (
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
from tandem.store.log.journal.journal import Found, Place
from tandem.store.log.journal.tail import Tail, TailRecord
from tandem.store.log.partitions.partition_log import PartitionLog
from tandem.store.log.segments.segment import (
    AMQP_SUFFIX,
    ARROW_SUFFIX,
    SUMS_SUFFIX,
    TEMPORARY_SUFFIX,
    Segment,
    partition_folder,
    segment_of,
)

__all__ = [
    "Contents",
    "LogRecovery",
    "PartitionRecord",
    "ProducerRecord",
    "ScannedFolder",
    "is_leftover",
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
    # What a crash left behind of a file that was being written.
    leftovers: list[Path]
    # What is not ours.
    strangers: list[Path]
    # The names of segments without their .amqp file. Those that retention has taken may be so after a crash.
    halves: set[str]
    # Files of segments without their .arrow file: they were not finished, or it is missing.
    orphans: list[tuple[Segment, Path]]


def scan_folder(folder: Path) -> ScannedFolder:
    """By the names alone: nothing is opened."""
    arrow: dict[str, Segment] = {}
    beside: list[tuple[Segment, Path]] = []
    leftovers: list[Path] = []
    strangers: list[Path] = []
    for path in folder.iterdir() if folder.exists() else ():
        if path.suffix == TEMPORARY_SUFFIX:
            leftovers.append(path)
            continue
        segment = segment_of(path.stem)
        if segment is not None and path.suffix == ARROW_SUFFIX:
            arrow[path.stem] = segment
        elif segment is not None and path.suffix in (AMQP_SUFFIX, SUMS_SUFFIX):
            beside.append((segment, path))
        else:
            strangers.append(path)
    orphans = [(segment, path) for segment, path in beside if path.stem not in arrow]
    segments = sorted(arrow.values(), key=lambda segment: segment.first_sequence_number)
    halves = arrow.keys() - {path.stem for _, path in beside if path.suffix == AMQP_SUFFIX}
    return ScannedFolder(segments, leftovers, strangers, halves, orphans)


class Contents:
    """What the journal says of the partitions that exist, and how it goes together with the segments."""

    def __init__(
        self,
        hubs: Mapping[int, int],
        segments: Mapping[tuple[int, int], ScannedFolder],
        marks: Mapping[tuple[int, int], Position],
        damages: DamageLog,
    ) -> None:
        self._hubs = hubs
        self._marks = marks
        self._damages = damages
        self._segments = {key: folder.segments for key, folder in segments.items() if folder.segments}
        self._halves = {key: folder.halves for key, folder in segments.items() if folder.halves}
        self._sealed = {key: found[-1].next_sequence_number for key, found in self._segments.items()}
        self._positions: dict[tuple[int, int], Position] = {}
        self._tails: dict[tuple[int, int], Tail] = {}
        # Records that do not follow the one before: others lie between, and were carried over to a later place.
        self._apart: dict[tuple[int, int], list[TailRecord]] = {}
        self.producers: dict[tuple[int, int, int], ProducerMark] = {}
        self.last_hub_number = max(hubs, default=0)
        self.has_frames = False

    def _exists(self, hub_number: int, partition_id: int) -> bool:
        self.last_hub_number = max(self.last_hub_number, hub_number)
        return partition_id < self._hubs.get(hub_number, 0)

    # --- the journal ----------------------------------------------------------------------------------------

    def add_journal(self, frames: Iterator[Found]) -> None:
        """Everything that the journal says, and is not sealed already."""
        for place, frame, buffer in frames:
            self.has_frames = True
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
        if first < self._sealed.get(key, 0) and self._is_sealed(key, first):
            return
        tail = self._tails.get(key)
        if tail is None:
            tail = self._tails[key] = Tail()
        if not len(tail) or first == tail.next_sequence_number:
            tail.append(first, head.event_count, head.enqueued_at_ms, head.size_bytes, place)
        elif tail.move(first, place) is None:
            record = TailRecord(first, head.event_count, head.enqueued_at_ms, head.size_bytes, place)
            self._apart.setdefault(key, []).append(record)

    def _is_sealed(self, key: tuple[int, int], number: int) -> bool:
        """Whether a segment holds an event. One that is missing does not, and then the journal is of use."""
        segments = self._segments[key]
        at = bisect_right(segments, number, key=lambda segment: segment.first_sequence_number) - 1
        return at >= 0 and number < segments[at].next_sequence_number

    def _add_producer(self, hub_number: int, partition_id: int, mark: ProducerMark) -> None:
        key = (hub_number, partition_id, mark.producer_id)
        # Anew at the end: the order is that in which they were heard last.
        self.producers.pop(key, None)
        self.producers[key] = mark

    # --- together -------------------------------------------------------------------------------------------

    def partition(self, hub_number: int, partition_id: int, reserved: int = 0) -> PartitionLog:
        """One partition. Events between its begin and its end that are missing are reported.

        All numbers below `reserved` may have been given, if nothing else is known.
        """
        key = (hub_number, partition_id)
        partition = PartitionLog(hub_number, partition_id)
        begin, behind, partition.last_enqueued_at_ms = self._position(key)
        behind = max(behind, reserved)
        partition.begin_sequence_number = begin
        self._add_segments(partition)
        tail = partition.tail = self._tail(key, begin)
        if len(tail):
            partition.size_bytes += tail.size_bytes
            partition.last_enqueued_at_ms = max(partition.last_enqueued_at_ms, tail[-1].enqueued_at_ms)
        held = [(segment.first_sequence_number, segment.next_sequence_number) for segment in partition.segments]
        sealed = held[-1][1] if held else begin
        held += [(record.first_sequence_number, record.first_sequence_number + record.event_count) for record in tail]
        covered = begin
        for first, end in sorted(held):
            self._lose(partition, covered, first)
            covered = max(covered, end)
        self._lose(partition, covered, behind)
        covered = max(covered, behind)
        if partition.missing_columns.within(sealed, covered):
            # What the journal said of them last is lost with its records: an old number would refuse what follows.
            self._forget_producers(key)
        partition.next_sequence_number = partition.next_appended = covered
        return partition

    def _position(self, key: tuple[int, int]) -> tuple[int, int, int]:
        """Begin, next and last time of a partition by its journal and its mark: all of them only rise."""
        never = Position(*key, 0, 0, NEVER_MS)
        found, mark = self._positions.get(key, never), self._marks.get(key, never)
        begin, behind, last_at_ms = map(max, found[2:], mark[2:])
        return begin, behind, last_at_ms

    def _add_segments(self, partition: PartitionLog) -> None:
        """The segments of a partition from its begin on."""
        key = (partition.hub_number, partition.partition_id)
        covered = partition.begin_sequence_number
        for segment in self._segments.get(key, ()):
            if segment.next_sequence_number <= covered and not partition.segments:
                # Retention has taken it, and a crash brought it back.
                continue
            # Only the first may begin before the partition does.
            if partition.segments and segment.first_sequence_number < covered:
                what = f"the segment {segment.stem} has events that another one has too, and is left out"
                self._damages.add(self._damages.partition(*key), what)
                continue
            if segment.stem in self._halves.get(key, ()):
                first = max(covered, segment.first_sequence_number)
                what = f"{segment.stem}{AMQP_SUFFIX} is missing: bulk reads have them, readers over AMQP do not"
                partition.missing.add(first, segment.next_sequence_number)
                self._damages.add_events(*key, first, segment.next_sequence_number, what)
            partition.segments.append(segment)
            partition.size_bytes += segment.size_bytes
            partition.last_enqueued_at_ms = max(partition.last_enqueued_at_ms, segment.last_at_ms)
            covered = segment.next_sequence_number

    def _lose(self, partition: PartitionLog, first: int, end: int) -> None:
        if first < end:
            partition.lose(first, end)
            what = "no file of the log holds them any more"
            self._damages.add_events(partition.hub_number, partition.partition_id, first, end, what)

    def _forget_producers(self, key: tuple[int, int]) -> None:
        for producer in [producer for producer in self.producers if producer[:2] == key]:
            del self.producers[producer]

    def _tail(self, key: tuple[int, int], begin: int) -> Tail:
        """The records of a partition that no segment holds, in order. Some may be missing between them."""
        tail = self._tails.get(key, Tail())
        apart = self._apart.get(key)
        if apart:
            in_order = {record.first_sequence_number: record for record in (*tail, *apart)}
            tail = Tail()
            for _, record in sorted(in_order.items()):
                tail.append(*record)
        tail.drop_front(tail.count_before(begin))
        return tail


def is_leftover(segment: Segment, partition: PartitionLog) -> bool:
    """Whether the files of a segment without its .arrow file are those of one that was being made or deleted."""
    first = max(segment.first_sequence_number, partition.begin_sequence_number)
    end = segment.next_sequence_number
    return end <= first or partition.tail.holds(first, end)


def segments_on_disk(directory: Path, hubs: Mapping[int, int]) -> dict[tuple[int, int], ScannedFolder]:
    """What lies in the folders of the partitions that exist."""
    return {
        (hub_number, partition_id): scan_folder(partition_folder(directory, hub_number, partition_id))
        for hub_number, partitions in hubs.items()
        for partition_id in range(partitions)
        if (directory / str(hub_number)).exists()
    }
