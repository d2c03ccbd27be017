"""`tandem send`: messages to a queue or a topic."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tandem.cli.entities import print_done
from tandem.cli.failure import CommandFailed
from tandem.cli.options import AsJson, BodyFile, Connection, EntityPath, MessageProperties, read_body
from tandem.cli.output import Advance, progress
from tandem.durations import parse_duration_ms
from tandem.errors import ArgumentError, RemoteError
from tandem.wire_names import SCHEDULED_ENQUEUE_TIME

if TYPE_CHECKING:
    from tandem.amqp import DeliveryState
    from tandem.amqp.message import Properties

__all__ = ["require_accepted", "send", "send_all", "user_properties"]

# Messages. What is under way before the broker has acknowledged it.
_WINDOW: Final = 500


def send(
    entity: EntityPath,
    body: Annotated[str | None, typer.Argument(metavar="[BODY]", help="The body, a text.", show_default=False)] = None,
    file: BodyFile = None,
    count: Annotated[int, typer.Option(help="Send that many of them.", min=1, max=10_000_000)] = 1,
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
    from tandem.amqp.message import Properties

    given = Properties(
        message_id=message_id,
        to=to,
        subject=label,
        reply_to=reply_to,
        correlation_id=correlation_id,
        content_type=content_type,
        group_id=session_id,
    )
    draft = _Draft(
        read_body(body, file, "a body"),
        given,
        user_properties(properties or []),
        _duration_ms(time_to_live, "--time-to-live"),
        _scheduled_at_ms(schedule_at),
    )
    send_all(entity, draft.encode, count, connection_string, as_json)
    several = f"{count:,} messages" if count > 1 else "1 message"
    # With several, each has an id of its own, unless one was given.
    known_id = message_id if count > 1 else given.message_id
    print_done(f"sent {several} to {entity}", {"entity": entity, "count": count, "message_id": known_id}, as_json)


class _Draft:
    """A message that is to be sent, perhaps many times."""

    def __init__(
        self,
        body: bytes,
        properties: Properties,
        application_properties: dict[str, object],
        time_to_live_ms: int | None,
        scheduled_at_ms: int | None,
    ) -> None:
        self._body = body
        self._properties = properties
        self._application_properties = application_properties
        self._time_to_live_ms = time_to_live_ms
        self._scheduled_at_ms = scheduled_at_ms
        self._has_id = properties.message_id is not None

    def encode(self) -> bytes:
        from tandem.amqp.message import Header, encode_message
        from tandem.amqp.types import Timestamp

        if not self._has_id:
            self._properties.message_id = uuid.uuid4().hex
        at_ms = self._scheduled_at_ms
        return encode_message(
            header=Header(durable=True, ttl_ms=self._time_to_live_ms),
            message_annotations=None if at_ms is None else {SCHEDULED_ENQUEUE_TIME: Timestamp(at_ms)},
            properties=self._properties,
            application_properties=self._application_properties,
            data=self._body,
        )


# --- what was given -------------------------------------------------------------------------------------------------


def user_properties(texts: list[str]) -> dict[str, object]:
    from tandem.cli.properties import parse_properties
    from tandem.engine.rule import typed_values
    from tandem.rules.values import amqp_value

    typed = typed_values("property", {"property": parse_properties(texts, "--property")})
    return {name: amqp_value(value) for name, value in typed.items()}


def _duration_ms(text: str | None, option: str) -> int | None:
    value_ms = None if text is None else parse_duration_ms(text, option)
    # More than a header can say is as good as for ever.
    return None if value_ms is None or value_ms >= 2**32 else value_ms


def _scheduled_at_ms(text: str | None) -> int | None:
    """A moment, in UTC unless it says otherwise; or a time from now on."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            delay_ms = parse_duration_ms(text, "--schedule-at")
        except ArgumentError:
            delay_ms = None
        if delay_ms is None:
            raise CommandFailed(
                f"--schedule-at is {text!r:.80}; write a moment as 2030-01-31T12:00:00Z, or a time from now as 10m"
            ) from None
        return round(time.time() * 1_000) + delay_ms
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)


# --- to the broker --------------------------------------------------------------------------------------------------


def send_all(
    address: str,
    encode: Callable[[], bytes],
    count: int,
    connection_string: str | None,
    is_quiet: bool,
    noun: str = "entity",
) -> None:
    """Return when the broker has all of them. Each is encoded anew: it may have an id of its own."""
    from tandem.cli.link import connected
    from tandem.driver import run

    async def work(advance: Advance) -> None:
        async with connected(connection_string, noun) as client:
            sender = await client.sender(address)
            for first in range(0, count, _WINDOW):
                batch = [encode() for _ in range(min(_WINDOW, count - first))]
                # Each begins in the order of the list, and so they keep it.
                for outcome in await asyncio.gather(*map(sender.send, batch)):
                    require_accepted(outcome)
                advance(first + len(batch), count)
            await sender.close()

    with progress(f"sending to {address}", count, is_quiet or count == 1) as advance:
        run(work(advance))


def require_accepted(outcome: DeliveryState | None) -> None:
    from tandem.amqp import ACCEPTED, Rejected

    if isinstance(outcome, Rejected) and outcome.error is not None:
        raise RemoteError(outcome.error.condition, outcome.error.description or outcome.error.condition)
    if outcome != ACCEPTED:
        raise CommandFailed(f"the broker did not take the message: {outcome!r}")
