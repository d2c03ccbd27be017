"""`tandem hub read`: events of a hub, from any position on."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem import wire_names
from tandem.cli.entities.hub import HubName
from tandem.cli.messages.hub_send import app
from tandem.cli.messages.message_fields import MessageFields, event_fields, print_messages
from tandem.cli.shared.broker import management
from tandem.cli.shared.commands import failing_with
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import print_json
from tandem.durations import parse_duration_ms
from tandem.errors import ArgumentError

if TYPE_CHECKING:
    from tandem.client import EventHubClient, EventHubConsumer

__all__ = ["app", "read_events"]

# Exit codes.
_CAME: Final = 0
_NOTHING_CAME: Final = 1
_ERROR: Final = 2

# Events. What is asked for at once.
_BATCH: Final = 200

# Events. What is shown if nobody says how many.
_DEFAULT_EVENTS: Final = 100

# Seconds. How long to wait for an event that the broker said it has.
_MAX_WAIT_S: Final = 10.0

# Seconds. One wait of --follow, which begins again until Ctrl-C.
_FOLLOWING_WAIT_S: Final = 3_600.0

_ALL: Final = "all"


@app.command("read")
@failing_with(_ERROR)
def read_events(
    hub: HubName,
    partition: Annotated[str, typer.Option(metavar="P|all", help="Of this partition only.")] = _ALL,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="start|end|SEQUENCE|TIME",
            help="Begin there: a sequence number, a moment as 2030-01-31T12:00:00Z, or 10m ago as 10m.",
            show_default="start; with --follow, end",
        ),
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(
            "--max", metavar="N", min=0, help="Stop after that many; 0 for no limit.", show_default="100, or none"
        ),
    ] = None,
    follows: Annotated[bool, typer.Option("--follow", help="Go on with what comes, until Ctrl-C.")] = False,
    group: Annotated[str, typer.Option(metavar="GROUP", help="Read as one of this consumer group.")] = "$Default",
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Read events of an event hub. They stay where they are.

    Without --follow it ends with the last event that was there when it began. Events are in order within a partition.
    With --json there is one object to a line. On a terminal, nothing in a body can drive it: control characters are
    written out.

    \b
    Exit codes:
      0   at least one event came
      1   none came
      2   it failed

    \b
    Examples:
      tandem hub read telemetry
      tandem hub read telemetry --partition 0 --from 1200 --max 10
      tandem hub read telemetry --from 2030-01-31T12:00:00Z --json
      tandem hub read '$operations' --follow
    """
    position = _Position(start or ("end" if follows else "start"))
    limit = most if most is not None else 0 if follows else _DEFAULT_EVENTS
    reading = _Reading(hub, group, position, limit, as_json)
    reading.choose(partition, connection_string)
    # It is how following ends.
    with contextlib.suppress(KeyboardInterrupt):
        reading.run(connection_string, follows)
    if not reading.count:
        typer.echo(f"no event came from {hub}", err=True)
    raise typer.Exit(_CAME if reading.count else _NOTHING_CAME)


class _Position:
    """Where to begin, as the selector of a link."""

    def __init__(self, text: str) -> None:
        self.sequence_number: int | None = None
        self.at_ms: int | None = None
        if text == "start":
            self.selector = f"{wire_names.SELECTED_ANNOTATION}{wire_names.OFFSET} > '-1'"
        elif text == "end":
            self.selector = f"{wire_names.SELECTED_ANNOTATION}{wire_names.OFFSET} > '@latest'"
        elif text.isascii() and text.isdigit() and len(text) <= 18:
            self.sequence_number = int(text)
            self.selector = f"{wire_names.SELECTED_ANNOTATION}{wire_names.SEQUENCE_NUMBER} >= '{text}'"
        else:
            self.at_ms = _moment_ms(text)
            self.selector = f"{wire_names.SELECTED_ANNOTATION}{wire_names.ENQUEUED_TIME} >= '{self.at_ms}'"
        self._is_end = text == "end"

    def first_of(self, partition: dict[str, Any]) -> int:
        """The number of the first event that is wanted, if it is there."""
        if self._is_end:
            return int(partition["next_sequence_number"])
        wanted = partition.get("sequence_number_at_time", self.sequence_number or 0)
        return max(int(wanted), int(partition["begin_sequence_number"]))

    def selector_of(self, partition: dict[str, Any]) -> str:
        """A number that has not come yet is what comes next."""
        if self.sequence_number is not None and self.sequence_number >= partition["next_sequence_number"]:
            return _Position("end").selector
        return self.selector


def _moment_ms(text: str) -> int:
    """A moment, in UTC unless it says otherwise; or a time ago."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            ago_ms = parse_duration_ms(text, "--from")
        except ArgumentError:
            ago_ms = None
        if ago_ms is None:
            raise CommandFailed(
                f"--from is {text!r:.80}; write start, end, a sequence number, a moment as 2030-01-31T12:00:00Z, or "
                "10m for ten minutes ago"
            ) from None
        return max(0, round(time.time() * 1_000) - ago_ms)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


class _Enough(Exception):
    """As many came as were wanted."""


class _Reading:
    """What is read, and how many came."""

    def __init__(self, hub: str, group: str, position: _Position, limit: int, as_json: bool) -> None:
        self._hub = hub
        self._group = group
        self._position = position
        self._limit = limit
        self._as_json = as_json
        self._partitions: list[dict[str, Any]] = []
        self.count = 0

    def choose(self, partition: str, connection_string: str | None) -> None:
        with management(connection_string, "hub") as client:
            self._partitions = client.hub(self._hub).positions(self._position.at_ms)["partitions"]
        if partition != _ALL:
            known = len(self._partitions)
            self._partitions = [one for one in self._partitions if one["partition"] == partition]
            if not self._partitions:
                raise CommandFailed(f"--partition is {partition!r:.40}; {self._hub} has 0 to {known - 1}, or all")

    def run(self, connection_string: str | None, follows: bool) -> None:
        from tandem.cli.shared.amqp_link import connected_hub
        from tandem.driver import run

        async def work() -> None:
            async with connected_hub(connection_string, self._hub) as client:
                with contextlib.suppress(_Enough):
                    if follows:
                        await self._follow_all(client)
                    else:
                        for partition in self._partitions:
                            await self._read(client, partition)

        run(work())

    # --- from the broker ------------------------------------------------------------------------------------

    def _consumer(self, client: EventHubClient, partition: dict[str, Any]) -> EventHubConsumer:
        from tandem.client import EventPosition

        position = EventPosition(self._position.selector_of(partition))
        return client.create_consumer(self._group, partition["partition"], position, prefetch_count=_BATCH)

    async def _read(self, client: EventHubClient, partition: dict[str, Any]) -> None:
        """What is there, up to what was there at the beginning."""
        end, behind = partition["next_sequence_number"], self._position.first_of(partition)
        if behind >= end:
            return
        consumer = self._consumer(client, partition)
        # Retention may take the last of them before they are sent, and then none comes to say so.
        while behind < end and (events := await _arrived(consumer, _MAX_WAIT_S)):
            behind = events[-1]["sequence_number"] + 1
            self._show([one for one in events if one["sequence_number"] < end])
        await consumer.close()

    async def _follow_all(self, client: EventHubClient) -> None:
        tasks = [asyncio.create_task(self._follow(client, partition)) for partition in self._partitions]
        try:
            # None of them ends but by an error, which is that of all.
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _follow(self, client: EventHubClient, partition: dict[str, Any]) -> None:
        consumer = self._consumer(client, partition)
        first = self._position.sequence_number or 0
        while True:
            events = await _arrived(consumer, _FOLLOWING_WAIT_S)
            self._show([one for one in events if one["sequence_number"] >= first])

    # --- what is printed ------------------------------------------------------------------------------------

    def _show(self, events: list[MessageFields]) -> None:
        if self._limit:
            events = events[: self._limit - self.count]
        self.count += len(events)
        if self._as_json:
            for event in events:
                print_json(event)
        elif events:
            print_messages(events)
        sys.stdout.flush()
        if self._limit and self.count >= self._limit:
            raise _Enough


async def _arrived(consumer: EventHubConsumer, wait_s: float) -> list[MessageFields]:
    """Return the events that have come when the first one has; none if no event came in this time."""
    from tandem.amqp import Message

    payloads = await consumer.receive_payloads(_BATCH, wait_s)
    return [event_fields(Message(payload), consumer.partition_id) for payload in payloads]
