"""A log of event hubs with everything in it, what it holds, and which events a fault in one of its files touches."""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from tandem.amqp.batch import make_batch
from tandem.amqp.message import Properties, encode_message
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord, ProducerMark, transfer_checksum
from tandem.store.log.damage_log import DamageLog, EventsDamaged
from tandem.store.log.event_log import EventLog
from tandem.store.log.files import DiskFiles
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.segments.checksums import BatchIndex
from tandem.store.log.segments.open_segment import OpenSegment
from tandem.store.log.segments.segment import Segment, partition_folder, segment_of
from tests.store.faults import Fault
from tests.store.log.disk import InlineSealer

__all__ = [
    "HUBS",
    "NAMES",
    "Content",
    "Key",
    "Variant",
    "affected",
    "append_more",
    "make_variants",
    "open_log",
    "read_content",
]

ORDERS: Final = 1_700_000_000_000
TRIMMED: Final = ORDERS + 1
QUIET: Final = ORDERS + 2
DROPPED: Final = ORDERS + 3
HUBS: Final = {ORDERS: 2, TRIMMED: 1, QUIET: 1}
NAMES: Final = {ORDERS: "orders", TRIMMED: "trimmed", QUIET: "quiet"}

# Small enough that some thousand events go through everything that can happen.
LIMITS: Final = LogLimits(
    rotate_bytes=16_000,
    journal_bytes=48_000,
    seal_bytes=16_000,
    seal_events=70,
    segment_bytes=20_000,
    segment_events=140,
    carry_below_bytes=2_000,
    batch_rows=30,
    batch_bytes=8_000,
)

Key = tuple[int, int]


@dataclass
class Content:
    """Everything that a log serves, by partition and number."""

    events: dict[Key, dict[int, bytes]] = field(default_factory=dict)
    # Tables of Arrow.
    rows: dict[Key, Any] = field(default_factory=dict)
    begins: dict[Key, int] = field(default_factory=dict)
    nexts: dict[Key, int] = field(default_factory=dict)


@dataclass
class Variant:
    """A folder with a log, as a broker left it, and what is in it."""

    name: str
    directory: Path
    content: Content
    # By file of the journal: where the record of some events lies, that lie nowhere else.
    records: dict[str, list[tuple[int, int, Key, int, int]]]
    reserved: dict[int, list[int]]
    # Up to where each file of the journal was on disk.
    durable: dict[str, int]

    @property
    def home(self) -> Path:
        return self.directory / "hubs"

    def files(self) -> dict[str, list[Path]]:
        """By kind."""
        found: dict[str, list[Path]] = {"marks": [self.directory / "hubs.marks"]}
        for path in sorted(self.home.rglob("*")):
            if path.is_file() and path.suffix != ".lock":
                found.setdefault(path.suffix.removeprefix("."), []).append(path)
        return found

    def folders(self) -> list[Path]:
        return [path for path in [self.home, *sorted(self.home.rglob("*"))] if path.is_dir()]


class UnsyncedFiles(DiskFiles):
    """Files on a machine whose power is not lost."""

    def sync(self, descriptor: int) -> None:
        """It takes time, and changes nothing."""

    def sync_folder(self, path: Path) -> None:
        """It takes time, and changes nothing."""


def open_log(directory: Path) -> EventLog:
    files = UnsyncedFiles()
    return EventLog(directory / "hubs", limits=LIMITS, files=files, sealer=InlineSealer(files))


def make_variants(folder: Path) -> list[Variant]:
    """The same log, left by a broker that was stopped in order, and by one that was killed in the middle of a write."""
    directory = folder / "made"
    log = open_log(directory)
    log.recover({**HUBS, DROPPED: 1})
    _fill(log)
    records = _records(log)
    reserved = dict(log.unreserved())
    durable = {f"journal/{file.path.name}": file.size_bytes for file in log._journal.files.values()}
    # What the last write has left of a record that nobody was told of.
    log.append([_record((ORDERS, 0), log._table.get(ORDERS, 0).next_appended, 3, 2_000_000)])
    torn = bytes(log._journal._small)[:-20]
    killed = folder / "killed"
    shutil.copytree(directory, killed)
    log.close()
    stopped = folder / "stopped"
    shutil.copytree(directory, stopped)
    last = max((killed / "hubs" / "journal").iterdir())
    last.write_bytes(last.read_bytes() + torn)
    variants = []
    for path in (stopped, killed):
        scratch = folder / "scratch"
        shutil.copytree(path, scratch)
        log = open_log(scratch)
        log.recover(HUBS)
        found = read_content(log)
        log.close()
        shutil.rmtree(scratch)
        variants.append(Variant(path.name, path, found, records, reserved, durable))
    return variants


def _fill(log: EventLog) -> None:
    numbers = dict.fromkeys([(ORDERS, 0), (ORDERS, 1), (TRIMMED, 0), (QUIET, 0), (DROPPED, 0)], 0)
    for turn in range(60):
        now_ms = 1_000_000 + 1_000 * turn
        for key in numbers:
            if (key[0] == QUIET and turn % 20) or (key[0] == DROPPED and turn > 20):
                continue
            record = _record(key, numbers[key], 1 + turn % 7, now_ms)
            numbers[key] = record.next_sequence_number
            log.append([record])
        _commit(log)
        if turn == 21:
            log.drop_hub(DROPPED)
        log.maintain(now_ms, {TRIMMED: (25_000, None)})
        _commit(log)
        while log.sweep():
            pass


def _commit(log: EventLog) -> None:
    if log.has_uncommitted:
        log.commit()
    log.committed()


def _record(key: Key, first: int, count: int, now_ms: int) -> EventRecord:
    messages = [
        encode_message(
            properties=Properties(message_id=f"{number}"),
            application_properties={"number": number, "hub": key[0]},
            message_annotations={"x-mine": number} if number % 3 else None,
            data=f"event {number} of {key}".encode() + b"." * (number * 37 % 200),
        )
        for number in range(first, first + count)
    ]
    payload = make_batch(messages) if count > 1 else messages[0]
    producer = ProducerMark(7, 1, first + count - 1, count, transfer_checksum(payload)) if key[1] == 0 else None
    return EventRecord(
        *key, first, count, now_ms, payload, count > 1, f"key {first % 5}" if first % 2 else None, None, producer
    )


def _records(log: EventLog) -> dict[str, list[tuple[int, int, Key, int, int]]]:
    found: dict[str, list[tuple[int, int, Key, int, int]]] = {}
    for partition in log._table:
        key = (partition.hub_number, partition.partition_id)
        for record in partition.tail:
            place = record.place
            name = f"journal/{place.file_number:010d}.journal"
            end = record.first_sequence_number + record.event_count
            found.setdefault(name, []).append(
                (place.position, place.position + place.length, key, record.first_sequence_number, end)
            )
    return found


def append_more(log: EventLog, turns: int) -> None:
    """Append 30 events in each turn to each partition. After some turns they are sealed."""
    for turn in range(turns):
        now_ms = 10_000_000 + 1_000 * turn
        for partition in list(log._table):
            key = (partition.hub_number, partition.partition_id)
            log.append([_record(key, partition.next_appended, 30, now_ms)])
        _commit(log)
        log.maintain(now_ms, {})
        _commit(log)


# --- reading ----------------------------------------------------------------------------------------------------------


def read_content(log: EventLog, has_rows: bool = True) -> Content:
    """Read everything, as a reader over AMQP does and as Spark does, some of it at a time."""
    content = Content()
    for partition in list(log._table):
        key = (partition.hub_number, partition.partition_id)
        content.events[key] = {event.sequence_number: event.encoded() for event in _events(log, key)}
        if has_rows:
            content.rows[key] = _rows(log, key)
        content.begins[key] = partition.begin_sequence_number
        content.nexts[key] = partition.next_sequence_number
    return content


def _events(log: EventLog, key: Key) -> Iterator[Event]:
    number = 0
    while found := log.read(*key, number, 64, 100_000):
        yield from found
        assert found[0].sequence_number >= number, "a reader is sent back"
        number = found[-1].sequence_number + 1


def _rows(log: EventLog, key: Key) -> Any:
    for _ in range(1_000):
        snapshot = log.snapshot(*key, 0, 1 << 62)
        missing = snapshot.missing
        try:
            table = pa.ipc.open_stream(b"".join(snapshot.stream())).read_all()
        except EventsDamaged:
            # As Spark does: once more, and now the broker knows.
            continue
        finally:
            snapshot.close()
        for number in table.column("sequenceNumber").to_pylist():
            assert not any(start <= number < end for start, end in missing), "missing and sent"
        return table
    raise AssertionError("a bulk read finds new damage for ever")


# --- what a fault touches ---------------------------------------------------------------------------------------------


def affected(variant: Variant, fault: Fault) -> tuple[set[tuple[Key, int]], set[tuple[Key, int]]]:
    """Events that readers over AMQP, and that readers of columns, may lose by a fault."""
    path = variant.directory / fault.file
    name = fault.file.removeprefix("hubs/")
    if path.is_dir():
        files = [one for one in path.rglob("*") if one.is_file()]
    else:
        files = [path]
    lost: set[tuple[Key, int]] = set()
    lost_rows: set[tuple[Key, int]] = set()
    for one in files:
        name = str(one.relative_to(variant.home)) if one.is_relative_to(variant.home) else one.name
        start, end = (0, 1 << 62) if path.is_dir() or fault.kind == "missing" else (fault.start, fault.end)
        for low, high, key, first, behind in variant.records.get(name, []):
            if low < end and start < high:
                lost |= {(key, number) for number in range(first, behind)}
                lost_rows |= {(key, number) for number in range(first, behind)}
        segment = segment_of(one.stem)
        if segment is not None and one.suffix in (".arrow", ".amqp"):
            key = (int(one.parent.parent.name), int(one.parent.name))
            hit = {(key, number) for number in _hit(variant, segment, key, one.suffix, start, end)}
            lost |= hit
            if one.suffix == ".arrow":
                lost_rows |= hit
    return lost, lost_rows


def _hit(variant: Variant, segment: Segment, key: Key, suffix: str, start: int, end: int) -> Iterator[int]:
    """The events of a segment with bytes of a range of one of its files."""
    folder = partition_folder(variant.home, *key)
    opened = OpenSegment(segment, folder, DamageLog(is_quiet=True))
    content = (folder / (segment.stem + suffix)).read_bytes()
    first = segment.first_sequence_number
    for batch in opened.index.batches:
        for row in range(batch.row_count):
            if any(low < end and start < high for low, high in _spans(batch, row, suffix, content)):
                yield first + row
        first += batch.row_count


_COLUMNS: Final = {
    ".arrow": ("body", "enqueuedTime", "publisher", "partitionKey"),
    ".amqp": ("annotations", "annotationCount", "head", "footer", "deliveryAnnotations", "deliveryAnnotationCount"),
}
_WIDTHS: Final = {"enqueuedTime": 8, "annotationCount": 4, "deliveryAnnotationCount": 4}


def _spans(batch: BatchIndex, row: int, suffix: str, content: bytes) -> Iterator[tuple[int, int]]:
    """Where the bytes of a row lie that readers over AMQP need."""
    for name in _COLUMNS[suffix]:
        (validity_at, validity_size), (second_at, second_size), *rest = batch.buffers[name]
        if validity_size:
            yield validity_at + row // 8, validity_at + row // 8 + 1
        if name in _WIDTHS:
            yield second_at + _WIDTHS[name] * row, second_at + _WIDTHS[name] * (row + 1)
        elif second_size:
            yield second_at + 4 * row, second_at + 4 * row + 8
            ends = array("i", content[second_at + 4 * row : second_at + 4 * row + 8])
            yield rest[0][0] + ends[0], rest[0][0] + ends[1]
