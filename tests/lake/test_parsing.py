"""Payloads parsed into columns: new fields become columns, what does not fit is set aside with the reason."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from tandem.errors import ConfigurationError
from tandem.event_columns import PUBLIC_SCHEMA
from tandem.lake import manifests, parsing
from tandem.lake.column_types import declared_columns
from tandem.lake.parsing import Parsing, PayloadParser
from tandem.lake.payloads import AvroDecoder, JsonDecoder, avro_schemas
from tandem.lake.place import Place
from tandem.lake.reading import TableFile, captured_schema, file_of, read_file
from tandem.limits import MAX_PAYLOAD_COLUMNS
from tests.lake.capturing import Capture
from tests.lake.events import event
from tests.markers import mission

JSON = Parsing(JsonDecoder())
FORMATS = pytest.mark.parametrize("file_format", ["parquet", "delta"])


def batch(*payloads: object, first: int = 2, partition: str = "0") -> Any:
    """Events with these payloads; text and bytes as they are, anything else as JSON."""
    bodies = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in payloads]
    rows = [event(first + at, partition=partition, body=body) for at, body in enumerate(bodies)]
    return pa.RecordBatch.from_pylist(rows, schema=PUBLIC_SCHEMA)


def rows_of(place: Place) -> list[dict[str, Any]]:
    """The rows of a capture by their numbers, with payload columns only."""
    columns = list(parsing.column_schema(parsing.known_columns(place)))
    schema = captured_schema(columns)
    if (place.local_path / "_delta_log").exists():
        files = [TableFile(uri.removeprefix(f"{place}/"), 0, {}) for uri in DeltaTable(str(place)).file_uris()]
    else:
        files = [file_of(one) for one in manifests.captured_files(place)]
    found = [row for file in files for one in read_file(place, file, schema) for row in one.to_pylist()]
    names = ["sequenceNumber", *(one.name for one in columns)]
    return [{name: row[name] for name in names} for row in sorted(found, key=lambda row: row["sequenceNumber"])]


def reasons(capture: Capture) -> list[str]:
    return [row["reason"] for row in rows_of(capture.writer.quarantine().place)]


@mission("M31")
@FORMATS
def test_fields_become_columns_and_new_ones_are_added(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path, parsing=JSON)
    capture.commit(0, capture.write(batch({"id": 1, "price": 2.5}, {"id": 2, "name": "chair"})))
    later = {"id": 3, "size": {"width": 4}, "tags": ["a"]}
    capture.commit(1, capture.write(batch(later, {"size": {"height": 5.5}}, first=10)))
    rows = rows_of(capture.place)
    assert [(row["id"], row["price"], row["name"], row["tags"]) for row in rows] == [
        (1, 2.5, None, None),
        (2, None, "chair", None),
        (3, None, None, ["a"]),
        (None, None, None, None),
    ]
    assert [row["size"] for row in rows] == [
        None,
        None,
        {"width": 4, "height": None},
        {"width": None, "height": 5.5},
    ]
    if file_format == "delta":
        # As somebody else reads it.
        table = pa.table(DeltaTable(str(tmp_path)).to_pyarrow_table()).sort_by("sequenceNumber")
        assert table["price"].to_pylist() == [2.5, None, None, None]
        assert table["size"].to_pylist() == [row["size"] for row in rows]


@mission("M31")
@FORMATS
def test_a_value_that_does_not_fit_its_column_is_quarantined_with_the_reason(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path, parsing=JSON)
    capture.commit(0, capture.write(batch({"id": 1, "size": {"width": 4}})))
    wrong = [{"id": "one"}, b"{", [1], {"size": 3}, {"size": {"width": "wide"}}, {"id": 1 << 64}]
    capture.commit(1, capture.write(batch(*wrong, {"id": 7}, first=10)))
    assert reasons(capture) == [
        "id is string, and its column is long",
        "the body is not JSON: Input data was truncated",
        "the body is not a JSON object",
        "size is long, and its column is an object",
        "size.width is string, and its column is long",
        "id is a number of more than 64 bits",
    ]
    assert [row["id"] for row in rows_of(capture.place)] == [1, 7]


@mission("M31")
@FORMATS
def test_two_tasks_that_disagree_about_a_new_column_are_reconciled(file_format: str, tmp_path: Path) -> None:
    capture = Capture(file_format, tmp_path, parsing=JSON)
    first = capture.write(batch({"n": 1}, {"m": 5}, partition="0"))
    second = capture.write(batch({"n": "x", "k": 1}, {"k": 2}, {"n": 3, "k": 4}, first=10, partition="1"))
    capture.commit(0, second, first)
    assert [(row["sequenceNumber"], row["n"], row["k"]) for row in rows_of(capture.place)] == [
        (2, 1, None),
        (3, None, None),
        (11, None, 2),
    ]
    # The second fitted neither the task's idea of the column nor, in the end, the one that was chosen.
    assert reasons(capture) == ["n is string, and its column is long", "n is long, and its column is string"]


@mission("M31")
@FORMATS
@pytest.mark.parametrize("step", ["quarantine", "commit", "delete"])
def test_a_crash_between_quarantine_and_commit_is_made_up_for(
    file_format: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tandem.lake.capture_log import CaptureLog

    capture = Capture(file_format, tmp_path, parsing=JSON)

    def tasks(*splits: int) -> Sequence[Any]:
        payloads: list[object] = [{"n": 1}, {"n": "x"}, {"n": 3}, {"k": "y"}]
        bounds = [0, *splits, len(payloads)]
        pieces = itertools.pairwise(bounds)
        return [capture.write(batch(*payloads[low:high], first=2 + low, partition=str(low))) for low, high in pieces]

    apply, delete, done = CaptureLog._apply, Place.delete, list[Place]()

    def crash_at(log: CaptureLog, place: Place, *more: Any) -> None:
        if len(done) == (0 if step == "quarantine" else 1) and step != "delete":
            raise OSError("crashed")
        done.append(place)
        apply(log, place, *more)

    def crash_at_end(place: Place, relative: str) -> None:
        if "intents" in relative and step == "delete":
            raise OSError("crashed")
        delete(place, relative)

    with monkeypatch.context() as patched:
        patched.setattr(CaptureLog, "_apply", crash_at)
        patched.setattr(Place, "delete", crash_at_end)
        with pytest.raises(OSError, match="crashed"):
            capture.commit(0, *tasks(1, 2))
    # It comes again, split in another way, with columns that are known by now.
    capture.commit(0, *tasks(3))
    numbers = [row["sequenceNumber"] for row in rows_of(capture.place)]
    aside = [row["sequenceNumber"] for row in rows_of(capture.writer.quarantine().place)]
    assert sorted([*numbers, *aside]) == [2, 3, 4, 5]
    assert aside == [3]


def test_names_of_columns_are_what_tables_allow(tmp_path: Path) -> None:
    parser = PayloadParser(JSON, {})
    parsed = parser.parse(batch({"offset": 1, "a b=c": 2, "Id": 3}, {"ID": 4}, {"id": 1, "iD": 2}))
    assert list(parser.columns) == ["payload_offset", "a_b_c", "Id"]
    assert parsed.rows.column("Id").to_pylist() == [3, 4]
    assert parsed.quarantined.column("reason").to_pylist() == ["two fields of the payload are the column Id"]


def test_numbers_of_a_new_column_may_be_whole_or_not(tmp_path: Path) -> None:
    parser = PayloadParser(JSON, {})
    assert parser.parse(batch({"n": 1}, {"n": 1.5}, {"n": 2})).rows.column("n").to_pylist() == [1.0, 1.5, 2.0]


def test_declared_columns_have_their_types(tmp_path: Path) -> None:
    declared = declared_columns("price double, at timestamp, any string, cost decimal, day date")
    parser = PayloadParser(Parsing(JsonDecoder(), declared), {})
    payloads = (
        {"price": 1, "at": "2026-11-16T07:00:00Z", "any": {"x": [1]}, "cost": "1.10", "day": "2026-11-16"},
        {"at": "soon"},
    )
    parsed = parser.parse(batch(*payloads))
    [row] = parsed.rows.select([*declared]).to_pylist()
    assert (row["price"], row["any"], str(row["cost"])[:4]) == (1.0, '{"x":[1]}', "1.10")
    assert (row["at"].isoformat(), row["day"].isoformat()) == ("2026-11-16T07:00:00+00:00", "2026-11-16")
    assert parsed.quarantined.column("reason").to_pylist() == ["at is 'soon', which is not a timestamp"]
    with pytest.raises(ConfigurationError, match="is not declared"):
        declared_columns("price")


def test_payloads_do_not_make_more_columns_than_a_table_may_have() -> None:
    parser = PayloadParser(JSON, {})
    parsed = parser.parse(batch({str(n): n for n in range(MAX_PAYLOAD_COLUMNS + 1)}, {"a": 1}))
    assert "more than 1,000 columns" in parsed.quarantined.column("reason")[0].as_py()
    deep: Any = 1
    for _ in range(50):
        deep = {"x": deep}
    assert "nested deeper" in parser.parse(batch(deep)).quarantined.column("reason")[0].as_py()


SCHEMA: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def test_avro_is_parsed_as_container_single_object_and_plain_record() -> None:
    plain, container = io.BytesIO(), io.BytesIO()
    fastavro.schemaless_writer(plain, SCHEMA, {"id": 7})
    fastavro.writer(container, SCHEMA, [{"id": 8}])
    canonical = fastavro.schema.to_parsing_canonical_form(SCHEMA)
    fingerprint = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    single = b"\xc3\x01" + fingerprint + plain.getvalue()
    unknown = b"\xc3\x01" + bytes(8) + plain.getvalue()
    parser = PayloadParser(Parsing(AvroDecoder(avro_schemas([json.dumps(SCHEMA)]))), {})
    parsed = parser.parse(batch(plain.getvalue(), container.getvalue(), single, unknown, b""))
    assert parsed.rows.column("id").to_pylist() == [7, 8, 7]
    first, second = parsed.quarantined.column("reason").to_pylist()
    assert "schema that is not known" in first
    assert "is not Avro of a known schema" in second
    with pytest.raises(ConfigurationError, match="is not an Avro schema"):
        avro_schemas(['{"type": "nothing"}'])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abAB .="), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.lists(VALUES, max_size=6), max_size=3))
def test_every_event_is_in_the_table_or_in_the_quarantine(batches: list[list[Any]]) -> None:
    parser = PayloadParser(JSON, {})
    types: dict[str, Any] = {}
    for payloads in batches:
        if not payloads:
            continue
        parsed = parser.parse(batch(*payloads))
        numbers = [*parsed.rows.column("sequenceNumber").to_pylist(), *parsed.quarantined["sequenceNumber"].to_pylist()]
        assert sorted(numbers) == list(range(2, 2 + len(payloads)))
        # Types of scalars do not change from batch to batch.
        for field in parsed.rows.schema:
            if not pa.types.is_nested(field.type):
                assert types.setdefault(field.name, field.type) == field.type
