"""What a queue holds, looked at or taken out from inside the broker: no client, no connection, no wait."""

from __future__ import annotations

from functools import partial

from tandem.engine.consumer import Consumer
from tandem.engine.effects import HandedOut, Notice, NoticeKind
from tandem.engine.lock_table import Lock
from tandem.engine.message import SEQUENCE_MASK
from tandem.engine.namespace import Namespace
from tandem.engine.subqueue import SubQueue
from tandem.limits import MAX_PEEK_MESSAGES
from tandem.server.runner import Asker, Runner
from tandem.testing.bus_message import BusMessage, read_bus_message

__all__ = ["browse", "collect"]

# Messages. More than a test sends: a receiver that takes whatever there is.
_ALL = 1_000_000


async def browse(runner: Runner, subqueue: SubQueue) -> list[BusMessage]:
    """Every message in any state, locked or not, in the order of sequence numbers."""
    messages: list[BusMessage] = []
    next_number = 1
    while True:
        payloads = await runner.ask(partial(_peek, subqueue, next_number))
        assert isinstance(payloads, list)
        if not payloads:
            return messages
        messages += [read_bus_message(payload) for payload in payloads]
        # Without the partition, which stands above the number.
        next_number = (messages[-1].sequence_number & SEQUENCE_MASK) + 1


def _peek(subqueue: SubQueue, from_number: int, _: Namespace, asker: Asker) -> None:
    subqueue.peek(from_number, MAX_PEEK_MESSAGES, None, asker)


async def collect(runner: Runner, subqueue: SubQueue) -> list[BusMessage]:
    """Receive and delete every active message that nobody has locked, in the order of sequence numbers."""
    collector = _Collector()
    if subqueue.sessions is None:
        await _drain(runner, await runner.perform(lambda _: subqueue.open_consumer(collector, True)))
    else:
        waiting = [message for message in await browse(runner, subqueue) if message.state == "active"]
        for session_id in dict.fromkeys(message.session_id for message in waiting):
            consumer = await runner.perform(partial(_accept, subqueue, collector, session_id))
            # Another receiver may hold the session, and with it all of its messages.
            if consumer.is_open:
                await _drain(runner, consumer)
    return sorted(map(read_bus_message, collector.payloads), key=lambda message: message.sequence_number)


def _accept(subqueue: SubQueue, collector: _Collector, session_id: str | None, _: Namespace) -> Consumer:
    return subqueue.accept_session(collector, True, session_id, 0)


async def _drain(runner: Runner, consumer: Consumer) -> None:
    outlet = consumer.outlet
    assert outlet is not None
    await runner.perform(lambda _: outlet.grant(consumer, _ALL, True))
    # Until what is on disk was read, handed out and removed.
    await runner.quiet()
    await runner.perform(lambda _: consumer.subqueue.close_consumer(consumer))


class _Collector:
    """What stands behind the consumer."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []

    def deliver(self, locks: list[Lock]) -> None:
        raise AssertionError("a receiver that deletes is given no locks")

    def hand_out(self, message: HandedOut) -> None:
        message.consumer.unsent_count -= 1
        self.payloads.append(message.payload)

    def notify(self, notice: Notice) -> None:
        # Drained, accepted or refused: its caller sees what came of it. Deleted meanwhile: that is news to it.
        if notice.kind is NoticeKind.CLOSED and notice.error is not None:
            raise AssertionError("the entity went away while a test looked at it") from notice.error
