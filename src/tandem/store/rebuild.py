"""The content of a salvaged database: which rows are taken over, what is computed anew, and what is missing.

message, body     rows whose bytes have the right checksum. A message whose shared body is missing is missing too.
queue, rule, hub, setting
                  from the table or from its second copy
duplicate         from the table or from its index, which holds the same columns
session           the states that are intact; the counts are those of the messages
stream            counted anew. What was counted before says how many messages are missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar, Final, Protocol, cast
from zlib import crc32

import apsw
import msgspec

from tandem.engine.description import QueueDescription
from tandem.engine.message import SEQUENCE_BITS, SEQUENCE_MASK
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.engine.stored_description import description_of
from tandem.errors import TandemError
from tandem.store.base import StreamRecord
from tandem.store.checksums import content_checksum
from tandem.store.commit_record import CommitRecord
from tandem.store.damage import Damage
from tandem.store.pages import Gap, PageReader, Tree, UnreadableRow
from tandem.store.rows import Row, Value
from tandem.store.wal import Wal

__all__ = ["Rebuild", "stream_name"]

# Columns of the tables, and where some of them are in a row of the table `message`.
_MESSAGE_COLUMNS: Final = 19
_BODY_COLUMNS: Final = 10
_SESSION_COLUMNS: Final = 7
_HEADER: Final = 13
_BODY_NUMBER: Final = 17

# Sequence numbers that are left out when it is not known which was given last: none may be given twice.
_SKIPPED_NUMBERS: Final = 1_000_000

# Messages that are named one by one in a finding.
_MAX_NAMED: Final = 20

# Damaged pages that are named in one finding.
_MAX_REASONS: Final = 4

_STREAM_NAMES: Final = ("", "/$DeadLetterQueue", "/$Transfer/$DeadLetterQueue", "/spare")


class Source(Protocol):
    """The tables of the damaged database."""

    pages: PageReader

    def tree(self, name: str, *, is_table: bool, uses_older: bool = False) -> Tree: ...


def stream_name(names: dict[int, str], stream: int) -> str:
    """Return the name of an entity, or of its dead-letter queue, as clients spell it."""
    number, kind = divmod(stream, STREAMS_PER_QUEUE)
    return f"'{names.get(number, f'entity {number}')}{_STREAM_NAMES[kind]}'"


class Rebuild:
    """One salvage."""

    INSERT_MESSAGE: ClassVar = f"INSERT OR IGNORE INTO message VALUES ({', '.join('?' * _MESSAGE_COLUMNS)})"  # noqa: S608 # a number
    INSERT_BODY: ClassVar = f"INSERT OR IGNORE INTO body VALUES ({', '.join('?' * _BODY_COLUMNS)})"  # noqa: S608 # a number

    def __init__(self, new: apsw.Connection, source: Source, wal: Wal, record: CommitRecord | None) -> None:
        self._new = new
        self._execute = new.execute
        self._source = source
        self._wal = wal
        self._record = record
        self._names: dict[int, str] = {}
        self._found_commits: int | None = None
        self._damages: list[Damage] = []
        # What became of messages: by stream, numbers that are known to be lost, each with the reason.
        self._lost: dict[int, dict[int, str]] = defaultdict(dict)
        self._gaps: list[Gap] = []
        self._counted: dict[int, StreamRecord] = {}
        # Whether all counts of before are known.
        self._are_counts_known = True
        self._told_pages: set[int] = set()

    # --- rows with bytes ------------------------------------------------------------------------------------

    def bodies(self) -> Iterator[Row]:
        tree = self._source.tree("body", is_table=True, uses_older=True)
        for found in tree.rows():
            row = _padded((found.key, *found.columns[1:]), _BODY_COLUMNS)
            if _is_intact(row[5:]):
                yield row
            else:
                self._add("a shared body", f"the bytes of body {found.key} have a wrong checksum", "see its copies")
        for one in tree.damaged:
            self._add("shared bodies", one.what, "the messages that share them, which are named", page=one.page)

    def messages(self) -> Iterator[Row]:
        tree = self._source.tree("message", is_table=True, uses_older=True)
        for found in tree.rows():
            row = _padded((found.key, *found.columns[1:]), _MESSAGE_COLUMNS)
            if row[_HEADER] is None or _is_intact((*row[_HEADER:_BODY_NUMBER], row[18])):
                yield row
            else:
                self._lose(cast("int", found.key), "its bytes have a wrong checksum")
        for one in tree.unreadable:
            if one.key is not None:
                self._told_pages.add(one.page)
                self._lose(one.key, one.what)
            else:
                self._gaps.append(Gap(one.page, None, None, one.what))
        self._gaps += tree.gaps

    def _lose(self, row: int, what: str) -> None:
        self._lost[row >> SEQUENCE_BITS][row & SEQUENCE_MASK] = what

    # --- the rest -------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write everything but bodies and messages, and drop messages without a body."""
        self._copy_pairs()
        self._copy_duplicates()
        self._read_counts()
        self._read_commits()
        garbage = {cast("int", row[0]) for row in self._table("garbage", 1)}
        superseded = self._table("superseded_session_state", 4, has_key=False)
        self._new.executemany("INSERT INTO superseded_session_state VALUES (?, ?, ?, ?)", superseded)
        self._drop_messages_without_body()
        self._name_recovered(garbage)
        self._new.executemany("INSERT INTO garbage VALUES (?)", [(stream,) for stream in garbage])
        self._write_sessions()
        self._write_streams(garbage)
        commits = max(self._record.commits if self._record is not None else 0, self._found_commits or 0)
        self._execute("UPDATE commit_count SET commits = ?", (commits,))

    def _table(self, name: str, columns: int, *, has_key: bool = True) -> list[Row]:
        """Return the rows of a table that is small, and report what of it is lost."""
        tree = self._source.tree(name, is_table=True)
        rows = [
            _padded((found.key, *found.columns[1:]) if has_key else found.columns, columns) for found in tree.rows()
        ]
        for one in tree.damaged:
            self._add(f"the table '{name}'", one.what, "rows of it", page=one.page)
        return rows

    def _copy_pairs(self) -> None:
        """Copy the tables of which there is a second copy."""
        for name, columns, is_table in (
            ("queue", 5, True),
            ("hub", 4, True),
            ("rule", 4, False),
            ("setting", 2, False),
        ):
            rows: dict[Row, Row] = {}
            damaged: list[list[Gap | UnreadableRow]] = []
            for table in (f"{name}_copy", name):
                tree = self._source.tree(table, is_table=is_table)
                for found in tree.rows():
                    row = _padded((found.key, *found.columns[1:]) if is_table else found.columns, columns)
                    rows[row[:2] if name == "rule" else row[:1]] = row
                damaged.append(tree.damaged)
            if name == "queue":
                # Records that are older than the column have the default of the column.
                rows = {key: (*row[:4], row[4] or "queue") for key, row in rows.items()}
            statement = f"INSERT INTO {name} VALUES ({', '.join('?' * columns)})"  # noqa: S608 # names of our tables
            self._new.executemany(statement, list(rows.values()))
            for one in [*damaged[0], *damaged[1]]:
                lost = "descriptions of it" if all(damaged) else ""
                self._add(f"the table '{name}'", one.what, lost, page=one.page)
        self._names = self._read_names()

    def _read_names(self) -> dict[int, str]:
        names: dict[int, str] = {}
        for number, kind, fields in cast(
            "list[tuple[int, str, str]]", self._execute("SELECT number, kind, fields FROM queue").fetchall()
        ):
            try:
                names[number] = description_of(kind, msgspec.json.decode(fields, type=dict[str, object])).name
            except (msgspec.DecodeError, TandemError):
                names[number] = f"entity {number}"
        return names

    def _copy_duplicates(self) -> None:
        table = self._source.tree("duplicate", is_table=False)
        index = self._source.tree("duplicate_age", is_table=False)
        insert = "INSERT INTO duplicate VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET seen_at_ms = max(seen_at_ms, ?3)"
        self._new.executemany(insert, [_padded(found.columns, 3) for found in table.rows()])
        by_age = [found.columns for found in index.rows()]
        self._new.executemany(insert, [(queue, key, seen_at_ms) for queue, seen_at_ms, key in by_age])
        damaged = [tree.damaged for tree in (table, index)]
        for one in [*damaged[0], *damaged[1]]:
            is_certain = not all(damaged) and not self._wal.unknown_count
            self._add("duplicate detection", one.what, "" if is_certain else "some message ids", page=one.page)

    def _read_counts(self) -> None:
        tree = self._source.tree("stream", is_table=True)
        for found in tree.rows():
            record = StreamRecord(*cast("tuple[int, ...]", (found.key, *found.columns[1:])))
            self._counted[record.stream] = record
        for one in tree.damaged:
            self._are_counts_known = False
            self._add(
                "the counts of some entities", one.what, "counted anew; sequence numbers skip some", page=one.page
            )

    def _read_commits(self) -> None:
        tree = self._source.tree("commit_count", is_table=True)
        for found in tree.rows():
            self._found_commits = cast("int", found.columns[1])
        for one in tree.gaps:
            self._add("the count of commits", one.what, page=one.page)

    def _drop_messages_without_body(self) -> None:
        dropped = self._execute(
            "DELETE FROM message WHERE body_number IS NOT NULL AND body_number NOT IN (SELECT number FROM body) "
            "RETURNING row, body_number"
        ).fetchall()
        for row, number in cast("list[tuple[int, int]]", dropped):
            self._lose(row, f"body {number}, which it shares, is lost")
        self._execute(
            "UPDATE body SET copies = (SELECT count(*) FROM message WHERE body_number = number)"
            " WHERE number IN (SELECT body_number FROM message)"
        )
        self._execute("DELETE FROM body WHERE number NOT IN (SELECT body_number FROM message WHERE body_number > 0)")

    def _name_recovered(self, garbage: set[int]) -> None:
        """Give messages and sessions whose entity has no description a queue from which they can be received."""
        self._drop_subscriptions_without_topic()
        sessions = {cast("int", found.columns[0]) for found in self._source.tree("session", is_table=True).rows()}
        streams = {stream for (stream,) in self._execute("SELECT DISTINCT row >> 44 FROM message")} | sessions
        for number in sorted({stream // STREAMS_PER_QUEUE for stream in streams - garbage} - self._names.keys()):
            stream = number * STREAMS_PER_QUEUE
            counted: int = self._execute(
                "SELECT count(*) FROM message WHERE row >> 44 = ? AND session_id IS NOT NULL", (stream,)
            ).get
            has_sessions = bool(counted) or stream in sessions
            name = f"recovered-{number}"
            fields = QueueDescription.from_fields({"name": name, "requires_session": has_sessions}).to_fields()
            self._execute(
                "INSERT INTO queue(number, kind, fields, created_at_ms, updated_at_ms) VALUES (?, 'queue', ?, 0, 0)",
                (number, msgspec.json.encode(fields).decode()),
            )
            self._names[number] = name
            self._add(f"entity {number}", "its description is lost", f"its messages are in the queue '{name}'")
        for stream in [stream for (stream,) in self._execute("SELECT DISTINCT stream FROM body")]:
            if stream // STREAMS_PER_QUEUE not in self._names and stream not in garbage:
                # Its topic is lost: from now on it counts to the queue of one of its copies.
                self._execute(
                    "UPDATE body SET stream = (SELECT min(row >> 44) FROM message WHERE body_number = number) "
                    "WHERE stream = ?",
                    (stream,),
                )

    def _drop_subscriptions_without_topic(self) -> None:
        topics = {name.lower() for number, name in self._names.items() if self._kind(number) == "topic"}
        for number, name in list(self._names.items()):
            if self._kind(number) == "subscription" and name.lower().split("/subscriptions/")[0] not in topics:
                self._execute("DELETE FROM queue WHERE number = ?", (number,))
                del self._names[number]
        dropped = self._execute(
            "DELETE FROM rule WHERE queue NOT IN (SELECT number FROM queue WHERE kind = 'subscription') "
            "RETURNING queue, name"
        ).fetchall()
        for number, name in cast("list[tuple[int, str]]", dropped):
            self._add(f"rule '{name}' of entity {number}", "the description of the subscription is lost", "the rule")

    def _kind(self, number: int) -> str:
        kind: str = self._execute("SELECT kind FROM queue WHERE number = ?", (number,)).get
        return kind

    # --- sessions -------------------------------------------------------------------------------------------

    def _write_sessions(self) -> None:
        # Without older versions: a session had better begin anew than go on from an outdated state.
        tree = self._source.tree("session", is_table=True)
        known: dict[tuple[Value, str], Row] = {}
        keys: set[int | None] = set()
        for found in tree.rows():
            row = _padded(found.columns, _SESSION_COLUMNS)
            keys.add(found.key)
            state, checksum = row[4], row[6]
            if state is not None and checksum is not None and checksum != crc32(cast("bytes", state)):
                self._add(self._session_unit(row[0], row[1]), "its state has a wrong checksum", "its state")
                row = (*row[:4], None, None, None)
            known.setdefault((row[0], str(row[1]).lower()), row)
        if tree.gaps or tree.unreadable:
            self._report_sessions(tree, keys)
        active: dict[tuple[Value, str], tuple[str, int, int]] = {
            (stream, key): (session_id, count, first)
            for stream, key, session_id, count, first in self._execute(
                "SELECT row >> 44, lower(session_id), session_id, count(*), min(row & ?) FROM message "
                "WHERE session_id IS NOT NULL AND state = 0 GROUP BY 1, 2",
                (SEQUENCE_MASK,),
            )
        }
        rows: list[Row] = []
        for (stream, key), row in known.items():
            _, count, _ = active.pop((stream, key), ("", 0, 0))
            if count or row[4] is not None:
                rows.append((stream, row[1], count, *row[3:]))
        rows += [
            (stream, session_id, count, first, None, None, None)
            for (stream, _), (session_id, count, first) in active.items()
        ]
        self._new.executemany("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def _session_unit(self, stream: Value, session_id: Value) -> str:
        return f"session '{session_id!s}' of {stream_name(self._names, cast('int', stream))}"

    def _report_sessions(self, tree: Tree, keys: set[int | None]) -> None:
        """The index still names the sessions that are lost."""
        what = _joined([one.what for one in tree.damaged])
        self._told_pages.update(one.page for one in tree.damaged)
        index = self._source.tree("session_id", is_table=False)
        named = [found.columns for found in index.rows() if found.columns[-1] not in keys]
        for stream, key, *_ in named:
            self._add(self._session_unit(stream, key), what, "its state, if it had one")
        if not named or index.gaps:
            self._add("sessions", what, "states of some sessions")

    # --- counts ---------------------------------------------------------------------------------------------

    def _write_streams(self, garbage: set[int]) -> None:
        counts: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        highest: dict[int, int] = defaultdict(int)
        for stream, state, count, size_bytes, last in self._execute(
            "SELECT row >> 44, state, count(*), sum(iif(body_number IS NULL, size_bytes, 0)), max(row & ?) "
            "FROM message GROUP BY 1, 2",
            (SEQUENCE_MASK,),
        ):
            counts[stream][state] += count
            counts[stream][3] += size_bytes
            number = stream // STREAMS_PER_QUEUE
            highest[number] = max(highest[number], last)
        for statement in (
            "SELECT stream, sum(size_bytes) FROM body GROUP BY 1",
            "SELECT stream, sum(ifnull(length(state), 0)) FROM session GROUP BY 1",
        ):
            for stream, size_bytes in self._execute(statement):
                counts[stream][3] += size_bytes
        rows: list[Row] = []
        for stream in sorted((counts.keys() | self._counted.keys()) - garbage):
            number, kind = divmod(stream, STREAMS_PER_QUEUE)
            if number not in self._names:
                continue
            before = self._counted.get(stream)
            next_number = 1 if before is None else before.next_sequence_number
            if kind == 0:
                next_number = max(next_number, highest[number] + 1)
                if before is None and not self._are_counts_known:
                    next_number += _SKIPPED_NUMBERS
            rows.append((stream, *counts[stream], next_number, 0 if before is None else before.accessed_at_ms))
            self._compare(stream, before, counts[stream])
        self._new.executemany("INSERT INTO stream VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        if not self._are_counts_known:
            self._skip_numbers_of_empty()

    def _skip_numbers_of_empty(self) -> None:
        """An entity whose counts are lost and that has no messages may have given any number."""
        for number in self._names:
            self._execute(
                "INSERT OR IGNORE INTO stream VALUES (?, 0, 0, 0, 0, ?, 0)",
                (number * STREAMS_PER_QUEUE, _SKIPPED_NUMBERS + 1),
            )

    def _compare(self, stream: int, before: StreamRecord | None, counts: list[int]) -> None:
        """Report how many messages of a stream are missing, and which."""
        named = self._lost.pop(stream, {})
        gaps = [gap for gap in self._gaps if _is_in(stream, gap)]
        missing = 0 if before is None else before.active + before.deferred + before.scheduled - sum(counts[:3])
        if missing < 0:
            self._add(
                stream_name(self._names, stream),
                f"it holds {-missing} messages more than it counted",
                "messages that were settled already may be delivered again",
            )
        if not named and missing <= 0 and (before is not None or not gaps):
            return
        reasons = _joined([*named.values(), *[gap.what for gap in gaps]]) or "they are not there"
        parts = []
        if named:
            numbers = ", ".join([str(number) for number in sorted(named)[:_MAX_NAMED]])
            parts.append(f"messages {numbers}" + (" and more" if len(named) > _MAX_NAMED else ""))
        others = missing - len(named)
        if others > 0 or (before is None and gaps):
            amount = f"{others} messages" if others > 0 else "an unknown number of messages"
            parts.append(f"{amount}{_between(stream, gaps)}")
        self._told_pages.update(gap.page for gap in gaps)
        self._add(stream_name(self._names, stream), reasons, " and ".join(parts))

    # --- findings -------------------------------------------------------------------------------------------

    def _units(self, gap: Gap) -> str:
        """Return the names of the entities that have messages in a page."""
        streams = [stream for stream in sorted(self._counted) if _is_in(stream, gap)]
        return ", ".join([stream_name(self._names, stream) for stream in streams[:_MAX_NAMED]]) or "messages"

    def _add(self, unit: str, what: str, lost: str = "", *, page: int | None = None) -> None:
        if page is not None:
            self._told_pages.add(page)
        self._damages.append(Damage(unit, what, lost))

    def damages(self, why: str) -> list[Damage]:
        """Return all findings. Every page of the damaged database has been read by now."""
        for stream, named in self._lost.items():
            self._add(stream_name(self._names, stream), _joined(list(named.values())), "messages of it")
        for gap in self._gaps:
            if gap.is_older_used:
                self._told_pages.add(gap.page)
                lost = "messages that were sent last may be missing, and some that were settled may be delivered again"
                self._add(self._units(gap), gap.what, lost)
        wal, record = self._wal, self._record
        if wal.unknown_count:
            self._add(
                "the write-ahead log",
                f"{wal.unknown_count} of its frames are damaged, and of which pages they were is not known",
                "changes of the last commits, states of sessions among them; entities with other counts are named",
            )
        if record is not None and self._found_commits is not None and self._found_commits < record.commits:
            self._add(
                "the last commits",
                f"{why}; {record.commits} commits were acknowledged, the store holds {self._found_commits}",
                f"the last {record.commits - self._found_commits} commits",
            )
        for number, what in sorted(self._source.pages.unreadable.items()):
            if number not in self._told_pages and 0 < number <= self._source.pages.page_count:
                self._add("the database", f"{what}; it holds nothing that is not known from elsewhere")
        if not self._damages and wal.damaged_frames:
            text = f"frame {wal.damaged_frames[0]} of it is damaged; what it held was written again later"
            self._add("the write-ahead log", text)
        if not self._damages:
            self._add("the database", why)
        return self._damages


def _joined(reasons: list[str]) -> str:
    """Return the first reasons, each once, and how many there are beside these."""
    different = list(dict.fromkeys(reasons))
    shown = "; ".join(different[:_MAX_REASONS])
    return f"{shown}; and {len(different) - _MAX_REASONS} more" if len(different) > _MAX_REASONS else shown


def _padded(row: Row, columns: int) -> Row:
    return row[:columns] + (None,) * (columns - len(row))


def _is_intact(columns: Row) -> bool:
    header, delivery_annotations, message_annotations, bare, checksum = columns
    if not isinstance(header, bytes) or not isinstance(bare, bytes):
        return False
    if checksum is None:
        return True
    expected = content_checksum(
        header, cast("bytes | None", delivery_annotations), cast("bytes | None", message_annotations), bare
    )
    return expected == checksum


def _is_in(stream: int, gap: Gap) -> bool:
    first, last = stream << SEQUENCE_BITS, (stream + 1 << SEQUENCE_BITS) - 1
    return (gap.low is None or gap.low < last) and (gap.high is None or gap.high >= first)


def _between(stream: int, gaps: list[Gap]) -> str:
    """Return the range of sequence numbers in which messages are missing, if it is known."""
    if not gaps:
        return ""
    first, last = stream << SEQUENCE_BITS, (stream + 1 << SEQUENCE_BITS) - 1
    low = min([first if gap.low is None else max(first, gap.low) for gap in gaps]) - first
    highs = [last if gap.high is None else min(last, gap.high) for gap in gaps]
    if max(highs) == last:
        return f" with sequence numbers above {low}"
    return f" with sequence numbers {low + 1} to {max(highs) - first}"
