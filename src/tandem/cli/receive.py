"""`tandem receive`: messages of a queue or a subscription."""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tandem import wire_names
from tandem.cli.failure import CommandFailed
from tandem.cli.messages import body_bytes, fields_of, print_messages
from tandem.cli.options import AsJson, Connection, EntityPath
from tandem.cli.output import neutral_lines, print_json
from tandem.durations import duration_text, parse_duration_ms
from tandem.errors import RemoteError, TandemError

if TYPE_CHECKING:
    from tandem.amqp import DeliveryState, IncomingDelivery
    from tandem.driver import Client, Receiver

__all__ = ["SubQueueName", "receive"]

# Exit codes.
_CAME: Final = 0
_NOTHING_CAME: Final = 1
_ERROR: Final = 2

# Messages. What is taken at once; each is locked while it is printed.
_BATCH: Final = 100

# Milliseconds. Added to what a link is attached within: the broker waits that long for a session, and then answers.
_LONGEST_WAIT_MS: Final = 2**31


class SubQueueName(enum.Enum):
    """Where messages end up that were not completed."""

    DEAD_LETTER = "dead-letter"
    TRANSFER_DEAD_LETTER = "transfer-dead-letter"


_SUB_QUEUE_PATHS: Final = {
    SubQueueName.DEAD_LETTER: "/$deadletterqueue",
    SubQueueName.TRANSFER_DEAD_LETTER: "/$Transfer/$deadletterqueue",
}


def receive(
    entity: EntityPath,
    most: Annotated[int, typer.Option("--max", metavar="N", help="Stop after that many; 0 for no limit.", min=0)] = 1,
    wait: Annotated[
        str, typer.Option(metavar="TIME", help="Stop when nothing came for this long; 0s takes what is there.")
    ] = "1s",
    deletes: Annotated[
        bool, typer.Option("--delete", help="Take messages off as they are sent: quicker, and lost if this fails.")
    ] = False,
    abandons: Annotated[
        bool, typer.Option("--abandon", help="Give messages back at the end; their delivery counts.")
    ] = False,
    dead_letters: Annotated[bool, typer.Option("--dead-letter", help="Make dead letters of them.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why, with --dead-letter.")] = None,
    description: Annotated[str | None, typer.Option(help="Why in more words, with --dead-letter.")] = None,
    session_id: Annotated[str | None, typer.Option(help="Of a queue with sessions: those of this one.")] = None,
    next_session: Annotated[
        bool, typer.Option("--next-session", help="Those of the next session that nobody has locked.")
    ] = False,
    sub_queue: Annotated[
        SubQueueName | None,
        typer.Option(
            metavar="|".join(one.value for one in SubQueueName), help="Receive what could not be delivered, instead."
        ),
    ] = None,
    body_only: Annotated[
        bool, typer.Option("--body-only", help="Print the bodies and nothing else, as they are, to pipe them on.")
    ] = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Receive messages from a queue or a subscription, and complete them.

    A message is printed first and completed then, so that none is lost. With --json there is one object to a line. On
    a terminal, nothing in a body can drive it: control characters are written out.

    \b
    Exit codes:
      0   at least one message came
      1   none came
      2   it failed

    \b
    Examples:
      tandem receive orders
      tandem receive orders --max 100 --wait 10s --json
      tandem receive orders --sub-queue dead-letter --abandon
      tandem receive prices/Subscriptions/europe --body-only > price.json
      tandem receive carts --next-session --max 0
    """
    try:
        _require_at_most_one({"--delete": deletes, "--abandon": abandons, "--dead-letter": dead_letters})
        _require_at_most_one({"--session-id": session_id is not None, "--next-session": next_session})
        _require_at_most_one({"--body-only": body_only, "--json": as_json})
        if (reason is not None or description is not None) and not dead_letters:
            raise CommandFailed("--reason and --description are for --dead-letter")
        wait_ms = parse_duration_ms(wait, "--wait")
        inlet = _Inlet(entity + _SUB_QUEUE_PATHS[sub_queue] if sub_queue else entity, deletes, wait_ms)
        if session_id is not None or next_session:
            inlet.choose_session(session_id)
        settlement = _Settlement(deletes, abandons, dead_letters, reason, description)
        printer = _BodyPrinter() if body_only else _JsonPrinter() if as_json else _TablePrinter()
        count = _receive(inlet, settlement, printer, most, connection_string)
    except TandemError as error:
        typer.echo(f"tandem: {error}", err=True)
        raise typer.Exit(_ERROR) from error
    if not count:
        typer.echo(f"no message came from {entity} within {duration_text(wait_ms)}", err=True)
    raise typer.Exit(_CAME if count else _NOTHING_CAME)


def _require_at_most_one(options: dict[str, bool]) -> None:
    if sum(options.values()) > 1:
        *first, last = options
        raise CommandFailed(f"one of {', '.join(first)} and {last} at a time")


# --- from the broker ------------------------------------------------------------------------------------------------


class _Inlet:
    """Where messages come from, and how long to wait for the next."""

    def __init__(self, address: str, deletes: bool, wait_ms: int | None) -> None:
        self._address = address
        self._deletes = deletes
        self._wait_ms = wait_ms
        self._filter: dict[object, object] | None = None

    def choose_session(self, session_id: str | None) -> None:
        """None for the next one that is free."""
        from tandem.amqp.types import Symbol

        self._filter = {Symbol(wire_names.SESSION_FILTER): session_id}

    async def attach(self, client: Client) -> Receiver:
        from tandem.amqp import Source
        from tandem.amqp.types import Symbol, UInt

        wait_ms = _LONGEST_WAIT_MS if self._wait_ms is None else self._wait_ms
        source = Source(self._address, filter=self._filter)
        properties: dict[object, object] = {Symbol(wire_names.TIMEOUT): UInt(min(wait_ms, _LONGEST_WAIT_MS))}
        return await client.receiver(source, credit=0, is_settled=self._deletes, properties=properties)

    async def batches(self, receiver: Receiver, most: int) -> AsyncIterator[list[IncomingDelivery]]:
        """What comes, as it comes. No more is ever asked for than is wanted: what is sent to us is locked, or gone."""
        came = 0
        while not most or came < most:
            batch = await self._batch(receiver, min(_BATCH, most - came) if most else _BATCH)
            if not batch:
                return
            came += len(batch)
            yield batch

    async def _batch(self, receiver: Receiver, wanted: int) -> list[IncomingDelivery]:
        receiver.grant(wanted)
        batch: list[IncomingDelivery] = []
        try:
            async with asyncio.timeout(None if self._wait_ms is None else self._wait_ms / 1_000):
                batch.append(await receiver.receive())
        except TimeoutError:
            # What is on its way now still counts; what has arrived meanwhile is not asked for again.
            if receiver.waiting_count < wanted:
                await receiver.drain(wanted - receiver.waiting_count)
        while receiver.waiting_count and len(batch) < wanted:
            batch.append(await receiver.receive())
        return batch


class _Settlement:
    """What becomes of messages that were printed."""

    def __init__(
        self, deletes: bool, abandons: bool, dead_letters: bool, reason: str | None, description: str | None
    ) -> None:
        from tandem.amqp import ACCEPTED, AmqpError, Modified, Rejected

        self._deletes = deletes
        # Those that are given back come again: only when no more are wanted.
        self._abandons = abandons
        self._kept: list[IncomingDelivery] = []
        self._state: DeliveryState = ACCEPTED
        if abandons:
            self._state = Modified(delivery_failed=True)
        elif dead_letters:
            texts = {wire_names.DEAD_LETTER_REASON: reason, wire_names.DEAD_LETTER_ERROR_DESCRIPTION: description}
            info: dict[object, object] = {name: text for name, text in texts.items() if text is not None}
            self._state = Rejected(AmqpError(wire_names.DEAD_LETTER_CONDITION, info=info))

    async def settle(self, receiver: Receiver, batch: list[IncomingDelivery]) -> None:
        if self._abandons:
            self._kept += batch
        elif not self._deletes:
            await self._confirm(receiver, batch)

    async def finish(self, receiver: Receiver) -> None:
        await self._confirm(receiver, self._kept)

    async def _confirm(self, receiver: Receiver, batch: list[IncomingDelivery]) -> None:
        from tandem.amqp import Rejected

        for outcome in await asyncio.gather(*[receiver.confirm(delivery, self._state) for delivery in batch]):
            # To a message that we reject, the broker says yes in the same words, but without an error.
            if isinstance(outcome, Rejected) and outcome.error is not None:
                raise RemoteError(outcome.error.condition, outcome.error.description or outcome.error.condition)


def _receive(
    inlet: _Inlet, settlement: _Settlement, printer: _Printer, most: int, connection_string: str | None
) -> int:
    """How many messages came."""
    from tandem.cli.link import connected
    from tandem.driver import run

    async def work() -> int:
        count = 0
        async with connected(connection_string) as client:
            try:
                receiver = await inlet.attach(client)
            except RemoteError as error:
                # No session was free.
                if error.condition == wire_names.TIMEOUT:
                    return 0
                raise
            async for batch in inlet.batches(receiver, most):
                printer.show(batch)
                await settlement.settle(receiver, batch)
                count += len(batch)
            printer.finish()
            await settlement.finish(receiver)
            await receiver.close()
        return count

    return run(work())


# --- what is printed ------------------------------------------------------------------------------------------------


class _Printer:
    """Shows messages as they come."""

    def show(self, batch: list[IncomingDelivery]) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """No more will come."""


class _JsonPrinter(_Printer):
    """One object to a line."""

    def show(self, batch: list[IncomingDelivery]) -> None:
        from tandem.amqp import Message

        for delivery in batch:
            print_json(fields_of(Message(delivery.payload)))
        sys.stdout.flush()


class _TablePrinter(_Printer):
    """A table for each batch, with headings of its own: they are completed when they have been shown."""

    def show(self, batch: list[IncomingDelivery]) -> None:
        from tandem.amqp import Message

        print_messages([fields_of(Message(delivery.payload)) for delivery in batch])
        sys.stdout.flush()


class _BodyPrinter(_Printer):
    """The bodies, with a line break between each two. To a file or a pipe they go byte by byte."""

    def __init__(self) -> None:
        self._is_first = True

    def show(self, batch: list[IncomingDelivery]) -> None:
        from tandem.amqp import Message

        is_terminal = sys.stdout.isatty()
        for delivery in batch:
            body = body_bytes(Message(delivery.payload))
            if is_terminal:
                typer.echo(neutral_lines(body.decode(errors="backslashreplace")))
            else:
                typer.echo(body if self._is_first else b"\n" + body, nl=False)
            self._is_first = False
        sys.stdout.flush()
