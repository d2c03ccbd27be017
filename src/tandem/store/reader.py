"""What the engine asks of a SQLite store, each question by its own statement.

All values are bound: a statement that is the same every time is not prepared again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast
from zlib import crc32

import apsw

from tandem.engine.message import NEVER_MS, SEQUENCE_BITS, BrokeredMessage
from tandem.engine.queries import (
    ANY_STATE,
    DueQuery,
    EnqueuedBeforeQuery,
    ExpiredQuery,
    MessagesQuery,
    NextTimesQuery,
    Query,
    ReadySessionsQuery,
    RowsQuery,
    ScanQuery,
    SessionListQuery,
    SessionPageQuery,
    SessionRecord,
    SessionStateQuery,
)
from tandem.engine.session_key import session_key
from tandem.errors import StoreDamaged
from tandem.limits import MAX_HEAD_BYTES
from tandem.store.rows import (
    ALL_COLUMNS,
    BYTES_COLUMNS,
    COLUMNS,
    Row,
    Value,
    message_of,
    message_without_bytes,
    page_of,
    stored_of,
)

__all__ = ["Reader"]

_BODY: Final = f"SELECT front_bytes, {BYTES_COLUMNS} FROM body WHERE number = ?"  # noqa: S608 # constants

# Messages of one session. Without the last condition SQLite does not see that the index has them all.
_OF_SESSION: Final = "row >> 44 = ? AND lower(session_id) = ? AND session_id IS NOT NULL"


class Reader:
    """Answers queries over the connection that also writes, so that an answer is in step with what was written."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = connection.execute
        self._readers: dict[type[Query], Callable[[Query], None]] = {
            MessagesQuery: self._read_messages,  # type: ignore[dict-item] # each reader is called with its own kind
            RowsQuery: self._read_rows,  # type: ignore[dict-item]
            DueQuery: self._read_due,  # type: ignore[dict-item]
            ExpiredQuery: self._read_expired,  # type: ignore[dict-item]
            EnqueuedBeforeQuery: self._read_enqueued_before,  # type: ignore[dict-item]
            NextTimesQuery: self._read_next_times,  # type: ignore[dict-item]
            ReadySessionsQuery: self._read_ready_sessions,  # type: ignore[dict-item]
            ScanQuery: self._scan,  # type: ignore[dict-item]
            SessionListQuery: self._read_session_list,  # type: ignore[dict-item]
            SessionPageQuery: self._read_session_page,  # type: ignore[dict-item]
            SessionStateQuery: self._read_session_state,  # type: ignore[dict-item]
        }

    def read(self, query: Query) -> None:
        self._readers[type(query)](query)

    # --- shared bodies --------------------------------------------------------------------------------------

    def body(self, number: int) -> Row:
        found = self._execute(_BODY, (number,)).fetchone()
        if found is None:
            raise StoreDamaged(f"the body {number}, which messages share, is not there")
        return cast("Row", found)

    def complete(self, message: BrokeredMessage) -> None:
        """Add what a copy shares to what it has for itself."""
        front_bytes, *columns = self.body(message.body_number)
        shared = stored_of(tuple(columns))
        own = message.stored
        message.stored = shared if own is None else own.with_bare(own.bare + shared.bare[cast("int", front_bytes) :])

    # --- messages -------------------------------------------------------------------------------------------

    def _read_messages(self, query: MessagesQuery) -> None:
        first = query.stream << SEQUENCE_BITS
        state = "AND state = 0" if query.is_active_only else ""
        bounds: tuple[Value, ...] = (first + query.after, first + query.up_to, query.limit)
        where = f"row > ? AND row <= ? {state}"
        if query.session_id is not None:
            where = f"{_OF_SESSION} AND {where}"
            bounds = (query.stream, session_key(query.session_id), *bounds)
        cursor = self._execute(
            f"SELECT {ALL_COLUMNS} FROM message WHERE {where} ORDER BY row LIMIT ?",  # noqa: S608 # constants
            bounds,
        )
        query.answer(self._whole(page_of(cast("Iterable[Row]", cursor), query.limit_bytes)))

    def _whole(self, messages: list[BrokeredMessage]) -> list[BrokeredMessage]:
        for message in messages:
            if message.body_number:
                self.complete(message)
        return messages

    def _read_rows(self, query: RowsQuery) -> None:
        messages: list[BrokeredMessage] = []
        size_bytes = 0
        for number in query.sequence_numbers:
            needs_bytes = size_bytes < query.limit_bytes
            columns = ALL_COLUMNS if needs_bytes else COLUMNS
            row = self._execute(
                f"SELECT {columns} FROM message WHERE row = ?",  # noqa: S608 # a constant
                (query.stream << SEQUENCE_BITS | number,),
            ).fetchone()
            if row is None:
                continue
            message = message_of(cast("Row", row)) if needs_bytes else message_without_bytes(cast("Row", row))
            if needs_bytes and message.body_number:
                self.complete(message)
            messages.append(message)
            size_bytes += message.size_bytes
        query.answer(messages)

    def _scan(self, query: ScanQuery) -> None:
        first = query.stream << SEQUENCE_BITS
        after, end = first + query.after, first + query.up_to
        last = self._execute(
            "SELECT row FROM message WHERE row > ? AND row <= ? ORDER BY row LIMIT 1 OFFSET ?",
            (after, end, query.limit_rows - 1),
        ).get
        up_to = end if last is None else cast("int", last)
        columns = ALL_COLUMNS if query.needs_bytes else COLUMNS
        cursor = self._execute(
            f"SELECT {columns} FROM message WHERE row > ? AND row <= ? AND (state = ? OR ? = {ANY_STATE}) "  # noqa: S608 # constants
            "ORDER BY row LIMIT ?",
            (after, up_to, query.state, query.state, query.limit),
        )
        if query.needs_bytes:
            messages = self._whole(page_of(cast("Iterable[Row]", cursor), query.limit_bytes))
            is_full = sum([message.size_bytes for message in messages]) >= query.limit_bytes
        else:
            messages = [message_without_bytes(cast("Row", row)) for row in cursor]
            is_full = False
        is_full = is_full or len(messages) == query.limit
        query.answer(messages, messages[-1].sequence_number if is_full else up_to - first)

    def _read_due(self, query: DueQuery) -> None:
        where = "row >> 44 = ? AND due_at_ms IS NOT NULL AND due_at_ms <= ? ORDER BY due_at_ms, row LIMIT ?"
        bounds = (query.stream, query.now_ms, query.limit)
        if not query.needs_bytes:
            self._answer_without_bytes(query.answer, where, bounds)
            return
        cursor = self._execute(f"SELECT {ALL_COLUMNS} FROM message WHERE {where}", bounds)  # noqa: S608 # constants
        query.answer(self._whole(page_of(cast("Iterable[Row]", cursor), MAX_HEAD_BYTES)))

    def _read_expired(self, query: ExpiredQuery) -> None:
        self._answer_without_bytes(
            query.answer,
            "row >> 44 = ? AND expires_at_ms IS NOT NULL AND state = 0 AND expires_at_ms <= ? "
            "AND (expires_at_ms, row) > (?, ?) ORDER BY expires_at_ms, row LIMIT ?",
            (query.stream, query.now_ms, query.after_ms, query.stream << SEQUENCE_BITS | query.after, query.limit),
        )

    def _read_enqueued_before(self, query: EnqueuedBeforeQuery) -> None:
        first = query.stream << SEQUENCE_BITS
        bounds: tuple[Value, ...] = (first + query.after, first + query.up_to, query.enqueued_ms, query.limit)
        where = "row > ? AND row <= ? AND enqueued_time_ms <= ? AND state = 0"
        if query.session_id is not None:
            where = f"{_OF_SESSION} AND {where}"
            bounds = (query.stream, session_key(query.session_id), *bounds)
        self._answer_without_bytes(query.answer, f"{where} ORDER BY row LIMIT ?", bounds)

    def _answer_without_bytes(
        self, answer: Callable[[list[BrokeredMessage]], None], where: str, bounds: tuple[Value, ...]
    ) -> None:
        cursor = self._execute(f"SELECT {COLUMNS} FROM message WHERE {where}", bounds)  # noqa: S608 # see callers
        answer([message_without_bytes(cast("Row", row)) for row in cursor])

    # --- times and sessions ---------------------------------------------------------------------------------

    def _read_next_times(self, query: NextTimesQuery) -> None:
        due = self._execute(
            "SELECT due_at_ms FROM message WHERE row >> 44 = ? AND due_at_ms IS NOT NULL ORDER BY due_at_ms LIMIT 1",
            (query.stream,),
        ).get
        expiry = self._execute(
            "SELECT expires_at_ms FROM message WHERE row >> 44 = ? AND expires_at_ms IS NOT NULL AND state = 0 "
            "AND (expires_at_ms, row) > (?, ?) ORDER BY expires_at_ms, row LIMIT 1",
            (query.stream, query.after_ms, query.stream << SEQUENCE_BITS | query.after),
        ).get
        query.answer(NEVER_MS if due is None else due, NEVER_MS if expiry is None else expiry)

    def _read_ready_sessions(self, query: ReadySessionsQuery) -> None:
        cursor = self._execute(
            "SELECT session_id FROM session WHERE stream = ? AND active > 0 ORDER BY since LIMIT ?",
            (query.stream, query.limit),
        )
        query.answer([row[0] for row in cursor])

    def _read_session_list(self, query: SessionListQuery) -> None:
        where, bounds = "stream = ? AND (active > 0 OR state IS NOT NULL)", [query.stream]
        if query.updated_after_ms is not None:
            where, bounds = (
                "stream = ? AND updated_at_ms > ? AND state IS NOT NULL",
                [query.stream, query.updated_after_ms],
            )
        cursor = self._execute(
            f"SELECT session_id FROM session WHERE {where} ORDER BY lower(session_id) LIMIT ? OFFSET ?",  # noqa: S608 # constants
            (*bounds, query.limit, query.skip),
        )
        query.answer([row[0] for row in cursor])

    def _read_session_page(self, query: SessionPageQuery) -> None:
        where = "stream = ?"
        bounds: tuple[Value, ...] = (query.stream,)
        if query.after is not None:
            where, bounds = "stream = ? AND lower(session_id) > ?", (query.stream, session_key(query.after))
        cursor = self._execute(
            "SELECT session_id, active, ifnull(length(state), -1), ifnull(updated_at_ms, 0) FROM session "  # noqa: S608 # constants
            f"WHERE {where} AND (active > 0 OR state IS NOT NULL) ORDER BY lower(session_id) LIMIT ?",
            (*bounds, query.limit),
        )
        query.answer([SessionRecord(*cast("tuple[str, int, int, int]", row)) for row in cursor])

    def _read_session_state(self, query: SessionStateQuery) -> None:
        found = self._execute(
            "SELECT state, checksum FROM session WHERE stream = ? AND lower(session_id) = ?",
            (query.stream, session_key(query.session_id)),
        ).fetchone()
        state, checksum = cast("tuple[bytes | None, int | None]", found or (None, None))
        if state is not None and checksum is not None and checksum != crc32(state):
            raise StoreDamaged(f"the state of session '{query.session_id}' has a wrong checksum")
        query.answer(state)
