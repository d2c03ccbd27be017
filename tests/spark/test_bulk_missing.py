"""A bulk read of a hub with events that the broker has lost: they are an error, or they are skipped."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from email.message import Message
from typing import Any

import pyarrow as pa
import pytest

from tandem.amqp.message import encode_message
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord
from tandem.event_columns import PUBLIC_SCHEMA
from tandem.spark.bulk import BulkTransport
from tandem.spark.offsets import DataLoss, EventRange
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.segments.event_batches import batches_of
from tests.markers import mission
from tests.spark.test_options import parse


class Answer(io.BytesIO):
    """What a broker answers."""

    def __init__(self, content: bytes, headers: Message) -> None:
        super().__init__(content)
        self.headers = headers


def events(first: int, end: int) -> list[Event]:
    payload = encode_message(data=b"x")
    return [EventRecord(1, 0, number, 1, 5, payload, False).events()[0] for number in range(first, end)]


def transport(
    monkeypatch: pytest.MonkeyPatch, answers: list[tuple[list[tuple[int, int]], str, int]], **more: str
) -> Any:
    """One that gets these answers: the ranges of events, those that are missing, and where to go on."""
    made = BulkTransport(parse(**more), "orders")
    asked: list[int] = []

    @contextlib.contextmanager
    def answer(wanted: EventRange, first: int, part: str) -> Iterator[Answer]:
        asked.append(first)
        ranges, missing, next_from = answers.pop(0)
        headers = Message()
        headers["Tandem-First-Sequence-Number"] = str(first)
        headers["Tandem-Next-Sequence-Number"] = "10"
        headers["Tandem-Next-From"] = str(next_from)
        if missing:
            headers["Tandem-Missing-Events"] = missing
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, PUBLIC_SCHEMA) as writer:
            for batch in batches_of((events(*one) for one in ranges), 0, LogLimits()):
                writer.write_batch(batch)
        yield Answer(sink.getvalue(), headers)

    monkeypatch.setattr(made, "_events", answer)
    return made, asked


def numbers(made: BulkTransport, first: int, end: int) -> list[int]:
    batches = made.read(EventRange("orders", "1", "0", first, end), ["sequenceNumber"])
    return [number for batch in batches for number in batch.column("sequenceNumber").to_pylist()]


@mission("M30")
def test_missing_events_are_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = transport(monkeypatch, [([(0, 4)], "4-6", 10)])
    with pytest.raises(DataLoss, match="events 4 to 6 of partition 0 of 'orders' are damaged"):
        numbers(made, 0, 10)


@mission("M30")
@pytest.mark.parametrize(
    "ranges, missing, expected",
    [
        ([(0, 4), (7, 10)], "4-6", [0, 1, 2, 3, 7, 8, 9]),
        ([(3, 10)], "0-2", list(range(3, 10))),
        ([(0, 8)], "8-9", list(range(8))),
        ([], "0-9", []),
        ([(1, 2)], "0-0,2-9", [1]),
    ],
)
def test_missing_events_are_skipped_if_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch, ranges: list[tuple[int, int]], missing: str, expected: list[int]
) -> None:
    made, asked = transport(monkeypatch, [(ranges, missing, 10)], failOnDataLoss="false")
    assert numbers(made, 0, 10) == expected
    assert asked == [0]


@mission("M30")
def test_an_answer_in_parts_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [([(0, 4)], "4-6", 7), ([(7, 10)], "", 10)]
    made, asked = transport(monkeypatch, answers, failOnDataLoss="false")
    assert numbers(made, 0, 10) == [0, 1, 2, 3, 7, 8, 9]
    assert asked == [0, 7]
