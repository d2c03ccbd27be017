"""`tandem send`: messages to a queue or a topic."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tandem.cli.shared.commands import made_by
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, BodyFile, Connection, EntityPath, MessageProperties, read_body
from tandem.cli.shared.output import Advance, print_done, progress
from tandem.durations import parse_duration_ms
from tandem.errors import ArgumentError
from tandem.limits import MAX_MESSAGE_TIME_TO_LIVE_MS, MAX_SENT_MESSAGES

if TYPE_CHECKING:
    from tandem.client import BrokeredMessage

__all__ = ["BodyText", "MessageCount", "SendOne", "send", "send_all", "user_properties"]

# Makes the message, each time with a new id unless one was given.
MakeMessage = Callable[[], "BrokeredMessage"]
# Sends one message, and returns when the broker has it.
SendOne = Callable[[], Awaitable[None]]

BodyText = Annotated[str | None, typer.Argument(metavar="[BODY]", help="The body, a text.", show_default=False)]
MessageCount = Annotated[int, typer.Option(help="Send that many of them.", min=1, max=MAX_SENT_MESSAGES)]

# Messages. What is under way before the broker has acknowledged it.
_WINDOW: Final = 500


# --- what was given -------------------------------------------------------------------------------------------------


def user_properties(texts: list[str]) -> dict[str, object]:
    from tandem.cli.shared.properties import parse_properties
    from tandem.engine.rule import typed_values
    from tandem.rules.values import amqp_value

    typed = typed_values("property", {"property": parse_properties(texts, "--property")})
    return {name: amqp_value(value) for name, value in typed.items()}


def _time_to_live(text: str | None) -> timedelta | None:
    value_ms = None if text is None else parse_duration_ms(text, "--time-to-live")
    # More than a header can say is as good as for ever.
    return None if value_ms is None or value_ms > MAX_MESSAGE_TIME_TO_LIVE_MS else timedelta(milliseconds=value_ms)


def _scheduled_at(text: str | None) -> datetime | None:
    """Return a moment, in UTC unless it says otherwise; or a time from now on."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            delay_ms = parse_duration_ms(text, "--schedule-at")
            if delay_ms is not None:
                return datetime.now(UTC) + timedelta(milliseconds=delay_ms)
        except (ArgumentError, OverflowError):
            pass
        raise CommandFailed(
            f"--schedule-at is {text!r:.80}; write a moment as 2030-01-31T12:00:00Z, or a time from now as 10m"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _message_maker(
    body: BodyText = None,
    file: BodyFile = None,
    properties: MessageProperties = None,
    label: Annotated[str | None, typer.Option(help="What the SDKs call the subject.")] = None,
    message_id: Annotated[
        str | None, typer.Option(help="By which duplicates are known.", show_default="a new one for each message")
    ] = None,
    session_id: Annotated[str | None, typer.Option(help="The session that it belongs to.")] = None,
    content_type: Annotated[str | None, typer.Option(help="Such as application/json.")] = None,
    correlation_id: Annotated[str | None, typer.Option(help="What it is an answer to.")] = None,
    to: Annotated[str | None, typer.Option(help="Whom it is for; rules can select by it.")] = None,
    reply_to: Annotated[str | None, typer.Option(help="Where answers should go.")] = None,
    time_to_live: Annotated[str | None, typer.Option(metavar="TIME", help="It expires after this.")] = None,
    schedule_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Receivers see it from then on: 2030-01-31T12:00:00Z, or 10m from now."),
    ] = None,
) -> MakeMessage:
    from tandem.client import BrokeredMessage

    content, own = read_body(body, file, "a body"), user_properties(properties or [])
    lifetime, moment = _time_to_live(time_to_live), _scheduled_at(schedule_at)

    def make() -> BrokeredMessage:
        return BrokeredMessage(
            content,
            message_id=message_id,
            label=label,
            content_type=content_type,
            correlation_id=correlation_id,
            session_id=session_id,
            reply_to=reply_to,
            to=to,
            time_to_live=lifetime,
            scheduled_enqueue_time_utc=moment,
            properties=own,
        )

    return make


# --- to the broker --------------------------------------------------------------------------------------------------


@made_by(_message_maker, "make")
def send(
    entity: EntityPath,
    make: MakeMessage,
    count: MessageCount = 1,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Send a message to a queue or a topic.

    The command ends when the broker has the message on disk.

    \b
    Examples:
      tandem send orders "a table, four chairs"
      tandem send orders --file order.json --content-type application/json --property amount:int=1200
      tandem send orders hello --count 1000
      git log -1 | tandem send builds --file - --label commit --schedule-at 10m
    """
    first = make()
    messages = itertools.chain([first], iter(make, None))

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[SendOne]:
        from tandem.cli.shared.amqp_link import connected

        async with connected(connection_string, entity) as factory:
            sender = factory.create_message_sender(entity)
            yield lambda: sender.send(next(messages))

    send_all(entity, opened(), count, as_json)
    several = f"{count:,} messages" if count > 1 else "1 message"
    # Of several messages, one that was given.
    known_id = first.message_id if count == 1 or first.message_id == make().message_id else None
    print_done(f"sent {several} to {entity}", {"entity": entity, "count": count, "message_id": known_id}, as_json)


def send_all(target: str, opened: AbstractAsyncContextManager[SendOne], count: int, is_quiet: bool) -> None:
    """Send as often as wanted with what `opened` yields, and return when the broker has all of them."""
    from tandem.driver import run

    async def work(advance: Advance) -> None:
        async with opened as send_one:
            for first in range(0, count, _WINDOW):
                size = min(_WINDOW, count - first)
                # They arrive in the order in which they begin.
                await asyncio.gather(*(send_one() for _ in range(size)))
                advance(first + size, count)

    with progress(f"sending to {target}", count, is_quiet or count == 1) as advance:
        run(work(advance))
