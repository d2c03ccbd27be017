"""Backlog queues drained in parallel, in rounds: seal, forward, note, purge.

    seal       each queue's numbers at this moment, in ranges
    forward    tasks look at their range without taking anything, restore each message and send it where it belongs
    note       what was sent is written to `forwarded`, durable, by queue and number
    report     what was noted is reported to the operations of the secondary, as every syphon does
    purge      what was noted is completed in its backlog queue

A crash between forward and note sends some messages twice, with the message ids that they always had; one between note
and purge is made up for by the next run, which begins with reporting and purging. Nothing is purged that was not noted.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession

from tandem.client import BrokeredMessage, MessageSender, MessageState, MessagingFactory, NamespaceManager, blocking
from tandem.client.errors import MessagingError
from tandem.limits import MAX_BACKLOG_QUEUES
from tandem.location import Location, LocationLike
from tandem.pairing.detour import Told
from tandem.pairing.discovery import BacklogFinder
from tandem.pairing.events import EventDescriber, write_events
from tandem.pairing.judging import is_refused_for_good
from tandem.pairing.ownership import backlog_place
from tandem.pairing.rewriting import NotRestorable, restore
from tandem.spark.amqp_transport import patient_settings
from tandem.spark.browsing import SealedRange, browse, purge, seal, split
from tandem.spark.options import DEFAULT_OPERATION_TIMEOUT_S
from tandem.spark.schemas import FORWARDED, SEALED, arrow_schema
from tandem.wire_names import SYPHON_USER_AGENT

__all__ = ["Drained", "backlog_queues", "syphon"]

SENT: Final = "sent"
_FORWARDED: Final = "forwarded"

# Marks in the folder of a round: its messages were reported, and completed in their backlog queues.
_REPORTED: Final = "_REPORTED"
_PURGED: Final = "_PURGED"

# Messages of a queue in one round: what may be sent again after a crash.
DEFAULT_ROUND_MESSAGES: Final = 100_000


@dataclass
class Drained:
    """What a run did."""

    rounds: int = 0
    sent: int = 0
    purged: int = 0
    # Messages that stay where they are, with the reason.
    left: list[dict[str, Any]] = field(default_factory=list)


def backlog_queues(primary: str, secondary: str, primary_namespace: str | None = None) -> list[str]:
    """Return the backlog queues of a primary, under the name that it reports or the one given."""
    return blocking.run(_backlog_queues(primary, secondary, primary_namespace))


async def _backlog_queues(primary: str, secondary: str, primary_namespace: str | None) -> list[str]:
    manager = NamespaceManager.from_connection_string(secondary)
    async with _factory(primary) as to, _factory(secondary) as source:
        found = await BacklogFinder(to, source, manager, primary_namespace, MAX_BACKLOG_QUEUES).find()
    return list(found.paths)


def syphon(
    spark: SparkSession,
    primary: str,
    secondary: str,
    queues: Sequence[str],
    out: LocationLike,
    *,
    tasks: int = 4,
    round_messages: int = DEFAULT_ROUND_MESSAGES,
    advance: Callable[[Drained], object] = lambda _: None,
) -> Drained:
    """Drain what lies in the backlog queues when it comes to them."""
    done = Drained()
    ledger = Location(out) / _FORWARDED
    earlier = [name for name in ledger.names() if name.startswith("round-")]
    for place in (ledger / name for name in earlier):
        if (place / "_SUCCESS").exists() and not (place / _PURGED).exists():
            done.purged += _finish(primary, secondary, place, _noted(spark, place), queues)
    first = dict.fromkeys(queues, 0)
    while ranges := blocking.run(_seal(secondary, first, tasks, round_messages)):
        place = ledger / f"round-{len(earlier) + done.rounds}"
        _forwarded(spark, ranges, primary, secondary).write.mode("overwrite").parquet(str(place))
        rows = _noted(spark, place)
        done.rounds += 1
        done.sent += sum(row["outcome"] == SENT for row in rows)
        done.left += [row.asDict() for row in rows if row["outcome"] != SENT]
        done.purged += _finish(primary, secondary, place, rows, queues)
        for one in ranges:
            first[one.queue] = max(first[one.queue], one.last + 1)
        advance(done)
    return done


def _noted(spark: SparkSession, place: Location) -> list[Row]:
    """Return what one round did with each message."""
    return spark.read.schema(FORWARDED).parquet(str(place)).collect()


def _finish(primary: str, secondary: str, place: Location, noted: Iterable[Row], queues: Container[str]) -> int:
    """Report what a round has sent, if nobody did, and purge it from these queues. Returns how many were purged."""
    sent = [row for row in noted if row["outcome"] == SENT]
    if not (place / _REPORTED).exists():
        blocking.run(_report(primary, secondary, Counter((row["path"], row["queue"]) for row in sent)))
        (place / _REPORTED).write_text("")
    purged = _purge(secondary, [(row["queue"], row["sequenceNumber"]) for row in sent if row["queue"] in queues])
    if purged == len(sent):
        # A queue that is deleted and made again counts from 1: numbers of this round must not be purged in it.
        (place / _PURGED).write_text("")
    return purged


async def _report(primary: str, secondary: str, counts: Mapping[tuple[str, str], int]) -> None:
    """Tell the operations of the secondary what was moved, so that outages and backlogs are seen to end."""
    async with _factory(primary) as to, _factory(secondary) as source:
        describe = EventDescriber(to.address, to.address, source.address, time.time)
        events = [describe(_moved(path, queue, count)) for (path, queue), count in sorted(counts.items())]
        # A secondary that keeps no operations has nothing that could disagree with them.
        await write_events(source, events)


def _moved(path: str, queue: str, count: int) -> Told:
    place = backlog_place(queue)
    if place is None:
        return Told("syphoned", path, {"count": count, "queue": queue})
    return Told("syphoned", path, {"count": count, "queue": place[1], "primary_namespace": place[0]})


def _purge(secondary: str, sent: Iterable[tuple[str, int]]) -> int:
    by_queue: dict[str, set[int]] = {}
    for queue, number in sent:
        by_queue.setdefault(queue, set()).add(number)

    async def purge_all() -> int:
        purging = (
            purge(secondary, queue, numbers, max(numbers), DEFAULT_OPERATION_TIMEOUT_S)
            for queue, numbers in by_queue.items()
        )
        return sum(await asyncio.gather(*purging))

    return blocking.run(purge_all())


async def _seal(secondary: str, first: dict[str, int], tasks: int, round_messages: int) -> list[SealedRange]:
    """Ranges of all queues, as many as there are tasks or more."""
    async with _factory(secondary) as factory:
        found = await asyncio.gather(
            *(seal(factory.create_message_receiver(queue), queue, number) for queue, number in first.items())
        )
    sealed = [one._replace(last=min(one.last, one.first + round_messages - 1)) for one in found if one is not None]
    each = -(-tasks // len(sealed)) if sealed else 1
    return [piece for one in sealed for piece in split(one, each)]


def _forwarded(spark: SparkSession, ranges: Sequence[SealedRange], primary: str, secondary: str) -> DataFrame:
    table = spark.createDataFrame([tuple(one) for one in ranges], SEALED).repartition(len(ranges))
    return table.mapInArrow(partial(_forward, primary=primary, secondary=secondary), FORWARDED)


# --- on the executors -----------------------------------------------------------------------------------------------


def _forward(batches: Iterator[Any], primary: str, secondary: str) -> Iterator[Any]:
    schema = arrow_schema(FORWARDED)
    for batch in batches:
        for row in batch.to_pylist():
            rows = blocking.run(_forward_range(SealedRange(**row), primary, secondary))
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


async def _forward_range(wanted: SealedRange, primary: str, secondary: str) -> list[dict[str, Any]]:
    done: list[dict[str, Any]] = []
    async with _factory(primary) as to, _factory(secondary) as source:
        senders: dict[str, MessageSender] = {}
        async for page in _active(browse(source.create_message_receiver(wanted.queue), wanted)):
            by_path: dict[str, list[tuple[BrokeredMessage, dict[str, Any]]]] = {}
            for message in page:
                row = {"queue": wanted.queue, "sequenceNumber": message.sequence_number, "outcome": SENT}
                done.append(row)
                try:
                    path, restored = restore(message)
                except NotRestorable as error:
                    row["outcome"] = str(error)
                    continue
                row |= {"path": path, "messageId": str(restored.message_id)}
                by_path.setdefault(path, []).append((restored, row))
            for path, restored_rows in by_path.items():
                if path not in senders:
                    senders[path] = to.create_message_sender(path)
                await _send(senders[path], restored_rows)
    return done


async def _active(pages: AsyncIterator[list[BrokeredMessage]]) -> AsyncIterator[list[BrokeredMessage]]:
    """Without what somebody has set aside: it cannot be completed by receiving."""
    async for page in pages:
        yield [message for message in page if message.state is MessageState.ACTIVE]


async def _send(sender: MessageSender, restored: list[tuple[BrokeredMessage, dict[str, Any]]]) -> None:
    """All together; one by one if some of them are refused. What cannot be sent stays where it is."""
    try:
        await sender.send_batch([message for message, _ in restored])
    except MessagingError as error:
        if not is_refused_for_good(error):
            raise
        if len(restored) == 1:
            restored[0][1]["outcome"] = str(error)
            return
        for one in restored:
            await _send(sender, [one])


def _factory(connection_string: str) -> MessagingFactory:
    settings = patient_settings(DEFAULT_OPERATION_TIMEOUT_S, SYPHON_USER_AGENT)
    return MessagingFactory.from_connection_string(connection_string, settings)
