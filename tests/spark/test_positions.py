"""Positions in the words of Event Hubs and of Kafka."""

from __future__ import annotations

import pytest

from tandem.spark.positions import (
    EARLIEST,
    LATEST,
    BadPosition,
    NamedPartition,
    Position,
    PositionKind,
    event_hubs_position,
    event_hubs_positions,
    kafka_assignment,
    kafka_offsets,
    kafka_timestamp,
    kafka_timestamps,
)


@pytest.mark.parametrize(
    "text, position",
    [
        ('{"offset": "-1", "seqNo": -1, "enqueuedTime": null, "isInclusive": true}', EARLIEST),
        ('{"offset": "@latest"}', LATEST),
        ('{"offset": "4711", "isInclusive": false}', Position(PositionKind.OFFSET, offset="4711", is_inclusive=False)),
        ('{"seqNo": 0}', Position(PositionKind.SEQUENCE_NUMBER, 0)),
        ('{"seqNo": -1, "enqueuedTime": "1970-01-01T00:00:01.500Z"}', Position(PositionKind.TIME, 1_500)),
        ('{"enqueuedTime": "1970-01-01T01:00:01+01:00"}', Position(PositionKind.TIME, 1_000)),
        ("Earliest", EARLIEST),
        ("latest", LATEST),
    ],
)
def test_positions_of_event_hubs(text: str, position: Position) -> None:
    assert event_hubs_position(text) == position


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"seqno": 1}', '{"offset": 1}', '{"enqueuedTime": "soon"}', '{"seqNo": 1, "isInclusive": 1}']
)
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(BadPosition):
        event_hubs_position(text)


def test_partitions_may_be_named_as_the_other_connector_does() -> None:
    key = '{\\"ehName\\": \\"orders\\", \\"partitionId\\": 3}'
    assert event_hubs_positions(f'{{"{key}": {{"offset": "-1"}}, "4": {{"seqNo": 9}}}}') == {
        NamedPartition("3", "orders"): EARLIEST,
        NamedPartition("4"): Position(PositionKind.SEQUENCE_NUMBER, 9),
    }


def test_offsets_of_kafka() -> None:
    assert kafka_offsets("earliest") == EARLIEST
    assert kafka_offsets('{"Orders": {"0": 23, "1": -1}, "invoices": {"0": -2}}') == {
        NamedPartition("0", "orders"): Position(PositionKind.SEQUENCE_NUMBER, 23),
        NamedPartition("1", "orders"): LATEST,
        NamedPartition("0", "invoices"): EARLIEST,
    }
    for wrong in ('{"orders": {"0": "1"}}', '{"orders": {"0": -3}}', '{"orders": {"x": 1}}', '{"orders": 1}'):
        with pytest.raises(BadPosition):
            kafka_offsets(wrong)


def test_partitions_assigned_as_kafka_does() -> None:
    assert kafka_assignment('{"Orders": [3, 0], "invoices": [1]}') == [
        *(NamedPartition("3", "orders"), NamedPartition("0", "orders"), NamedPartition("1", "invoices")),
    ]
    for wrong in ('{"orders": 1}', '{"orders": []}', '{"orders": ["x"]}'):
        with pytest.raises(BadPosition):
            kafka_assignment(wrong)


def test_times_of_kafka_are_milliseconds() -> None:
    assert kafka_timestamp("1500") == Position(PositionKind.TIME, 1_500)
    assert kafka_timestamps('{"orders": {"1": 7}}') == {NamedPartition("1", "orders"): Position(PositionKind.TIME, 7)}
    with pytest.raises(BadPosition):
        kafka_timestamp("now")
