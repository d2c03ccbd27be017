"""Events of a partition by their sequence numbers: in bulk as an Arrow stream, or a few of them as JSON.

A read has no state: whoever asks for the same range again gets the same events, and two readers do not know of each
other. Sealed segments are sent as they lie on disk, which a thread reads; a reader that is slow slows only itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Final, Literal, NamedTuple, cast, get_args

from aiohttp import web
from msgspec import Meta

from tandem.auth import Right
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.hub import EventHub
from tandem.engine.hubs.partition import Partition
from tandem.engine.namespace import Namespace
from tandem.engine.queries import EventsQuery
from tandem.errors import ArgumentOutOfRange, HubRecreated, ProtocolError, ServerBusy
from tandem.limits import MAX_BULK_READ_STALL_S, MAX_BULK_READS, MAX_PEEK_BYTES, MAX_SHOWN_EVENTS
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.hubs import incarnation_of
from tandem.management.json_api.described import Operation, Parameter, describes
from tandem.management.json_api.hub_shapes import EventList
from tandem.management.json_api.reading import ask, query_choice
from tandem.management.json_api.rendering import shown_event
from tandem.management.metered import count_as
from tandem.management.requests import query_number
from tandem.store.log.damage_log import EventsDamaged
from tandem.store.log.snapshot import RangeSnapshot
from tandem.wire_names import FIRST_SEQUENCE_NUMBER_HEADER

__all__ = ["ARROW_STREAM", "HubEventHandlers"]

logger = logging.getLogger(__name__)

ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"

# Threads that read for them. More than the disk has use for would only take turns.
_READING_THREADS: Final = 4

_DEFAULT_SHOWN_EVENTS: Final = 50

_MAX_NUMBER: Final = (1 << 63) - 1
_Number = Annotated[int, Meta(ge=0, le=_MAX_NUMBER)]
_Format = Literal["arrow", "json"]
_Columns = Literal["table", "head"]


class _Range(NamedTuple):
    """What a request wants of a partition as it is now: events `first` to `end`, without the latter."""

    hub: EventHub
    partition: Partition
    asked_from: int
    first: int
    end: int

    def headers(self) -> dict[str, str]:
        """The client decides what it means to it that events have expired."""
        begin = self.partition.begin_sequence_number
        headers = {
            "Tandem-Incarnation": incarnation_of(self.hub),
            "Tandem-Begin-Sequence-Number": str(begin),
            "Tandem-Next-Sequence-Number": str(self.partition.next_sequence_number),
            FIRST_SEQUENCE_NUMBER_HEADER: str(self.first),
            "Tandem-Next-From": str(self.end),
        }
        if self.asked_from < begin:
            headers["Tandem-Expired-Events"] = str(begin - self.asked_from)
        return headers


class HubEventHandlers:
    """`/hubs/{hub_name}/partitions/{partition_id}/events`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._threads = ThreadPoolExecutor(_READING_THREADS, "bulk-read")
        self._readers: set[asyncio.Task[Any]] = set()

    @describes(
        Operation(
            "GET",
            "/hubs/{hub_name}/partitions/{partition_id}/events",
            "read_events",
            "Read events of a partition by their sequence numbers, in columns as an Arrow stream, or as JSON.",
            "Listen on the hub",
            EventList,
            parameters=(
                Parameter("from", _Number, "The first sequence number; the oldest event that is kept if left out."),
                Parameter(
                    "to", _Number, "The sequence number to stop before; the newest event is the last if left out."
                ),
                Parameter(
                    "max", _Number, f"How many at most; as JSON at most {MAX_SHOWN_EVENTS:,}, and 50 if left out."
                ),
                Parameter("format", _Format, "`arrow` if left out."),
                Parameter(
                    "columns",
                    _Columns,
                    "As Arrow: `table`, if left out, is what readers see; `head` is `sequenceNumber` and the sections "
                    "of the message before its body, as they were sent.",
                ),
                Parameter("incarnation", str, "Refuse to read if the hub was made anew since this was learnt."),
            ),
            tag="hubs",
            streams=ARROW_STREAM,
        )
    )
    async def read(self, request: web.Request) -> web.StreamResponse:
        hub_name = request.match_info["hub_name"]
        self._gate.admit(request, hub_name, Right.LISTEN, hub_name)
        count_as(request, "read")
        self._gate.throttle_reading()
        if query_choice(request, "format", get_args(_Format), "arrow") == "json":
            return await self._read_json(request)
        if len(self._readers) >= MAX_BULK_READS:
            raise ServerBusy(f"{len(self._readers)} bulk reads are under way; at most {MAX_BULK_READS} may be.")
        wanted = _wanted(request, self._gate.hosted.namespace, _MAX_NUMBER, _MAX_NUMBER)
        log = self._gate.hosted.store.log
        end = log.end_of_bulk_read(wanted.hub.number, wanted.partition.partition_id, wanted.first, wanted.end)
        wanted = wanted._replace(end=end)
        task = asyncio.current_task()
        assert task is not None
        # Nothing is awaited before the snapshot is in good hands: what it holds open would stay so.
        snapshot = log.snapshot(wanted.hub.number, wanted.partition.partition_id, wanted.first, wanted.end)
        self._readers.add(task)
        try:
            return await self._stream(request, wanted, snapshot)
        finally:
            self._readers.discard(task)
            snapshot.close()

    # --- in bulk --------------------------------------------------------------------------------------------

    async def _stream(self, request: web.Request, wanted: _Range, snapshot: RangeSnapshot) -> web.StreamResponse:
        headers = {"Content-Type": ARROW_STREAM, **wanted.headers()}
        if snapshot.missing:
            headers["Tandem-Missing-Events"] = ",".join([f"{first}-{end - 1}" for first, end in snapshot.missing])
        response = web.StreamResponse(headers=headers)
        is_of_heads = query_choice(request, "columns", get_args(_Columns), "table") == "head"
        chunks = snapshot.stream(wanted.end - wanted.first, is_of_heads=is_of_heads)
        # The first one before the answer begins: an error is still an answer then.
        chunk = await self._next(chunks)
        await response.prepare(request)
        try:
            while chunk is not None:
                async with asyncio.timeout(MAX_BULK_READ_STALL_S):
                    await response.write(chunk)
                chunk = await self._next(chunks)
        except ConnectionError:
            # The client has gone, and knows why.
            return response
        except EventsDamaged as error:
            # Reported already. Who asks again learns from the headers which events are missing.
            _break_off(request)
            logger.warning("a bulk read of %s was broken off: %s", wanted.hub.name, error)
            return response
        except TimeoutError:
            _break_off(request)
            logger.warning(
                "a bulk read of %s was broken off: nobody took it for %d s", wanted.hub.name, MAX_BULK_READ_STALL_S
            )
            return response
        except BaseException:
            _break_off(request)
            raise
        await response.write_eof()
        return response

    async def _next(self, chunks: Iterator[bytes]) -> bytes | None:
        reading = asyncio.get_running_loop().run_in_executor(self._threads, next, chunks, None)
        try:
            return await asyncio.shield(reading)
        except asyncio.CancelledError:
            # What a thread reads from must not be closed under it, however often we are told to hurry.
            while not reading.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([reading])
            raise

    async def stop(self, _: web.Application) -> None:
        """The broker stops: nobody waits for readers, who can ask again."""
        for task in self._readers:
            task.cancel()

    async def close(self, _: web.Application) -> None:
        self._threads.shutdown()

    # --- for people -----------------------------------------------------------------------------------------

    async def _read_json(self, request: web.Request) -> web.Response:
        found: _Range | None = None

        def look(namespace: Namespace, asker: object) -> None:
            nonlocal found
            found = _wanted(request, namespace, _DEFAULT_SHOWN_EVENTS, MAX_SHOWN_EVENTS)

            def answer(events: list[Event]) -> None:
                namespace.effects.reply(asker, events)

            def refuse(error: ProtocolError) -> None:
                namespace.effects.reply(asker, error)

            if found.first == found.end:
                answer([])
                return
            count = found.end - found.first
            number, partition_id = found.hub.number, found.partition.partition_id
            namespace.effects.queries.append(
                EventsQuery(number, partition_id, found.first, count, MAX_PEEK_BYTES, answer, refuse)
            )

        events = cast("list[Event]", await ask(self._gate, look))
        assert found is not None
        partition = found.partition
        # Of a store that gives more than it was asked for, or of what retention has taken meanwhile.
        shown = [shown_event(one, partition.partition_id, "full") for one in events if one.sequence_number < found.end]
        return json_answer(
            EventList(
                hub=found.hub.name,
                partition=str(partition.partition_id),
                incarnation=incarnation_of(found.hub),
                begin_sequence_number=partition.begin_sequence_number,
                next_sequence_number=partition.next_sequence_number,
                events=shown,
                # What is left out is lost, and is not asked for again.
                next_from=shown[-1].sequence_number + 1 if shown else found.end,
            )
        )


def _break_off(request: web.Request) -> None:
    """A stream that just ended would look whole."""
    if request.transport is not None:
        request.transport.abort()


def _wanted(request: web.Request, namespace: Namespace, default: int, most: int) -> _Range:
    """What is there of what a request asks for. What is older is gone, and what is younger has not come."""
    hub = namespace.hubs.get(request.match_info["hub_name"])
    if not hub.description.can_receive:
        raise hub.disabled()
    incarnation = request.query.get("incarnation", incarnation_of(hub))
    if incarnation != incarnation_of(hub):
        raise HubRecreated(
            f"incarnation is {incarnation!r:.40}, and '{hub.name}' is {incarnation_of(hub)} now: it was deleted and "
            "made again, and its numbers began anew."
        )
    partition = hub.partition(request.match_info["partition_id"])
    begin, behind = partition.begin_sequence_number, partition.next_sequence_number
    asked_from = query_number(request, "from", begin, 0, _MAX_NUMBER)
    asked_to = query_number(request, "to", max(behind, asked_from), 0, _MAX_NUMBER)
    limit = query_number(request, "max", default, 0, most)
    if asked_from > behind:
        raise ArgumentOutOfRange(
            f"from is {asked_from:,}; the next event of partition {partition.partition_id} will have number {behind:,}"
        )
    if asked_to < asked_from:
        raise ArgumentOutOfRange(f"to is {asked_to:,}, which is less than from, {asked_from:,}")
    first = max(asked_from, begin)
    end = max(first, min(asked_to, behind, first + limit))
    return _Range(hub, partition, asked_from, first, end)
