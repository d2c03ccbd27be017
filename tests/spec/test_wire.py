"""The audit that all protocol tests rely on sees what it is there to see."""

from __future__ import annotations

import pytest

from tandem.amqp.encode import encode, encode_described_list
from tandem.amqp.performatives import (
    SENDER,
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
)
from tandem.amqp.types import Described, Symbol, UInt, ULong
from tests.markers import spec
from tests.spec.wire import WireReader, amqp_frame, raw_frame

BEGUN: list[Performative] = [Open("x"), Begin(0, 1, 1, 1)]
ATTACHED: list[Performative] = [*BEGUN, Attach("link", 3, SENDER)]


def stream(*performatives: Performative) -> bytes:
    return b"".join(amqp_frame(performative) for performative in performatives)


@spec("amqp:2.4.3", "amqp:2.6.2")
@pytest.mark.parametrize(
    "data, complaint",
    [
        (stream(Open("x"))[:-1], "in part"),
        (stream(Begin(0, 1, 1, 1)), "before the open"),
        (stream(*BEGUN, Close(), End()), "behind a close"),
        (stream(*BEGUN, Close()) + raw_frame(b""), "behind a close"),
        (stream(*BEGUN, Begin(0, 1, 1, 1)), "begun twice"),
        (stream(*BEGUN, End(), Flow(0, 1, 1, 1)), "not begun"),
        (stream(*ATTACHED, Attach("other", 3, SENDER)), "attached twice"),
        (stream(*BEGUN, Detach(3, True)), "was not attached"),
        (stream(*ATTACHED, Detach(3, False)), "does not close"),
        (stream(*ATTACHED, Detach(3, True), Transfer(3, 0, b"t", 0, False)), "not attached"),
        (stream(*BEGUN, Flow(0, 1, 1, 1, 3, 0, 1, 0)), "for no handle"),
        (stream(*BEGUN, Disposition(True, 0, None, True)), "without its last"),
        (stream(Open("x" * 600)), "larger than"),
        (raw_frame(encode_described_list(0x10, ["x"])), "composite 0x10 has 1 fields"),
        (raw_frame(encode_described_list(0x17, [Described(ULong(0x1D), [Symbol("a:b")])])), "composite 0x1d"),
        (raw_frame(encode_described_list(0x44, [UInt(0)]), kind=1), "composite 0x44"),
        (raw_frame(encode(Described(Symbol("amqp:close:list"), [None]))), "smallulong"),
    ],
    ids=range(17),
)
def test_the_audit_fails_on_what_no_stack_of_ours_may_write(data: bytes, complaint: str) -> None:
    reader = WireReader()
    reader.max_frame_size = 512
    with pytest.raises(AssertionError, match=complaint):
        reader.read(data)


@spec("amqp:2.6.2")
def test_the_audit_lets_a_handle_and_a_channel_be_used_again() -> None:
    reader = WireReader()
    frames = reader.read(
        stream(*ATTACHED, Detach(3, True), Attach("link", 3, SENDER), End(), Begin(0, 1, 1, 1), Close())
    )
    assert len(frames) == 8
    assert reader.is_closed
