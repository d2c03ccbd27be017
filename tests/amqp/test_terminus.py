"""Sources, targets and coordinators: every field written, defaults read, and wrong ones named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.decode import decode_all
from tandem.amqp.delivery_states import RELEASED
from tandem.amqp.encode import encode
from tandem.amqp.terminus import Coordinator, Source, Target, source_of, target_of
from tandem.amqp.types import Array, Described, Symbol, UInt, ULong
from tandem.errors import DecodeError
from tests.amqp.composites import coordinators, sources, spellings, targets
from tests.markers import spec

SOURCE, TARGET, COORDINATOR = ULong(0x28), ULong(0x29), ULong(0x30)

FULL_SOURCE = Source(
    "queue",
    durable=2,
    expiry_policy="never",
    timeout_s=300,
    dynamic=True,
    dynamic_node_properties={Symbol("a"): None},
    distribution_mode="copy",
    filter={Symbol("f"): None},
    default_outcome=RELEASED,
    outcomes=[Symbol("o")],
    capabilities=[Symbol("c")],
)


@spec("amqp:3.5.3")
def test_a_source_is_written_with_all_its_eleven_fields() -> None:
    defaults = "00 53 28 c0 18 0b 40 43 a30b73657373696f6e2d656e64 43 42 40 40 40 40 40 40"
    assert encode(Source().to_described()) == bytes.fromhex(defaults)
    full = (
        "00 53 28 c0 3d 0b a1057175657565 5202 a3056e65766572 700000012c 41 c10502a3016140"
        "a304636f7079 c10502a3016640 005326c00100 e00401a3016f e00401a30163"
    )
    assert encode(FULL_SOURCE.to_described()) == bytes.fromhex(full)


@spec("amqp:3.5.4")
def test_a_target_is_written_with_all_its_seven_fields() -> None:
    expected = "00 53 29 c0 1a 07 a1057175657565 43 a30b73657373696f6e2d656e64 43 42 40 40"
    assert encode(Target("queue").to_described()) == bytes.fromhex(expected)


@spec("amqp:4.5.1")
def test_a_coordinator_is_written_with_its_only_field() -> None:
    assert encode(Coordinator().to_described()) == bytes.fromhex("00 53 30 c0 02 01 40")
    capable = Coordinator([Symbol("amqp:local-transactions")])
    assert encode(capable.to_described()) == bytes.fromhex("00 53 30 c0 1d 01 e01a01a317") + b"amqp:local-transactions"


@given(sources)
def test_a_source_that_was_written_reads_as_itself(source: Source) -> None:
    found = source_of(decode_all(encode(source.to_described())))
    assert found is not None
    assert encode(found.to_described()) == encode(source.to_described())
    assert repr(found) == repr(source)


@given(targets)
def test_a_target_that_was_written_reads_as_itself(target: Target) -> None:
    found = target_of(decode_all(encode(target.to_described())))
    assert isinstance(found, Target)
    assert encode(found.to_described()) == encode(target.to_described())
    assert repr(found) == repr(target)


@given(coordinators)
def test_a_coordinator_that_was_written_reads_as_itself(coordinator: Coordinator) -> None:
    found = target_of(decode_all(encode(coordinator.to_described())))
    assert isinstance(found, Coordinator)
    assert found.capabilities == (coordinator.capabilities or None)
    assert repr(found) == repr(coordinator)


@given(source=sources, data=st.data())
def test_every_encoding_of_a_source_reads_as_the_same_source(source: Source, data: st.DataObject) -> None:
    found = source_of(decode_all(data.draw(spellings(source.to_described()))))
    assert found is not None
    assert encode(found.to_described()) == encode(source.to_described())


@spec("amqp:3.5.3", "amqp:3.5.4", "amqp:1.4")
@pytest.mark.parametrize("values", [[], [None] * 7])
def test_what_is_not_set_has_the_default_of_the_specification(values: list[object]) -> None:
    for terminus in (source_of(Described(SOURCE, values)), target_of(Described(TARGET, values))):
        assert isinstance(terminus, (Source, Target))
        assert terminus.address is None
        assert (terminus.durable, terminus.expiry_policy, terminus.timeout_s) == (0, "session-end", 0)
        assert terminus.dynamic is False
        assert terminus.dynamic_node_properties is None
        assert terminus.capabilities is None


@pytest.mark.parametrize("address", ["queue", Symbol("queue"), b"queue", ULong(7)])
def test_an_address_is_kept_in_the_type_it_came_in_to_be_echoed(address: object) -> None:
    target = target_of(Described(TARGET, [address]))
    assert isinstance(target, Target)
    assert type(target.address) is type(address)
    assert target.address == address


@spec("amqp:1.2")
def test_a_terminus_may_be_named_by_its_symbol() -> None:
    source = source_of(Described(Symbol("amqp:source:list"), ["a"]))
    assert source is not None
    assert source.address == "a"
    target = target_of(Described(Symbol("amqp:target:list"), ["a"]))
    assert isinstance(target, Target)
    assert target.address == "a"
    assert isinstance(target_of(Described(Symbol("amqp:coordinator:list"), [])), Coordinator)


@spec("amqp:4.5.1", "amqp:1.4")
def test_a_coordinator_may_give_one_capability_without_an_array() -> None:
    coordinator = target_of(Described(COORDINATOR, [Symbol("amqp:local-transactions")]))
    assert isinstance(coordinator, Coordinator)
    assert coordinator.capabilities == ["amqp:local-transactions"]


def test_no_terminus_stays_none() -> None:
    assert source_of(None) is None
    assert target_of(None) is None


@pytest.mark.parametrize("value", ["queue", ["queue"], Described(SOURCE, "queue"), Described(TARGET, {})])
def test_a_terminus_that_is_no_described_list_is_refused(value: object) -> None:
    with pytest.raises(DecodeError, match=r"^attach\.source must be a described list, got "):
        source_of(value)
    with pytest.raises(DecodeError, match=r"^attach\.target must be a described list, got "):
        target_of(value)


@pytest.mark.parametrize(
    "descriptor", [TARGET, COORDINATOR, ULong(0x99), Symbol("amqp:target:list"), "amqp:source:list"]
)
def test_a_source_of_another_type_is_refused(descriptor: object) -> None:
    with pytest.raises(DecodeError, match=r"^attach\.source is of an unknown type"):
        source_of(Described(descriptor, []))


@pytest.mark.parametrize("descriptor", [SOURCE, ULong(0x99), Symbol("amqp:source:list"), "amqp:target:list"])
def test_a_target_of_another_type_is_refused(descriptor: object) -> None:
    with pytest.raises(DecodeError, match=r"^attach\.target is of an unknown type"):
        target_of(Described(descriptor, []))


FIELD_NAMES = [
    ("durable", "a uint"),
    ("expiry-policy", "a symbol"),
    ("timeout", "a uint"),
    ("dynamic", "a boolean"),
    ("dynamic-node-properties", "a map"),
]
SOURCE_FIELDS = [
    *FIELD_NAMES,
    ("distribution-mode", "a symbol"),
    ("filter", "a map"),
    ("default-outcome", "a delivery state"),
    ("outcomes", "symbols"),
    ("capabilities", "symbols"),
]


@pytest.mark.parametrize("index, field, wanted", [(index, *field) for index, field in enumerate(SOURCE_FIELDS, 1)])
def test_a_wrong_field_of_a_source_is_named(index: int, field: str, wanted: str) -> None:
    values: list[object] = [None] * 11
    values[index] = "wrong"
    with pytest.raises(DecodeError, match=f"^source.{field} must be {wanted}, got 'wrong'"):
        source_of(Described(SOURCE, values))


@pytest.mark.parametrize(
    "index, field, wanted",
    [(index, *field) for index, field in enumerate([*FIELD_NAMES, ("capabilities", "symbols")], 1)],
)
def test_a_wrong_field_of_a_target_is_named(index: int, field: str, wanted: str) -> None:
    values: list[object] = [None] * 7
    values[index] = "wrong"
    with pytest.raises(DecodeError, match=f"^target.{field} must be {wanted}, got 'wrong'"):
        target_of(Described(TARGET, values))


def test_a_wrong_field_of_a_coordinator_is_named() -> None:
    with pytest.raises(DecodeError, match=r"^coordinator\.capabilities must be symbols"):
        target_of(Described(COORDINATOR, [Array("uint", [UInt(1)])]))


def test_more_fields_than_a_terminus_has_are_refused() -> None:
    with pytest.raises(DecodeError, match="source has 12 fields, it has at most 11"):
        source_of(Described(SOURCE, [None] * 12))
    with pytest.raises(DecodeError, match="target has 8 fields, it has at most 7"):
        target_of(Described(TARGET, [None] * 8))
    with pytest.raises(DecodeError, match="coordinator has 2 fields, it has at most 1"):
        target_of(Described(COORDINATOR, [None] * 2))


def test_a_terminus_shows_what_is_set() -> None:
    shown = "address='q', durable=UInt(0), expiry_policy=Symbol('session-end'), timeout=UInt(0), dynamic=False"
    assert repr(Source("q")) == f"Source({shown})"
    assert repr(Target("q")) == f"Target({shown})"
    assert repr(Coordinator()) == "Coordinator()"
