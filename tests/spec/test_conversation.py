"""What the conversations of the pipe come to: who hears what, in which order, and in which form it is written."""

from __future__ import annotations

import pytest

from tandem.amqp.connection import AMQP_HEADER
from tandem.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
)
from tandem.amqp.sasl import SASL_HEADER
from tests.markers import spec
from tests.spec.pipe import CONVERSATIONS, DIRECTIONS, EVERYTHING, TO_CLIENT, TO_SERVER, Record
from tests.spec.wire import WireReader

WELCOMED = ["AuthenticationSucceeded", "ConnectionOpened", "SessionBegun"]
ADMITTED = ["AuthenticationRequested", "ConnectionOpened", "SessionBegun"]


def kinds(transcript: list[str]) -> list[str]:
    return [line.split(" ", 1)[0] for line in transcript]


def lines(transcript: list[str], kind: str) -> list[str]:
    """What the events of one kind say."""
    return [line.removeprefix(f"{kind} ") for line in transcript if line.startswith(f"{kind} ")]


def run(name: str) -> Record:
    return CONVERSATIONS[name].run(is_audited=True)


@spec("amqp:2.4.1", "amqp:2.5.1", "amqp:5.3.2")
@pytest.mark.parametrize("name", ["anonymous", "plain"])
def test_a_client_authenticates_opens_begins_and_closes(name: str) -> None:
    record = run(name)
    assert kinds(record.client_transcript) == [*WELCOMED, "ConnectionClosed"]
    assert kinds(record.server_transcript) == [*ADMITTED, "ConnectionClosed"]


@spec("amqp:2.5.1", "amqp:2.5.2")
def test_sessions_are_begun_and_ended_by_either_side() -> None:
    record = run("sessions")
    for transcript in (record.client_transcript, record.server_transcript):
        begun = [line.split(" ", 1)[0] for line in lines(transcript, "SessionBegun")]
        ended = sorted(line.split(" ", 1)[0] for line in lines(transcript, "SessionEnded"))
        assert begun == ["0", "1", "2", "3", "1"]
        assert ended == ["1", "2", "3"]
    (reason,) = [line for line in lines(record.client_transcript, "SessionEnded") if "enough" in line]
    assert reason.startswith("3 AmqpError(condition=Symbol('amqp:resource-limit-exceeded')")


@spec("amqp:2.6.12", "amqp:3.4")
def test_every_outcome_reaches_the_sender_and_those_in_a_row_come_together() -> None:
    told = lines(run("settlement").client_transcript, "DispositionReceived")
    assert [line.split("(", 1)[0] for line in told] == [
        "to-server [0, 1, 2] Accepted",
        "to-server [3] Rejected",
        "to-server [4] Released",
        "to-server [5] Modified",
    ]
    assert all(line.endswith("settled=True") for line in told)


@spec("amqp:2.6.14")
def test_messages_of_several_frames_arrive_whole_in_both_directions() -> None:
    record = run("several frames")
    up = lines(record.server_transcript, "IncomingDelivery")
    down = lines(record.client_transcript, "IncomingDelivery")
    assert [line.split(" ", 2)[1] for line in up] == ["0", "1"]
    assert up[0].endswith(repr(bytes(range(256)) * 2 + b"and a bit"))
    assert down[0].endswith(repr(b"down" * 130))
    for direction in DIRECTIONS:
        frames = WireReader()
        frames.is_opened = True
        frames.handles[0] = set()
        transfers = [frame.performative for frame in frames.read(record.written(direction))]
        assert [each.more for each in transfers if isinstance(each, Transfer)][:2] == [True, False]


@spec("amqp:2.8.3")
def test_a_delivery_settled_second_is_settled_by_its_sender() -> None:
    record = run("settled second")
    asked = lines(record.server_transcript, "DispositionReceived")
    assert [line.split("(", 1)[0] for line in asked] == ["to-client [0, 1] Accepted", "to-client [2] Rejected"]
    assert all(line.endswith("settled=False") for line in asked)
    told = lines(record.client_transcript, "SettlementReceived")
    assert [line.split("(", 1)[0] for line in told] == ["to-client [0, 1] Accepted", "to-client [2] Rejected"]
    assert all(line.endswith("settled=True") for line in told)


@spec("amqp:2.6.7")
def test_a_drain_ends_and_an_echo_is_answered() -> None:
    record = run("drain and echo")
    assert lines(record.client_transcript, "CreditDrained") == ["to-client"]
    assert lines(record.server_transcript, "CreditReceived") == [
        "to-client 10 draining=False",
        "to-client 5 draining=True",
        "to-client 3 draining=False",
    ]


@spec("amqp:4.2", "amqp:4.3", "amqp:4.4.1", "amqp:4.4.2")
def test_a_transaction_is_declared_worked_in_and_discharged_in_that_order() -> None:
    record = run("transaction")
    told = lines(record.client_transcript, "DispositionReceived")
    assert [line.split("(", 1)[0] for line in told] == [
        "controller [0] Declared",
        "to-server [1] TransactionalState",
        "to-server [2] TransactionalState",
        "controller [3] Accepted",
    ]
    server = record.server_transcript
    (retired,) = [number for number, line in enumerate(server) if "to-client [0] TransactionalState" in line]
    (discharged,) = [number for number, line in enumerate(server) if line.startswith("IncomingDelivery controller 3")]
    assert retired < discharged


@spec("amqp:2.6.3", "amqp:2.6.4", "amqp:2.6.6")
def test_links_are_refused_given_up_detached_and_attached_again() -> None:
    record = run("detach")
    detached = lines(record.client_transcript, "LinkDetached")
    assert sorted(line.split(" ", 1)[0] for line in detached) == ["first", "second", "unanswered", "unknown"]
    assert any("amqp:not-found" in line for line in detached)
    assert any("idle for too long" in line for line in detached)
    assert lines(record.client_transcript, "DispositionReceived") == ["first [1] Accepted([]) settled=True"]


@spec("amqp:2.4.3")
def test_a_close_with_a_reason_is_heard_and_answered() -> None:
    record = run("close")
    assert "shutting down" in record.client_transcript[-1]
    assert record.server_transcript[-1] == "ConnectionClosed None"


@spec("amqp:2.7", "amqp:5.3.3")
def test_every_kind_of_frame_is_written_and_carries_all_its_fields() -> None:
    record = EVERYTHING.run(is_audited=True)
    performatives = set()
    sasl_codes = set()
    headers = []
    for direction in (TO_SERVER, TO_CLIENT):
        # The reader counts the fields of every frame, by the general codec.
        for frame in WireReader().read(record.written(direction)):
            performatives.add(type(frame.performative))
            sasl_codes.add(frame.sasl_code)
            headers += [frame.header] if frame.header else []
    assert performatives >= {Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close}
    assert sasl_codes >= {0x40, 0x41, 0x44}
    assert headers == [SASL_HEADER, AMQP_HEADER] * 2
