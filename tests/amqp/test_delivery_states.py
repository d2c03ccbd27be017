"""Delivery states and errors: their exact bytes, their reading in every form, and every refusal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.decode import decode_all
from tandem.amqp.delivery_states import (
    ACCEPTED,
    ACCEPTED_BYTES,
    RELEASED,
    RELEASED_BYTES,
    Accepted,
    AmqpError,
    Declared,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
    UnknownState,
    delivery_state,
    optional_error,
    type_code,
)
from tandem.amqp.encode import encode
from tandem.amqp.types import Described, Symbol, UInt, ULong
from tandem.errors import DecodeError, MessageSizeExceeded
from tests.amqp.composites import errors, spellings, states
from tests.markers import spec

ERROR = AmqpError("amqp:not-found", "no such queue", {Symbol("queue"): "orders"})
NAMES = {
    0x23: "received",
    0x24: "accepted",
    0x25: "rejected",
    0x26: "released",
    0x27: "modified",
    0x33: "declared",
    0x34: "transactional-state",
}


def read(state: DeliveryState) -> DeliveryState | None:
    return delivery_state(decode_all(state.encoded()), "transfer.state")


# --- exact bytes ------------------------------------------------------------------------------------------------


@spec("amqp:3.4.1", "amqp:3.4.2", "amqp:3.4.3", "amqp:3.4.4", "amqp:3.4.5", "amqp:4.5.5", "amqp:4.5.6")
@pytest.mark.parametrize(
    "state, expected",
    [
        pytest.param(ACCEPTED, "005324 c00100", id="accepted"),
        pytest.param(RELEASED, "005326 c00100", id="released"),
        pytest.param(Rejected(), "005325 c00201 40", id="rejected"),
        pytest.param(
            Rejected(AmqpError("a:b")), "005325 c00e01 00531d c00803 a303613a62 40 40", id="rejected with an error"
        ),
        pytest.param(Modified(), "005327 c00403 40 40 40", id="modified"),
        pytest.param(
            Modified(True, False, {Symbol("a"): 1}), "005327 c00b03 41 42 c10602 a30161 5501", id="modified in full"
        ),
        pytest.param(Received(1, 300), "005323 c00c02 5201 80000000000000012c", id="received"),
        pytest.param(Declared(b"t1"), "005333 c00501 a0027431", id="declared"),
        pytest.param(TransactionalState(b"t1"), "005334 c00602 a0027431 40", id="transactional-state"),
        pytest.param(
            TransactionalState(b"t1", ACCEPTED),
            "005334 c00b02 a0027431 005324c00100",
            id="transactional-state with outcome",
        ),
    ],
)
def test_a_state_is_written_with_a_small_descriptor_and_all_its_fields(state: DeliveryState, expected: str) -> None:
    assert state.encoded() == bytes.fromhex(expected)


@spec("amqp:2.8.14")
def test_an_error_always_has_three_fields() -> None:
    # Official SDKs index the third without looking at the length.
    assert encode(AmqpError("a:b").to_described()) == bytes.fromhex("00531d c00803 a303613a62 40 40")
    assert encode(AmqpError("a", "b", {}).to_described()) == bytes.fromhex("00531d c00a03 a30161 a10162 c10100")


def test_the_constants_are_encoded_once_and_rightly() -> None:
    assert ACCEPTED.encoded() == ACCEPTED_BYTES
    assert RELEASED.encoded() == RELEASED_BYTES


# --- reading ----------------------------------------------------------------------------------------------------


@given(states)
def test_a_state_that_was_written_reads_as_itself(state: DeliveryState) -> None:
    assert type(read(state)) is type(state)
    assert read(state) == state


@given(state=states, data=st.data())
def test_every_encoding_of_a_state_reads_as_the_same_state(state: DeliveryState, data: st.DataObject) -> None:
    written = data.draw(spellings(state.to_described()))
    assert delivery_state(decode_all(written), "transfer.state") == state


@spec("amqp:1.2")
@given(states)
def test_a_state_may_be_named_by_its_symbol(state: DeliveryState) -> None:
    described = state.to_described()
    if not isinstance(state, UnknownState):
        described = Described(Symbol(f"amqp:{NAMES[type_code(described.descriptor, {})]}:list"), described.value)
    assert delivery_state(described, "transfer.state") == state


def test_the_two_outcomes_of_nearly_every_disposition_are_always_the_constants() -> None:
    assert read(Accepted()) is ACCEPTED
    assert read(Released()) is RELEASED


def test_no_state_stays_none() -> None:
    assert delivery_state(None, "transfer.state") is None


@spec("amqp:1.4")
def test_absent_fields_of_a_state_are_not_set() -> None:
    assert delivery_state(Described(ULong(0x25), []), "transfer.state") == Rejected()
    assert delivery_state(Described(ULong(0x27), []), "transfer.state") == Modified()
    assert delivery_state(Described(ULong(0x27), [True]), "transfer.state") == Modified(True)
    assert delivery_state(Described(ULong(0x34), [b"t"]), "transfer.state") == TransactionalState(b"t")


def test_a_modified_that_leaves_its_flags_out_is_echoed_without_them() -> None:
    modified = delivery_state(Described(ULong(0x27), [None, None, {}]), "transfer.state")
    assert isinstance(modified, Modified)
    assert modified.delivery_failed is None
    assert modified.undeliverable_here is None


@pytest.mark.parametrize(
    "descriptor", [ULong(0x99), Symbol("com.example:pending:list"), "amqp:accepted:list", UInt(0x24)]
)
def test_a_state_of_an_unknown_type_is_kept_as_it_came(descriptor: object) -> None:
    described = Described(descriptor, ["x"])
    state = delivery_state(described, "transfer.state")
    assert isinstance(state, UnknownState)
    assert state.to_described() is described


# --- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["accepted", [], ULong(0x24), {}])
def test_a_value_without_a_descriptor_is_no_state(value: object) -> None:
    with pytest.raises(DecodeError, match=r"^transfer\.state must be a delivery state, got "):
        delivery_state(value, "transfer.state")


def test_a_described_value_other_than_a_list_is_no_state() -> None:
    with pytest.raises(DecodeError, match=r"^transfer\.state must be a delivery state, which is a described list"):
        delivery_state(Described(ULong(0x24), {}), "transfer.state")


@pytest.mark.parametrize(
    "code, values, complaint",
    [
        (0x23, [], "received.section-number is mandatory and was not set"),
        (0x23, [UInt(1)], "received.section-offset is mandatory and was not set"),
        (0x23, [None, ULong(1)], "received.section-number is mandatory and was not set"),
        (0x23, [UInt(1), UInt(1)], "received.section-offset must be a ulong"),
        (0x23, [ULong(1), ULong(1)], "received.section-number must be a uint"),
        (0x23, [UInt(1), ULong(1), None], "received has 3 fields, it has at most 2"),
        (0x25, ["no"], "rejected.error must be an error"),
        (0x25, [None, None], "rejected has 2 fields, it has at most 1"),
        (0x27, [1], "modified.delivery-failed must be a boolean"),
        (0x27, [None, 1], "modified.undeliverable-here must be a boolean"),
        (0x27, [None, None, []], "modified.message-annotations must be a map"),
        (0x27, [None] * 4, "modified has 4 fields, it has at most 3"),
        (0x33, [], "declared.txn-id is mandatory and was not set"),
        (0x33, ["t"], "declared.txn-id must be a binary"),
        (0x33, [b"t", None], "declared has 2 fields, it has at most 1"),
        (0x34, [None], "transactional-state.txn-id is mandatory and was not set"),
        (0x34, [b"t", "accepted"], "transactional-state.outcome must be a delivery state"),
        (0x34, [b"t", None, None], "transactional-state has 3 fields, it has at most 2"),
    ],
)
def test_a_state_with_a_wrong_field_is_a_decode_error_that_names_it(
    code: int, values: list[object], complaint: str
) -> None:
    with pytest.raises(DecodeError, match=f"^{complaint}"):
        delivery_state(Described(ULong(code), values), "transfer.state")


# --- errors -----------------------------------------------------------------------------------------------------


@given(errors)
def test_an_error_that_was_written_reads_as_itself(error: AmqpError) -> None:
    assert optional_error(decode_all(encode(error.to_described())), "close.error") == error


@spec("amqp:1.2")
def test_an_error_may_be_named_by_its_symbol() -> None:
    described = Described(Symbol("amqp:error:list"), ERROR.to_described().value)
    assert optional_error(described, "close.error") == ERROR


@spec("amqp:1.4")
def test_an_error_may_leave_out_all_but_its_condition() -> None:
    assert optional_error(Described(ULong(0x1D), [Symbol("a:b")]), "close.error") == AmqpError("a:b")


def test_no_error_stays_none() -> None:
    assert optional_error(None, "close.error") is None


@pytest.mark.parametrize(
    "value", ["oops", [Symbol("a:b")], Described(ULong(0x24), [Symbol("a:b")]), Described("x", [])]
)
def test_a_value_of_another_type_is_no_error(value: object) -> None:
    with pytest.raises(DecodeError, match=r"^close\.error must be an error, got "):
        optional_error(value, "close.error")


def test_a_described_value_other_than_a_list_is_no_error() -> None:
    with pytest.raises(DecodeError, match=r"^close\.error must be an error, which is a described list"):
        optional_error(Described(ULong(0x1D), {}), "close.error")


@pytest.mark.parametrize(
    "values, complaint",
    [
        ([], "error.condition is mandatory and was not set"),
        (["a:b"], "error.condition must be a symbol"),
        ([Symbol("a:b"), Symbol("c")], "error.description must be a string"),
        ([Symbol("a:b"), None, []], "error.info must be a map"),
        ([Symbol("a:b"), None, None, None], "error has 4 fields, it has at most 3"),
    ],
)
def test_an_error_with_a_wrong_field_is_a_decode_error_that_names_it(values: list[object], complaint: str) -> None:
    with pytest.raises(DecodeError, match=f"^{complaint}"):
        optional_error(Described(ULong(0x1D), values), "close.error")


def test_an_error_is_made_of_what_a_protocol_error_says() -> None:
    error = AmqpError.of(MessageSizeExceeded("too large"))
    assert error == AmqpError("amqp:link:message-size-exceeded", "too large")


# --- as objects -------------------------------------------------------------------------------------------------


def test_states_are_equal_by_what_they_say() -> None:
    assert Accepted() == ACCEPTED
    assert hash(Accepted()) == hash(ACCEPTED)
    assert ACCEPTED != RELEASED
    assert Rejected(AmqpError("a:b")) == Rejected(AmqpError("a:b"))
    assert Modified(True) != Modified(False)
    assert Accepted() != "accepted"


def test_errors_are_equal_by_what_they_say() -> None:
    assert AmqpError("a:b", "c", {"d": 1}) == AmqpError(Symbol("a:b"), "c", {"d": 1})
    assert hash(AmqpError("a:b")) == hash(AmqpError(Symbol("a:b")))
    assert AmqpError("a:b") != AmqpError("a:b", "c")
    assert AmqpError("a:b", None, {"d": 1}) != AmqpError("a:b", None, {"d": UInt(1)})
    assert AmqpError("a:b") != "a:b"


def test_states_and_errors_show_what_they_say() -> None:
    assert repr(ACCEPTED) == "Accepted([])"
    assert repr(Received(1, 2)) == "Received([UInt(1), ULong(2)])"
    assert repr(AmqpError("a:b", "text")) == "AmqpError(condition='a:b', description='text')"


def test_a_state_has_to_say_how_it_is_written() -> None:
    with pytest.raises(NotImplementedError):
        DeliveryState().to_described()


@pytest.mark.parametrize("descriptor", [UInt(0x24), 0x24, "amqp:accepted:list", None, Described(ULong(1), None)])
def test_only_a_ulong_or_a_symbol_names_a_type(descriptor: object) -> None:
    assert type_code(descriptor, {"amqp:accepted:list": 0x24}) == -1


def test_a_symbol_that_names_no_type_has_no_code() -> None:
    assert type_code(Symbol("amqp:nonsense:list"), {"amqp:accepted:list": 0x24}) == -1
    assert type_code(Symbol("amqp:accepted:list"), {"amqp:accepted:list": 0x24}) == 0x24
