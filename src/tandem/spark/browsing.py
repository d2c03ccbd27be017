"""Reading a queue without taking anything from it, and taking away afterwards what was dealt with.

A queue is sealed by looking up its first and its last message: what comes later has a higher number. The numbers in
between can be read as often as need be, from many tasks at once. What was read stays in the queue until `purge` has
completed it, number by number: a message that nobody has named is never touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Container, Coroutine
from typing import Any, Final, NamedTuple

from tandem.client import BrokeredMessage, MessageReceiver, MessagingFactory
from tandem.client.errors import MessageLockLostError
from tandem.spark.amqp_transport import patient_settings
from tandem.wire_names import SYPHON_USER_AGENT

__all__ = ["SealedRange", "browse", "purge", "seal", "split"]

# Messages. What is asked for in one request; the service gives fewer if they are large.
_PAGE_MESSAGES: Final = 500

# Messages that are locked at once while a queue is purged: their locks last a minute.
_PURGE_MESSAGES: Final = 500

# Seconds. How long to wait for a message that is to be purged. One that is locked by somebody else stays.
_PURGE_PATIENCE_S: Final = 2.0

# A queue has had fewer messages than this, and the service has higher bits for partitioned ones only.
_MAX_SEQUENCE_NUMBER: Final = (1 << 63) - 1


class SealedRange(NamedTuple):
    """The numbers of messages from `first` to `last`, both included."""

    queue: str
    first: int
    last: int


async def seal(receiver: MessageReceiver, queue: str, first: int = 0, last: int | None = None) -> SealedRange | None:
    """What is in a queue at this moment, within these numbers; None if nothing is.

    The last message is found by halving: nothing but peeking is needed of the service for it.
    """
    found = await _number_from(receiver, first)
    if found is None or (last is not None and found > last):
        return None
    oldest = low = found
    high = _MAX_SEQUENCE_NUMBER if last is None else last
    step = 1
    # Doubling first: most queues are short beside the numbers that they could have.
    while low < high:
        ahead = await _number_from(receiver, min(high, low + step))
        if ahead is None or ahead > high:
            high = min(high, low + step - 1)
            break
        low, step = ahead, step * 2
    while low < high:
        middle = low + (high - low + 1) // 2
        ahead = await _number_from(receiver, middle)
        if ahead is None or ahead > high:
            high = middle - 1
        else:
            low = ahead
    return SealedRange(queue, oldest, low)


async def _number_from(receiver: MessageReceiver, first: int) -> int | None:
    found = await receiver.peek(1, first)
    return found[0].sequence_number if found else None


def split(whole: SealedRange, count: int) -> list[SealedRange]:
    """Into at most so many ranges of about equal length."""
    length = whole.last - whole.first + 1
    count = min(count, length)
    bounds = [whole.first + length * number // count for number in range(count + 1)]
    return [SealedRange(whole.queue, bounds[number], bounds[number + 1] - 1) for number in range(count)]


async def browse(receiver: MessageReceiver, wanted: SealedRange) -> AsyncIterator[list[BrokeredMessage]]:
    """The messages of a range, a page at a time, in the order of their numbers."""
    first = wanted.first
    while first <= wanted.last:
        page = await receiver.peek(_PAGE_MESSAGES, first)
        numbered = [(message.sequence_number or 0, message) for message in page]
        within = [message for number, message in numbered if number <= wanted.last]
        if within:
            yield within
        if len(within) < len(page) or not page:
            return
        first = numbered[-1][0] + 1


async def purge(connection_string: str, queue: str, numbers: Container[int], last: int, timeout_s: float) -> int:
    """Complete the messages of a queue that have one of these numbers, of which `last` is the highest.

    Returns how many were completed. Doing it again completes what was left over, and nothing else.
    """
    done = 0
    # Others are held until the end, so that they do not come again while what lies behind them is looked for.
    held: dict[int, BrokeredMessage] = {}
    settings = patient_settings(timeout_s, SYPHON_USER_AGENT)
    async with MessagingFactory.from_connection_string(connection_string, settings) as factory:
        receiver = factory.create_message_receiver(queue)
        is_over = False
        while not is_over:
            messages = await receiver.receive_batch(_PURGE_MESSAGES, _PURGE_PATIENCE_S)
            named: list[BrokeredMessage] = []
            is_over = not messages
            for message in messages:
                number = message.sequence_number or 0
                # One that comes a second time means that its lock has ended: the rest would follow it.
                is_over = is_over or number >= last or number in held
                if number in numbers:
                    named.append(message)
                else:
                    held[number] = message
            done += sum(await asyncio.gather(*(_settled(message.complete()) for message in named)))
        await asyncio.gather(*(_settled(message.abandon()) for message in held.values()))
    return done


async def _settled(settling: Coroutine[Any, Any, None]) -> bool:
    """Whether it was done in time. If not, the message comes again, to us or to whoever purges next."""
    try:
        await settling
    except MessageLockLostError:
        return False
    return True
