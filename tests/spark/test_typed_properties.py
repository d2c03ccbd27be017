"""Application properties with their types, between rows and AMQP."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, StructType, VariantVal, _parse_datatype_string

from tandem.amqp.types import Byte, Float, Symbol, Timestamp, ULong
from tandem.spark.given_options import OptionError
from tandem.spark.schemas import arrow_schema
from tandem.spark.typed_properties import _sent, check_type, column_of, values_of

MOMENT = datetime(2026, 11, 16, 7, 0, 0, 123_000, tzinfo=UTC)
SENT: dict[str, object] = {
    "whole": 5,
    "byte": Byte(-1),
    "huge": ULong(2**64 - 1),
    "real": 1.5,
    "single": Float(0.5),
    "is": True,
    "text": "5",
    "symbol": Symbol("s"),
    "bytes": b"\x00\xff",
    "moment": Timestamp.from_datetime(MOMENT),
    "id": uuid.UUID(int=1),
    "none": None,
    "long": "x" * 100,
}


def column(kind: str) -> tuple[DataType, Any]:
    schema = _parse_datatype_string(f"properties {kind}")
    assert isinstance(schema, StructType)
    return schema[0].dataType, arrow_schema(schema).field(0).type


def read(kind: str, *rows: dict[str, object]) -> list[Any]:
    spark, arrow = column(kind)
    check_type("eventhubs", spark)
    found = column_of(rows, spark, arrow)
    assert found.type == arrow
    values: list[Any] = pa.Table.from_arrays([found], ["x"])["x"].to_pylist()
    return values


def test_a_struct_has_each_property_with_its_type_or_null() -> None:
    kind = (
        "struct<whole:bigint,byte:tinyint,real:double,single:float,is:boolean,text:string,symbol:string,bytes:binary,"
        "moment:timestamp,id:string,absent:bigint,none:bigint>"
    )
    assert read(kind, SENT) == [
        {
            "whole": 5,
            "byte": -1,
            "real": 1.5,
            "single": 0.5,
            "is": True,
            "text": "5",
            "symbol": "s",
            "bytes": b"\x00\xff",
            "moment": MOMENT,
            "id": str(uuid.UUID(int=1)),
            "absent": None,
            "none": None,
        }
    ]
    # Nothing is guessed: a text is not a number, a number not a truth, and what is too large does not fit.
    wrong = "struct<text:bigint,whole:boolean,is:bigint,huge:bigint,real:int,moment:bigint,whole2:tinyint>"
    assert read(wrong, {**SENT, "whole2": 300}) == [
        dict.fromkeys(("text", "whole", "is", "huge", "real", "moment", "whole2"))
    ]
    # A whole number is a real one, too; and anything has a text.
    assert read("struct<whole:double,real:string,is:string>", SENT) == [{"whole": 5.0, "real": "1.5", "is": "true"}]


def test_a_map_has_one_type_for_all() -> None:
    assert read("map<string,bigint>", {"a": 1, "b": "2"}, {}) == [[("a", 1), ("b", None)], []]
    assert read("map<string,string>", {"a": 1, "b": "2"}) == [[("a", "1"), ("b", "2")]]


def test_variants_keep_every_type() -> None:
    [pairs] = read("map<string,variant>", SENT)
    found = {name: VariantVal(value["value"], value["metadata"]).toPython() for name, value in pairs}
    assert found == {
        **SENT,
        "huge": str(2**64 - 1),
        "moment": MOMENT,
        "id": str(uuid.UUID(int=1)),
    }
    assert [type(found[name]) for name in ("whole", "real", "is", "text", "bytes")] == [int, float, bool, str, bytes]


@pytest.mark.parametrize(
    "kind",
    [
        "string",
        "map<int,string>",
        "map<string,array<int>>",
        "struct<a:array<int>>",
        "struct<a:decimal(5,2)>",
        "array<string>",
    ],
)
def test_a_type_that_properties_cannot_have_is_refused(kind: str) -> None:
    with pytest.raises(OptionError, match=r"the column properties is .*; it must be map<string,string>"):
        check_type("eventhubs", column(kind)[0])


def test_what_is_sent_has_the_type_of_its_column_and_nulls_are_left_out() -> None:
    given = {"amount": 7, "price": 1.5, "is": False, "name": "x", "raw": b"y", "at": MOMENT, "nothing": None}
    sent = values_of(given)
    assert sent == {
        **{name: value for name, value in given.items() if value is not None},
        "at": MOMENT.timestamp() * 1_000,
    }
    assert isinstance(sent["at"], Timestamp)
    assert values_of(None) == {}
    assert values_of({"at": MOMENT.replace(tzinfo=None)}) == {"at": Timestamp.from_datetime(MOMENT)}


def test_variants_are_sent_as_what_they_hold() -> None:
    [pairs] = read("map<string,variant>", {"a": 7, "b": "x", "c": 2.5})
    assert values_of(dict(pairs)) == {"a": 7, "b": "x", "c": 2.5}
    # What only a variant can hold has the nearest form.
    assert (_sent(Decimal("5.5")), _sent(date(2026, 11, 16)), _sent([1, "a"])) == (5.5, "2026-11-16", '[1, "a"]')
