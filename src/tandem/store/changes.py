"""Writes the changes that the engine decides beside new and removed messages: states, moves, sessions, descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast
from zlib import crc32

import apsw
import msgspec

from tandem.engine.effects import (
    Change,
    DropHub,
    DropProgress,
    DropQueue,
    DropRule,
    ForgetDuplicates,
    Move,
    PutHub,
    PutProgress,
    PutQueue,
    PutRule,
    PutSetting,
    SetSessionState,
    SetState,
)
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.engine.session_key import session_key
from tandem.store.base import LAST_DROPPED_HUB, RESERVED_EVENTS
from tandem.store.garbage import Garbage
from tandem.store.modify import modified
from tandem.store.progress import name_of, names_of_hub, read_progress
from tandem.store.reader import Reader
from tandem.store.rows import (
    ALL_COLUMNS,
    BYTES_COLUMNS,
    Row,
    all_columns,
    bytes_columns,
    fixed_columns,
    message_of,
    stored_of,
)

__all__ = ["Changes"]

_MOVE: Final = (
    "UPDATE message SET row = ?, state = ?, delivery_count = ?, enqueued_time_ms = ?, expires_at_ms = ?, "
    "due_at_ms = ?, time_to_live_ms = ?, session_id = ?, size_bytes = ?, enqueue_sequence_number = ?, "
    "hop_count = ?, partition = ?, dead_letter_source = ?, body_number = ? WHERE row = ?"
)
_SET_BYTES: Final = (
    "UPDATE message SET header = ?, delivery_annotations = ?, message_annotations = ?, bare = ?, checksum = ? "
    "WHERE row = ?"
)


class Changes:
    """The changes of one batch after the other.

    Hubs that are deleted are added to `dropped_hubs`; `name_hub` receives the number and name of every other one.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        reader: Reader,
        garbage: Garbage,
        dropped_hubs: set[int],
        name_hub: Callable[[int, str], None],
    ) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._reader = reader
        self._garbage = garbage
        self._dropped_hubs = dropped_hubs
        self._name_hub = name_hub
        # What the moves of the batch write: their messages change while a commit runs.
        self._moves: dict[Move, Row] = {}

    def clear(self) -> None:
        """The batch is committed."""
        self._moves.clear()

    def write(self, change: Change) -> None:
        execute = self._execute
        if isinstance(change, SetState):
            if change.properties:
                self._modify(change.row, change.properties)
            execute(
                "UPDATE message SET state = ?, delivery_count = ? WHERE row = ?",
                (change.state, change.delivery_count, change.row),
            )
        elif isinstance(change, Move):
            if change.properties:
                self._modify(change.row, change.properties)
            columns = self._moves.get(change)
            if columns is None:
                columns = self._moves[change] = fixed_columns(change.message)
            if change.shared_body_number:
                self._give_own_bytes(change.row, change.shared_body_number)
            execute(_MOVE, (*columns, change.row))
        elif isinstance(change, SetSessionState):
            execute(
                "INSERT INTO session(stream, session_id, active, since, state, updated_at_ms, checksum) "
                "VALUES (?1, ?2, 0, 0, ?3, ?4, ?5) "
                "ON CONFLICT DO UPDATE SET state = ?3, updated_at_ms = ?4, checksum = ?5",
                (
                    change.stream,
                    change.session_id,
                    change.state,
                    change.updated_at_ms,
                    None if change.state is None else crc32(change.state),
                ),
            )
            if change.state is None:
                self.drop_empty_session(change.stream, change.session_id)
        else:
            self._write_description(change)

    def _write_description(self, change: Change) -> None:
        """Write what describes entities rather than messages."""
        execute = self._execute
        if isinstance(change, PutQueue):
            execute(
                "INSERT OR REPLACE INTO queue(number, kind, fields, created_at_ms, updated_at_ms) "
                "VALUES (?, ?, ?, ?, ?)",
                (
                    change.number,
                    change.kind,
                    msgspec.json.encode(change.fields).decode(),
                    change.created_at_ms,
                    change.updated_at_ms,
                ),
            )
        elif isinstance(change, PutRule):
            execute(
                "INSERT OR REPLACE INTO rule VALUES (?, ?, ?, ?)",
                (
                    change.queue_number,
                    change.name,
                    msgspec.json.encode(change.fields).decode(),
                    change.created_at_ms,
                ),
            )
        elif isinstance(change, DropRule):
            execute("DELETE FROM rule WHERE queue = ? AND name = ?", (change.queue_number, change.name))
        elif isinstance(change, ForgetDuplicates):
            execute(
                "DELETE FROM duplicate WHERE queue = ? AND seen_at_ms <= ?", (change.queue_number, change.before_ms)
            )
        elif isinstance(change, DropQueue):
            self._drop_queue(change.number)
        elif isinstance(change, PutHub):
            self._name_hub(change.number, cast("str", change.fields["name"]))
            execute(
                "INSERT OR REPLACE INTO hub VALUES (?, ?, ?, ?)",
                (
                    change.number,
                    msgspec.json.encode(change.fields).decode(),
                    change.created_at_ms,
                    change.updated_at_ms,
                ),
            )
        elif isinstance(change, DropHub):
            self._drop_hub(change.number)
        elif isinstance(change, PutSetting):
            self._execute("INSERT OR REPLACE INTO setting VALUES (?, ?)", (change.name, change.value))
        elif isinstance(change, PutProgress):
            self._execute(
                "INSERT OR REPLACE INTO setting VALUES (?, ?)",
                (
                    name_of(change.hub_number, change.partition_id, change.group),
                    msgspec.json.encode(change.fields).decode(),
                ),
            )
        elif isinstance(change, DropProgress):
            self._drop_progress(change.hub_number, change.group)

    def _drop_hub(self, number: int) -> None:
        self._execute("DELETE FROM hub WHERE number = ?", (number,))
        # The log hears of it after the commit, which may be never: this remembers that the number was given.
        self._execute(
            "INSERT INTO setting VALUES (?, ?) ON CONFLICT(name) DO UPDATE "
            "SET value = excluded.value WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)",
            (LAST_DROPPED_HUB, str(number)),
        )
        self._execute("DELETE FROM setting WHERE name = ?", (f"{RESERVED_EVENTS}{number}",))
        self._drop_progress(number, None)
        self._dropped_hubs.add(number)

    def _drop_progress(self, hub_number: int, group: str | None) -> None:
        """Delete what is kept of one consumer group of a hub, or of all."""
        found = self._execute("SELECT name, value FROM setting WHERE name GLOB ?", (names_of_hub(hub_number),))
        for name, value in found.fetchall():
            if group is None or read_progress(cast("str", name), cast("str", value)).group == group:
                self._execute("DELETE FROM setting WHERE name = ?", (name,))

    def _modify(self, row: int, properties: dict[str, object]) -> None:
        found = self._execute(
            f"SELECT body_number, {BYTES_COLUMNS} FROM message WHERE row = ?",  # noqa: S608 # constants
            (row,),
        ).fetchone()
        if found is None:
            return
        body_number, *columns = cast("Row", found)
        if columns[0] is None and body_number is not None:
            # From now on this copy has properties of its own.
            front_bytes, *columns = self._reader.body(cast("int", body_number))
            shared = stored_of(tuple(columns))
            own = modified(shared.bare[: cast("int", front_bytes)], properties)
            self._execute(_SET_BYTES, (*bytes_columns(shared, own), row))
        else:
            own_bytes = stored_of(tuple(columns))
            self._execute(_SET_BYTES, (*bytes_columns(own_bytes, modified(own_bytes.bare, properties)), row))

    def _give_own_bytes(self, row: int, body_number: int) -> None:
        """The copy leaves those that it shares its body with."""
        found = self._execute(f"SELECT {ALL_COLUMNS} FROM message WHERE row = ?", (row,)).fetchone()  # noqa: S608
        if found is not None:
            message = message_of(cast("Row", found))
            message.body_number = body_number
            self._reader.complete(message)
            message.body_number = 0
            self._execute(_SET_BYTES, (*all_columns(message)[-5:], row))

    def drop_empty_session(self, stream: int, session_id: str) -> None:
        self._execute(
            "DELETE FROM session WHERE stream = ? AND lower(session_id) = ? AND active = 0 AND state IS NULL",
            (stream, session_key(session_id)),
        )

    def _drop_queue(self, number: int) -> None:
        """Its messages are deleted later, a few at a time: there may be millions."""
        first = number * STREAMS_PER_QUEUE
        streams = [(stream,) for stream in range(first, first + STREAMS_PER_QUEUE)]
        self._execute("DELETE FROM queue WHERE number = ?", (number,))
        self._execute("DELETE FROM rule WHERE queue = ?", (number,))
        self._connection.executemany("DELETE FROM stream WHERE stream = ?", streams)
        for stream in streams:
            self._garbage.add(stream[0])
