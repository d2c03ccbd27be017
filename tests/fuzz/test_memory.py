"""What a peer can make us allocate, measured against the bounds that `docs/explain/fuzzing.md` states."""

from __future__ import annotations

import gc
import struct
import tracemalloc
from collections.abc import Callable
from typing import Final

import pytest

from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.decode import decode_all
from tandem.amqp.events import ConnectionFailed, LinkAttached
from tandem.amqp.hot_paths import frame
from tandem.amqp.link import ReceiverLink
from tandem.amqp.performatives import Attach, Begin, Open, Transfer
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Target
from tandem.limits import MAX_FRAME_SIZE_BEFORE_OPEN_BYTES
from tests.fuzz.mutate import Mutator
from tests.fuzz.targets import MAX_INPUT_BYTES, TARGETS
from tests.fuzz.worker import corpus_of
from tests.markers import mission

# Bytes allocated per byte decoded. The dearest value is the empty symbol within an array: one byte, and an object of
# 97 bytes with 16 for its place in the list while that grows.
DECODED_PER_BYTE: Final = 128
# Bytes held per byte of a frame that is not complete yet: a buffer that grows is copied into one an eighth larger.
UNREAD_PER_BYTE: Final = 3
# Bytes of an unsettled delivery beside its payload.
UNSETTLED_BYTES: Final = 400
# Bytes that one fuzz input may cost at its peak, whatever the target: two connections, and 2 KB decoded at that price.
PER_INPUT_BYTES: Final = 300_000

_CONTENT: Final = 16_384


def peak_of(function: Callable[[], object]) -> int:
    """Bytes allocated by `function` at most at any one time."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        # Held until it is measured.
        result = function()
        peak = tracemalloc.get_traced_memory()[1] - before
        del result
        return peak
    finally:
        tracemalloc.stop()


def compound(code: int, constructor: bytes, element: bytes) -> bytes:
    """A list or array of 16 KB of equal elements."""
    count = _CONTENT // len(element)
    content = constructor + element * count
    return struct.pack(">BII", code, len(content) + 4, count) + content


DEAR_VALUES: Final = {
    "empty symbols in an array": compound(0xF0, b"\xa3", b"\x00"),
    "symbols of one character": compound(0xF0, b"\xa3", b"\x01a"),
    "empty arrays in an array": compound(0xF0, b"\xe0", b"\x01\x00"),
    "empty maps in an array": compound(0xF0, b"\xc1", b"\x01\x00"),
    "empty lists": compound(0xD0, b"", b"\x45"),
    "empty arrays": compound(0xD0, b"", b"\xe0\x01\x00"),
    "described lists": compound(0xD0, b"", b"\x00\x45\x45"),
    "chars in an array": compound(0xF0, b"\x73", b"\x00\x01\x00\x00"),
    "ushorts in an array": compound(0xF0, b"\x60", b"\x01\x00"),
    "uuids in an array": compound(0xF0, b"\x98", bytes(range(16))),
    "zero-width arrays": compound(0xD0, b"", b"\xf0\x00\x00\x00\x05\x00\x01\x00\x00\x40"),
    "binary": b"\xb0" + struct.pack(">I", _CONTENT) + bytes(_CONTENT),
    "string with one wide character": b"\xb1"
    + struct.pack(">I", _CONTENT)
    + b"a" * (_CONTENT - 4)
    + b"\xf0\x9f\x9a\xb2",
}


@pytest.mark.parametrize("name", DEAR_VALUES)
def test_decoding_takes_memory_in_proportion_to_the_bytes_at_hand(name: str) -> None:
    data = DEAR_VALUES[name]
    assert peak_of(lambda: decode_all(data)) <= DECODED_PER_BYTE * len(data)


@mission("M37")
@pytest.mark.exhaustive
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_of_a_fuzzer_leave_nothing_behind_and_cost_a_bounded_amount_each(target: str) -> None:
    function = TARGETS[target]
    mutator = Mutator([path.read_bytes() for path in corpus_of(target)], 11, MAX_INPUT_BYTES[target])
    inputs = [mutator.next() for _ in range(80)]
    # Tables that are filled once, such as those of the hot paths, are no concern of the measurement.
    for data in inputs:
        function(data)
    gc.collect()
    tracemalloc.start()
    try:
        for data in inputs:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            function(data)
            assert tracemalloc.get_traced_memory()[1] - before <= PER_INPUT_BYTES
        gc.collect()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 50_000


@mission("M37")
def test_a_stranger_is_held_to_one_small_frame_however_it_is_cut() -> None:
    data = SASL_HEADER + struct.pack(">IBBH", MAX_FRAME_SIZE_BEFORE_OPEN_BYTES, 2, 1, 0) + bytes(8_183)
    pieces = [data[offset : offset + 2] for offset in range(0, len(data), 2)]

    def run() -> Connection:
        connection = Connection(Role.SERVER, Settings("server"))
        for piece in pieces:
            assert not connection.receive(piece)
        return connection

    assert peak_of(run) <= 10_000 + UNREAD_PER_BYTE * MAX_FRAME_SIZE_BEFORE_OPEN_BYTES


def test_the_size_of_a_frame_is_judged_before_any_of_it_is_kept() -> None:
    connection = Connection(Role.SERVER, Settings("server"))
    events = connection.receive(SASL_HEADER + b"\xff\xff\xff\xff\x02\x01\x00\x00")
    assert isinstance(events[-1], ConnectionFailed)
    huge = bytes(1_000_000)
    assert peak_of(lambda: connection.receive(huge)) < 1_000


def attached(settings: Settings) -> tuple[Connection, ReceiverLink]:
    """A server with one link on which the peer sends, and credit for all it wants to."""
    connection = Connection(Role.SERVER, settings)
    opening = (Open("peer"), Begin(None, 0, 5_000, 5_000), Attach("in", 0, False, target=Target("queue")))
    events = connection.receive(AMQP_HEADER + b"".join([frame(0, performative.encode()) for performative in opening]))
    event = events[-1]
    assert isinstance(event, LinkAttached)
    assert isinstance(event.link, ReceiverLink)
    event.link.accept()
    event.link.grant(100_000)
    connection.data_to_send()
    return connection, event.link


def test_incomplete_deliveries_hold_what_was_sent_and_end_at_the_limit() -> None:
    limit = 500_000
    connection, first = attached(Settings("server", max_incomplete=limit, max_message_size=limit))
    events = connection.receive(frame(0, Attach("second", 1, False, target=Target("queue")).encode()))
    assert isinstance(events[-1], LinkAttached)
    second = events[-1].link
    assert isinstance(second, ReceiverLink)
    second.accept()
    second.grant(first.credit)
    transfers = [
        frame(0, Transfer(handle, handle, b"tag", 0, False, True).encode() + bytes(100)) for handle in range(2)
    ]

    def run() -> list[str]:
        failures: list[str] = []
        while not failures:
            for transfer in transfers:
                failures += [type(event).__name__ for event in connection.receive(transfer)]
            connection.data_to_send()
        return failures

    assert peak_of(run) <= 2.5 * limit
    assert connection.is_broken


def test_an_unsettled_delivery_costs_what_the_limits_say() -> None:
    connection, link = attached(Settings("server"))
    count = 3_000
    transfers = [frame(0, Transfer(0, number, struct.pack(">I", number), 0).encode()) for number in range(count)]

    def run() -> None:
        for transfer in transfers:
            connection.receive(transfer)
            connection.data_to_send()

    assert peak_of(run) <= UNSETTLED_BYTES * count
    assert len(link.unsettled) == count
