"""How long an outage a backlog absorbs, as `tandem cost estimate` and `tandem pair check` say it."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem.cli.shared.failure import CommandFailed
from tandem.durations import duration_text, parse_duration_ms
from tandem.limits import MAX_BACKLOG_QUEUES, MAX_MESSAGE_SIZE_BYTES

if TYPE_CHECKING:
    from tandem.cost.backlog_capacity import BacklogCapacity

__all__ = [
    "MessageBytes",
    "MessageRate",
    "capacity_fields",
    "capacity_sentences",
    "is_enough",
    "parse_rate",
    "parse_seconds",
]

MessageRate = Annotated[
    str | None,
    typer.Option(
        "--rate",
        metavar="N",
        help="Messages a second during an outage; says how long an outage the backlog queues absorb.",
        show_default=False,
    ),
]
MessageBytes = Annotated[int, typer.Option(min=0, max=MAX_MESSAGE_SIZE_BYTES, help="Size of each message.")]

# Messages a second. Rates outside of these are slips of the finger.
_MIN_RATE: Final = Decimal("0.001")
_MAX_RATE: Final = Decimal(1_000_000_000)


def parse_rate(text: str | None) -> Decimal | None:
    """Return messages a second; None if no rate was given."""
    if text is None:
        return None
    try:
        rate = Decimal(text)
    except InvalidOperation:
        rate = Decimal(0)
    if not rate.is_finite() or not _MIN_RATE <= rate <= _MAX_RATE:
        raise CommandFailed(
            f"--rate is {text!r:.40}; write messages a second, such as 500 or 0.5, from {_MIN_RATE} to {_MAX_RATE:,}"
        )
    return rate


def parse_seconds(text: str, option: str, *, allow_zero: bool = False) -> int:
    """Return the time that an option has, in seconds."""
    value_ms = parse_duration_ms(text, option)
    if value_ms is None:
        raise CommandFailed(f"{option} is {text!r:.40}; it must come to an end")
    value_s = value_ms // 1_000
    if not value_s and not allow_zero:
        raise CommandFailed(f"{option} is {text!r:.40}; it must be at least a second")
    return value_s


def is_enough(capacity: BacklogCapacity, outage_s: int) -> bool:
    """Return whether an outage of that length fits."""
    return capacity.outage_s >= outage_s


def capacity_fields(capacity: BacklogCapacity, outage_s: int) -> dict[str, Any]:
    """Return the figures for JSON."""
    return {
        "messages_per_second": str(capacity.messages_per_second),
        "message_bytes": capacity.message_bytes,
        "backlog_queues": len(capacity.free_bytes),
        "free_bytes": sum(capacity.free_bytes),
        "messages": capacity.messages,
        "absorbed_outage_seconds": capacity.outage_s,
        "outage_seconds": outage_s,
        "backlog_queues_needed": capacity.queues_for(outage_s),
    }


def capacity_sentences(capacity: BacklogCapacity, outage_s: int) -> list[str]:
    """Say how long an outage the queues absorb and, if an outage was given, how many queues that one needs."""
    count = len(capacity.free_bytes)
    absorbed = (
        f"At {capacity.messages_per_second:,f} messages a second of {capacity.message_bytes:,} bytes, "
        f"{count:,} backlog {_queues(count)} with {sum(capacity.free_bytes) >> 20:,} MB free "
        f"{'absorbs' if count == 1 else 'absorb'} an outage of {duration_text(capacity.outage_s * 1_000)} "
        f"({capacity.messages:,} messages)."
    )
    sentences = [absorbed]
    if outage_s:
        needed = capacity.queues_for(outage_s)
        sentences.append(
            f"An outage of {duration_text(outage_s * 1_000)} brings {capacity.messages_of(outage_s):,} messages and "
            f"needs {needed:,} backlog {_queues(needed)}{_beyond(needed)}."
        )
    return sentences


def _queues(count: int) -> str:
    return "queue" if count == 1 else "queues"


def _beyond(count: int) -> str:
    return "" if count <= MAX_BACKLOG_QUEUES else f", more than the {MAX_BACKLOG_QUEUES:,} that a pair can have"
