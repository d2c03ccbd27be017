"""`tandem receive`: messages of a queue or a subscription."""

from __future__ import annotations

import asyncio
import enum
import sys
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tandem.cli.messages.message_fields import body_bytes, fields_of, print_messages
from tandem.cli.shared.commands import failing_with, made_by
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection, EntityPath
from tandem.cli.shared.output import neutral_lines, print_json
from tandem.durations import duration_text, parse_duration_ms

if TYPE_CHECKING:
    from tandem.amqp import Message
    from tandem.client import BrokeredMessage, MessageReceiver, MessagingFactory

__all__ = ["SubQueueName", "receive"]

# Exit codes.
_CAME: Final = 0
_NOTHING_CAME: Final = 1
_ERROR: Final = 2

# Messages. What is taken at once; each is locked while it is printed.
_BATCH: Final = 100

# Seconds. Stands for ever: more than three weeks, in milliseconds as many as an attach can say.
_LONGEST_WAIT_S: Final = 2.0**31 / 1_000


class SubQueueName(enum.Enum):
    """Where messages end up that were not completed."""

    DEAD_LETTER = "dead-letter"
    TRANSFER_DEAD_LETTER = "transfer-dead-letter"


_SUB_QUEUE_PATHS: Final = {
    SubQueueName.DEAD_LETTER: "/$deadletterqueue",
    SubQueueName.TRANSFER_DEAD_LETTER: "/$Transfer/$deadletterqueue",
}


# --- what was given -------------------------------------------------------------------------------------------------


class _Fate(enum.Enum):
    """What becomes of messages that were printed."""

    COMPLETED = "completed"
    DELETED = "deleted"
    # Only when no more are wanted: those that are given back come again.
    ABANDONED = "abandoned"
    DEAD_LETTERED = "dead-lettered"


class _Inlet(NamedTuple):
    """Where messages come from, how long to wait for the next, and what becomes of them."""

    path: str
    wait_s: float
    is_session: bool
    # None for the next session that is free.
    session_id: str | None
    fate: _Fate
    reason: str | None
    description: str | None
    # The sentence for somebody who waited in vain.
    nothing_came: str

    async def open(self, factory: MessagingFactory) -> MessageReceiver | None:
        """Return None if no session was free in time."""
        from tandem.client import OperationTimeoutError, ReceiveMode

        mode = ReceiveMode.RECEIVE_AND_DELETE if self.fate is _Fate.DELETED else ReceiveMode.PEEK_LOCK
        if not self.is_session:
            return factory.create_message_receiver(self.path, mode)
        try:
            return await factory.create_queue_client(self.path, mode).accept_session(self.session_id, self.wait_s)
        except OperationTimeoutError:
            return None

    async def settle(self, messages: list[BrokeredMessage]) -> None:
        if self.fate is _Fate.DEAD_LETTERED:
            await asyncio.gather(*(message.dead_letter(self.reason, self.description) for message in messages))
        elif self.fate is _Fate.ABANDONED:
            await asyncio.gather(*(message.abandon() for message in messages))
        elif self.fate is _Fate.COMPLETED:
            await asyncio.gather(*(message.complete() for message in messages))


def _inlet(
    entity: EntityPath,
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
) -> _Inlet:
    _require_at_most_one({"--delete": deletes, "--abandon": abandons, "--dead-letter": dead_letters})
    _require_at_most_one({"--session-id": session_id is not None, "--next-session": next_session})
    if (reason is not None or description is not None) and not dead_letters:
        raise CommandFailed("--reason and --description are for --dead-letter")
    wait_ms = parse_duration_ms(wait, "--wait")
    path = entity + _SUB_QUEUE_PATHS[sub_queue] if sub_queue else entity
    wait_s = _LONGEST_WAIT_S if wait_ms is None else min(wait_ms / 1_000, _LONGEST_WAIT_S)
    is_session, fate = session_id is not None or next_session, _fate(deletes, abandons, dead_letters)
    nothing_came = f"no message came from {entity} within {duration_text(wait_ms)}"
    return _Inlet(path, wait_s, is_session, session_id, fate, reason, description, nothing_came)


def _fate(deletes: bool, abandons: bool, dead_letters: bool) -> _Fate:
    if deletes:
        return _Fate.DELETED
    if abandons:
        return _Fate.ABANDONED
    return _Fate.DEAD_LETTERED if dead_letters else _Fate.COMPLETED


def _require_at_most_one(options: dict[str, bool]) -> None:
    if sum(options.values()) > 1:
        *first, last = options
        raise CommandFailed(f"one of {', '.join(first)} and {last} at a time")


# --- from the broker ------------------------------------------------------------------------------------------------


@failing_with(_ERROR)
@made_by(_inlet, "inlet")
def receive(
    inlet: _Inlet,
    most: Annotated[int, typer.Option("--max", metavar="N", help="Stop after that many; 0 for no limit.", min=0)] = 1,
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
    _require_at_most_one({"--body-only": body_only, "--json": as_json})
    printer = _BodyPrinter() if body_only else _JsonPrinter() if as_json else _TablePrinter()
    count = _receive(inlet, printer, most, connection_string)
    if not count:
        typer.echo(inlet.nothing_came, err=True)
    raise typer.Exit(_CAME if count else _NOTHING_CAME)


def _receive(inlet: _Inlet, printer: _Printer, most: int, connection_string: str | None) -> int:
    """Return how many messages came."""
    from tandem.cli.shared.amqp_link import connected
    from tandem.driver import run

    async def work() -> int:
        count = 0
        kept: list[BrokeredMessage] = []
        async with connected(connection_string, inlet.path) as factory:
            receiver = await inlet.open(factory)
            # No more is ever asked for than is wanted: what is sent to us is locked, or gone.
            while receiver is not None and (not most or count < most):
                batch = await receiver.receive_batch(min(_BATCH, most - count) if most else _BATCH, inlet.wait_s)
                if not batch:
                    break
                count += len(batch)
                printer.show([message.received for message in batch])
                if inlet.fate is _Fate.ABANDONED:
                    kept += batch
                else:
                    await inlet.settle(batch)
            await inlet.settle(kept)
        return count

    return run(work())


# --- what is printed ------------------------------------------------------------------------------------------------


class _Printer:
    """Shows messages as they come."""

    def show(self, batch: list[Message]) -> None:
        raise NotImplementedError


class _JsonPrinter(_Printer):
    """One object to a line."""

    def show(self, batch: list[Message]) -> None:
        for message in batch:
            print_json(fields_of(message))
        sys.stdout.flush()


class _TablePrinter(_Printer):
    """A table for each batch, with headings of its own: messages are completed when they have been shown."""

    def show(self, batch: list[Message]) -> None:
        print_messages([fields_of(message) for message in batch])
        sys.stdout.flush()


class _BodyPrinter(_Printer):
    """The bodies, with a line break between each two. To a file or a pipe they go byte by byte."""

    def __init__(self) -> None:
        self._is_first = True

    def show(self, batch: list[Message]) -> None:
        is_terminal = sys.stdout.isatty()
        for message in batch:
            body = body_bytes(message)
            if is_terminal:
                typer.echo(neutral_lines(body.decode(errors="backslashreplace")))
            else:
                typer.echo(body if self._is_first else b"\n" + body, nl=False)
            self._is_first = False
        sys.stdout.flush()
