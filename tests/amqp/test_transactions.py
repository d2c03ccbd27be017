"""Declare and discharge: the messages that a coordinator takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.encode import encode
from tandem.amqp.transactions import Declare, Discharge, decode_transaction_request
from tandem.amqp.types import Described, Symbol, ULong
from tandem.errors import DecodeError
from tests.markers import spec

AMQP_VALUE, DECLARE, DISCHARGE = ULong(0x77), ULong(0x31), ULong(0x32)


def request(value: object) -> bytes:
    return encode(Described(AMQP_VALUE, value))


@spec("amqp:4.5.2")
def test_a_declare_is_an_amqp_value_with_its_only_field() -> None:
    assert Declare().encode() == bytes.fromhex("005377 005331 c0020140")
    assert Declare(b"g").encode() == bytes.fromhex("005377 005331 c00401a00167")


@spec("amqp:4.5.3")
def test_a_discharge_is_an_amqp_value_with_its_two_fields() -> None:
    assert Discharge(b"t").encode() == bytes.fromhex("005377 005332 c00502a0017442")
    assert Discharge(b"t", True).encode() == bytes.fromhex("005377 005332 c00502a0017441")


@given(st.none() | st.binary(max_size=40) | st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_a_declare_that_was_written_reads_as_itself(global_id: object) -> None:
    found = decode_transaction_request(Declare(global_id).encode())
    assert isinstance(found, Declare)
    assert found.global_id == global_id


@given(st.binary(max_size=300), st.booleans())
def test_a_discharge_that_was_written_reads_as_itself(txn_id: bytes, fail: bool) -> None:
    found = decode_transaction_request(Discharge(txn_id, fail).encode())
    assert isinstance(found, Discharge)
    assert (found.txn_id, found.fail) == (txn_id, fail)


@spec("amqp:1.2", "amqp:1.4")
def test_requests_may_be_named_by_symbol_and_leave_fields_out() -> None:
    declare = decode_transaction_request(request(Described(Symbol("amqp:declare:list"), [])))
    assert isinstance(declare, Declare)
    assert declare.global_id is None
    discharge = decode_transaction_request(request(Described(Symbol("amqp:discharge:list"), [b"t"])))
    assert isinstance(discharge, Discharge)
    assert (discharge.txn_id, discharge.fail) == (b"t", False)


def test_a_request_may_have_sections_before_its_value() -> None:
    header = encode(Described(ULong(0x70), [True]))
    assert isinstance(decode_transaction_request(header + Declare().encode()), Declare)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "declare",
        [None],
        Described(DECLARE, None),
        Described(DISCHARGE, {}),
        Described(ULong(0x33), [b"t"]),
        Described(Symbol("amqp:nonsense:list"), []),
        Described("amqp:declare:list", []),
    ],
)
def test_anything_else_is_a_decode_error(value: object) -> None:
    with pytest.raises(DecodeError, match="a coordinator takes declare and discharge, got"):
        decode_transaction_request(request(value))


@pytest.mark.parametrize("payload", [b"", encode(Described(ULong(0x75), b"data")), b"\x00\x53\x77", b"\xff"])
def test_a_message_without_an_amqp_value_is_a_decode_error(payload: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_transaction_request(payload)


@pytest.mark.parametrize(
    "descriptor, values, complaint",
    [
        (DECLARE, [None, None], "declare has 2 fields, it has at most 1"),
        (DISCHARGE, [], "discharge.txn-id is mandatory and was not set"),
        (DISCHARGE, ["t"], "discharge.txn-id must be a binary"),
        (DISCHARGE, [b"t", 1], "discharge.fail must be a boolean"),
        (DISCHARGE, [b"t", True, None], "discharge has 3 fields, it has at most 2"),
    ],
)
def test_a_wrong_field_of_a_request_is_named(descriptor: ULong, values: list[object], complaint: str) -> None:
    with pytest.raises(DecodeError, match=f"^{complaint}"):
        decode_transaction_request(request(Described(descriptor, values)))


def test_requests_show_what_they_ask_for() -> None:
    assert repr(Declare()) == "Declare(None)"
    assert repr(Discharge(b"t", True)) == "Discharge(b't', fail=True)"
