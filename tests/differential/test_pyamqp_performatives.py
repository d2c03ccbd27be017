"""Our performatives against those inside the official Service Bus SDK: its frames read by us, ours by it.

What the SDK deviates in is listed in `test_pyamqp_codec.py`. Beside that, its frames here

- hold no transaction (it has neither coordinators nor transactional states), and no dynamic node properties;
- give a null where a map is empty;
- read with the default of the specification where we wrote a null.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from azure.servicebus._pyamqp import _decode as sdk_decode
from azure.servicebus._pyamqp import _encode as sdk_encode
from azure.servicebus._pyamqp import endpoints as sdk_endpoints
from azure.servicebus._pyamqp import error as sdk_error
from azure.servicebus._pyamqp import outcomes as sdk_outcomes
from azure.servicebus._pyamqp import performatives as sdk_performatives
from hypothesis import given
from hypothesis import strategies as st

from tandem.amqp.delivery_states import (
    ACCEPTED,
    RELEASED,
    AmqpError,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    TransactionalState,
)
from tandem.amqp.events import AuthenticationRequested
from tandem.amqp.hot_paths import (
    decode_disposition,
    decode_flow,
    decode_transfer,
    disposition_frame,
    flow_frame,
    transfer_frame_head,
)
from tandem.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
    decode_performative,
)
from tandem.amqp.sasl import SASL_HEADER, SaslServer
from tandem.amqp.settings import SERVER_MECHANISMS
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Array, Described, Int, Symbol, ULong
from tests.amqp.composites import symbol_lists, symbols, ubytes, uints, ulongs, ushorts

# --- Values that both sides have --------------------------------------------------------------------------------

texts: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
binaries: Final = st.binary(max_size=300)
flags: Final = st.booleans()
# Of these the SDK makes the AMQP type by itself, so that what it writes can be predicted.
scalars: Final[st.SearchStrategy[object]] = st.one_of(
    st.none(),
    flags,
    texts,
    binaries,
    st.uuids(),
    st.floats(allow_nan=False),
    st.integers(-(2**31), 2**31 - 1).map(Int),
)
keys: Final[st.SearchStrategy[object]] = symbols
tags: Final[st.SearchStrategy[object]] = binaries
maps: Final = st.none() | st.dictionaries(keys, scalars, min_size=1, max_size=3)
filters: Final[st.SearchStrategy[object]] = st.none() | st.builds(Described, symbols, scalars)

errors: Final = st.builds(AmqpError, symbols, st.none() | texts, maps)
outcomes: Final[st.SearchStrategy[DeliveryState]] = st.one_of(
    st.just(ACCEPTED),
    st.just(RELEASED),
    st.builds(Rejected, st.none() | errors),
    st.builds(Modified, st.none() | flags, st.none() | flags, maps),
)
states: Final[st.SearchStrategy[DeliveryState]] = outcomes | st.builds(Received, uints, ulongs)

sources: Final = st.builds(
    Source,
    st.none() | texts,
    durable=uints,
    expiry_policy=symbols.filter(bool),
    timeout_s=uints,
    dynamic=flags,
    distribution_mode=st.none() | symbols,
    filter=st.none() | st.dictionaries(keys, filters, min_size=1, max_size=3),
    default_outcome=st.none() | outcomes,
    outcomes=symbol_lists,
    capabilities=symbol_lists,
)
targets: Final = st.builds(
    Target,
    st.none() | texts,
    durable=uints,
    expiry_policy=symbols.filter(bool),
    timeout_s=uints,
    dynamic=flags,
    capabilities=symbol_lists,
)
PERFORMATIVES: Final[dict[type[Performative], st.SearchStrategy[Performative]]] = {
    Open: st.builds(
        Open,
        texts,
        st.none() | texts,
        uints,
        ushorts,
        st.none() | uints,
        symbol_lists,
        symbol_lists,
        symbol_lists,
        symbol_lists,
        maps,
    ),
    Begin: st.builds(Begin, st.none() | ushorts, uints, uints, uints, uints, symbol_lists, symbol_lists, maps),
    Attach: st.builds(
        Attach,
        texts,
        uints,
        flags,
        ubytes,
        ubytes,
        st.none() | sources,
        st.none() | targets,
        st.none() | st.dictionaries(tags, st.none(), min_size=1, max_size=3),
        flags,
        st.none() | uints,
        st.none() | ulongs,
        symbol_lists,
        symbol_lists,
        maps,
    ),
    Flow: st.builds(
        Flow,
        st.none() | uints,
        uints,
        uints,
        uints,
        st.none() | uints,
        st.none() | uints,
        st.none() | uints,
        st.none() | uints,
        flags,
        flags,
        maps,
    ),
    Transfer: st.builds(
        Transfer,
        uints,
        st.none() | uints,
        st.none() | binaries,
        uints,
        st.none() | flags,
        flags,
        st.none() | ubytes,
        st.none() | states,
        flags,
        flags,
        flags,
    ),
    Disposition: st.builds(Disposition, flags, uints, st.none() | uints, flags, st.none() | states, flags),
    Detach: st.builds(Detach, uints, flags, st.none() | errors),
    End: st.builds(End, st.none() | errors),
    Close: st.builds(Close, st.none() | errors),
}
every_performative: Final = pytest.mark.parametrize("kind", PERFORMATIVES, ids=lambda kind: kind.__name__)

# --- The SDK's frames, read by us -------------------------------------------------------------------------------

# Any: namedtuples, whose classes the SDK builds at run time.
SDK_CLASSES: Final[dict[type[Performative], Any]] = {
    Open: sdk_performatives.OpenFrame,
    Begin: sdk_performatives.BeginFrame,
    Attach: sdk_performatives.AttachFrame,
    Flow: sdk_performatives.FlowFrame,
    Transfer: sdk_performatives.TransferFrame,
    Disposition: sdk_performatives.DispositionFrame,
    Detach: sdk_performatives.DetachFrame,
    End: sdk_performatives.EndFrame,
    Close: sdk_performatives.CloseFrame,
}
SDK_COMPOSITES: Final[dict[int, Any]] = {
    0x1D: sdk_error.AMQPError,
    0x23: sdk_outcomes.Received,
    0x24: sdk_outcomes.Accepted,
    0x25: sdk_outcomes.Rejected,
    0x26: sdk_outcomes.Released,
    0x27: sdk_outcomes.Modified,
    0x28: sdk_endpoints.Source,
    0x29: sdk_endpoints.Target,
}


def to_sdk(value: object) -> Any:
    """A value as the SDK's encoder takes it."""
    if isinstance(value, Described):
        fields = value.value
        if isinstance(value.descriptor, ULong):
            assert isinstance(fields, list)
            return SDK_COMPOSITES[value.descriptor](*map(to_sdk, fields))
        return to_sdk(value.descriptor), to_sdk(fields)
    if isinstance(value, Array):
        return [to_sdk(item) for item in value]
    if isinstance(value, dict):
        return {to_sdk(key): to_sdk(item) for key, item in value.items()}
    if isinstance(value, Symbol):
        return value.encode()
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def sdk_frame(performative: Performative, payload: bytes = b"") -> bytes:
    fields = [to_sdk(value) for value in performative.values()]
    if isinstance(performative, Transfer):
        fields.append(payload)
    header, body = sdk_encode.encode_frame(SDK_CLASSES[type(performative)](*fields))
    assert body is not None
    assert int.from_bytes(header[:4]) == 8 + len(body)
    return bytes(body)


@every_performative
@given(data=st.data())
def test_a_frame_of_the_sdk_is_read_as_what_it_says(kind: type[Performative], data: st.DataObject) -> None:
    performative = data.draw(PERFORMATIVES[kind])
    written = sdk_frame(performative)
    assert decode_performative(written, 0, len(written)) == (performative, len(written))


@given(PERFORMATIVES[Transfer], st.binary(max_size=50))
def test_a_transfer_of_the_sdk_is_read_alike_by_the_tuned_decoder(transfer: Performative, payload: bytes) -> None:
    written = sdk_frame(transfer, payload)
    found, start = decode_transfer(written, 0, len(written))
    assert found == transfer
    assert written[start:] == payload


@given(PERFORMATIVES[Disposition])
def test_a_disposition_of_the_sdk_is_read_alike_by_the_tuned_decoder(disposition: Performative) -> None:
    written = sdk_frame(disposition)
    assert decode_disposition(written, 0, len(written)) == disposition


@given(PERFORMATIVES[Flow])
def test_a_flow_of_the_sdk_is_read_alike_by_the_tuned_decoder(flow: Performative) -> None:
    written = sdk_frame(flow)
    assert decode_flow(written, 0, len(written)) == flow


# --- Our frames, read by the SDK --------------------------------------------------------------------------------

OUTCOMES: Final = {0x23: "received", 0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}


def as_sdk_reads(value: object) -> Any:
    """A value as the SDK's decoder gives it: text as bytes, arrays as lists, outcomes as dicts, the rest as it is."""
    if isinstance(value, Described):
        found = as_sdk_reads(value.value)
        if isinstance(value.descriptor, ULong) and value.descriptor in OUTCOMES:
            return {OUTCOMES[value.descriptor]: found}
        return found
    if isinstance(value, (list, Array)):
        return [as_sdk_reads(item) for item in value]
    if isinstance(value, dict):
        return {as_sdk_reads(key): as_sdk_reads(item) for key, item in value.items()}
    if isinstance(value, str):
        return value.encode()
    return value


def sdk_reads(body: bytes) -> tuple[int, list[Any]]:
    code, fields = sdk_decode.decode_frame(memoryview(body))
    if code == 0x14:
        # The payload of a transfer comes as its last field.
        fields[-1] = bytes(fields[-1])
    return code, fields


@every_performative
@given(data=st.data())
def test_a_frame_of_ours_is_read_as_what_it_says(kind: type[Performative], data: st.DataObject) -> None:
    performative = data.draw(PERFORMATIVES[kind])
    expected = [as_sdk_reads(value) for value in performative.values()]
    body = performative.encode()
    if kind is Transfer:
        payload = data.draw(st.binary(max_size=50))
        expected.append(payload)
        body += payload
    assert sdk_reads(body) == (performative.code(), expected)


@given(uints, uints, st.binary(max_size=32), uints, flags, flags, st.binary(max_size=50))
def test_a_tuned_transfer_of_ours_is_read_as_what_it_says(
    handle: int, delivery_id: int, tag: bytes, message_format: int, settled: bool, more: bool, payload: bytes
) -> None:
    head = transfer_frame_head(1, handle, delivery_id, tag, message_format, settled, more, len(payload))
    fields = [handle, delivery_id, tag, message_format, settled, more, None, None, False, False, False, payload]
    assert sdk_reads(head[8:] + payload) == (0x14, fields)


@given(flags, uints, uints, flags, st.none() | states)
def test_a_tuned_disposition_of_ours_is_read_as_what_it_says(
    role: bool, first: int, last: int, settled: bool, state: DeliveryState | None
) -> None:
    outcome = None if state is None else as_sdk_reads(state.to_described())
    body = disposition_frame(1, role, first, last, settled, state)[8:]
    assert sdk_reads(body) == (0x15, [role, first, last, settled, outcome, False])


@given(PERFORMATIVES[Flow])
def test_a_tuned_flow_of_ours_is_read_as_what_it_says(flow: Performative) -> None:
    assert isinstance(flow, Flow)
    assert sdk_reads(flow_frame(1, flow)[8:]) == (0x13, [as_sdk_reads(value) for value in flow.values()])


def test_a_transaction_is_at_least_passed_on() -> None:
    body = Disposition(True, 1, 1, True, TransactionalState(b"t", ACCEPTED)).encode()
    assert sdk_reads(body)[1][4] == [b"t", {"accepted": []}]


def test_settle_modes_that_we_leave_null_are_the_defaults_of_the_specification() -> None:
    _, fields = sdk_reads(Attach("l", 0, True).encode())
    assert (fields[3], fields[4]) == (2, 0)


@pytest.mark.parametrize("names", [[], None])
def test_what_follows_no_capabilities_is_still_read_right(names: list[Symbol] | None) -> None:
    source = Source("q", outcomes=names, capabilities=names)
    attach = Attach("l", 0, True, 2, 0, source, Target("t", capabilities=names), max_message_size=5)
    _, fields = sdk_reads(attach.encode())
    assert fields[6][0] == b"t"
    assert fields[10] == 5


# --- SASL -------------------------------------------------------------------------------------------------------


def test_the_sasl_frames_of_both_are_read_by_the_other() -> None:
    server = SaslServer(SERVER_MECHANISMS)
    offer = server.on_header().removeprefix(SASL_HEADER)
    assert sdk_reads(offer[8:]) == (0x40, [[mechanism.encode() for mechanism in SERVER_MECHANISMS]])
    # As its anonymous credential makes it.
    choice = sdk_performatives.SASLInit(mechanism=b"ANONYMOUS", initial_response=b"", hostname="h")
    header, body = sdk_encode.encode_frame(choice, b"\x01")
    assert header[5:6] == b"\x01"
    assert body is not None
    event = server.on_frame(bytes(body), 0, len(body))
    assert isinstance(event, AuthenticationRequested)
    assert (event.mechanism, event.initial_response, event.hostname) == ("ANONYMOUS", b"", "h")
    assert sdk_reads(server.decide(True)[8:]) == (0x44, [0, b"Welcome!"])


def test_the_sdk_reads_a_refusal() -> None:
    server = SaslServer(SERVER_MECHANISMS)
    server.on_header()
    _, body = sdk_encode.encode_frame(sdk_performatives.SASLInit(b"PLAIN", b"\x00u\x00p", None), b"\x01")
    assert body is not None
    event = server.on_frame(bytes(body), 0, len(body))
    assert isinstance(event, AuthenticationRequested)
    assert (event.user, event.password) == ("u", "p")
    assert sdk_reads(server.decide(False)[8:]) == (0x44, [1, None])
