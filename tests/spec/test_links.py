"""Links (part 2.6): names and handles, attaching, refusing, detaching, and coming back afterwards."""

from __future__ import annotations

import pytest

from tandem.amqp.delivery_states import ACCEPTED, AmqpError
from tandem.amqp.events import CreditReceived, LinkAttached, LinkDetached, LinkFailed, SessionEnded
from tandem.amqp.link import ReceiverLink, SenderLink
from tandem.amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from tandem.amqp.settings import Settings
from tandem.amqp.states import LinkState
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.types import Symbol
from tandem.errors import (
    EncodeError,
    FramingError,
    HandleInUse,
    InvalidField,
    LinkStolen,
    NotAllowed,
    NotFound,
    StateError,
    TransferLimitExceeded,
    UnattachedHandle,
)
from tandem.limits import MAX_NAME_CHARACTERS
from tests.markers import spec
from tests.spec.raw_peer import OPEN_WINDOW, only, opened_client, opened_server, session_client, session_server


def asking_to_send(name: str = "in", handle: int = 0) -> Attach:
    return Attach(name, handle, SENDER, 2, 1, Source("here"), Target("q"), initial_delivery_count=0)


# --- attaching --------------------------------------------------------------------------------------------------


@spec("amqp:2.6.3", "amqp:2.7.3")
def test_an_attach_is_answered_with_its_own_modes_and_termini() -> None:
    peer = session_server()
    asked = asking_to_send(handle=4)
    link = peer.attach(asked)
    assert peer.read() == [], "the application has not answered yet"
    link.accept()
    answer = peer.read_one(Attach)
    assert isinstance(link, ReceiverLink)
    assert (answer.name, answer.handle, answer.role) == ("in", 4, RECEIVER)
    assert (answer.snd_settle_mode, answer.rcv_settle_mode) == (2, 1)
    assert asked.source is not None
    assert isinstance(asked.target, Target)
    assert answer.source is not None
    assert isinstance(answer.target, Target)
    assert answer.source.values() == asked.source.values()
    assert answer.target.values() == asked.target.values()
    assert answer.initial_delivery_count is None


@spec("amqp:2.7.3")
def test_a_sender_states_where_it_starts_to_count() -> None:
    peer = session_server()
    peer.attach(Attach("out", 0, RECEIVER, 0, 0, Source("q"), Target())).accept()
    assert peer.read_one(Attach).initial_delivery_count == 0


@spec("amqp:2.6.3")
def test_the_answer_to_an_attach_can_be_changed() -> None:
    peer = session_server()
    link = peer.attach(asking_to_send())
    reply = link.attach_reply()
    reply.max_message_size = 1000
    reply.properties = {Symbol("com.microsoft:timeout"): 65_000}
    link.accept(reply)
    answer = peer.read_one(Attach)
    assert answer.max_message_size == 1000
    assert answer.properties == {Symbol("com.microsoft:timeout"): 65_000}
    assert isinstance(link, ReceiverLink)
    assert link.max_message_size == 1000


@spec("amqp:2.6.3")
def test_an_answer_that_cannot_be_encoded_leaves_the_attach_unanswered() -> None:
    peer = session_server()
    link = peer.attach(asking_to_send())
    reply = link.attach_reply()
    reply.properties = {object(): None}
    with pytest.raises(EncodeError):
        link.accept(reply)
    assert peer.connection.data_to_send() == b""
    link.accept()
    assert link.is_attached


@spec("amqp:2.6.3")
def test_an_attach_that_cannot_be_encoded_leaves_no_link_behind() -> None:
    peer, session = session_client()
    with pytest.raises(EncodeError):
        session.attach_sender("out", Target("q"), properties={object(): None})
    assert session.links == {}
    assert peer.connection.data_to_send() == b""
    assert session.attach_sender("out", Target("q")).handle == 0


@spec("amqp:2.6.3", "amqp:2.7.3")
def test_our_attach_is_written_as_it_was_asked_for() -> None:
    peer, session = session_client()
    link = session.attach_receiver(
        "in", Source("q"), snd_settle_mode=1, rcv_settle_mode=0, properties={Symbol("a"): 1}, max_message_size=4096
    )
    attach = peer.read_one(Attach)
    assert (attach.role, attach.snd_settle_mode, attach.rcv_settle_mode) == (RECEIVER, 1, 0)
    assert (attach.max_message_size, attach.properties, attach.initial_delivery_count) == (4096, {Symbol("a"): 1}, None)
    assert link.max_message_size == 4096
    session.attach_sender("txn", Coordinator())
    attach = peer.read_one(Attach)
    assert (attach.role, attach.initial_delivery_count) == (SENDER, 0)
    assert isinstance(attach.target, Coordinator)
    assert attach.source is not None


@spec("amqp:2.6.3")
def test_a_receiver_takes_up_the_count_of_its_sender() -> None:
    peer, session = session_client()
    link = session.attach_receiver("in", Source("q"))
    peer.send(Attach("in", 0, SENDER, source=Source("q"), target=Target(), initial_delivery_count=0xFFFF_FFFF))
    link.grant(2)
    flow = peer.read()[-1]
    assert isinstance(flow, Flow)
    assert flow.delivery_count == 0xFFFF_FFFF
    peer.transfer(0, 0, settled=True)
    assert (link.flow_state.delivery_count, link.credit) == (0, 1)


@spec("amqp:2.6.1")
def test_a_name_may_be_used_in_both_directions_at_once() -> None:
    peer = session_server()
    inward, outward = peer.attach_sender("cbs", 0), peer.attach_receiver("cbs", 1)
    assert inward.is_attached
    assert outward.is_attached


@spec("amqp:2.6.1")
def test_an_attach_of_ours_and_one_of_the_peer_under_one_name_are_one_link() -> None:
    peer, session = session_client()
    link = session.attach_sender("out", Target("q"))
    event = only(peer.send(Attach("out", 9, RECEIVER, source=Source(), target=Target("q"))), LinkAttached)
    assert event.link is link
    assert link.is_attached
    assert len(session.links) == 1


@spec("amqp:2.6.1")
def test_an_attach_that_answers_another_name_or_direction_is_a_link_of_the_peer() -> None:
    peer, session = session_client()
    link = session.attach_sender("out", Target("q"))
    peer.send(Attach("out", 0, SENDER), Attach("other", 1, RECEIVER))
    assert link.state is LinkState.ATTACH_SENT
    assert len(session.links) == 3


# --- handles ----------------------------------------------------------------------------------------------------


@spec("amqp:2.6.2", "amqp:2.8.17")
def test_a_handle_in_use_ends_the_session() -> None:
    peer = session_server()
    peer.attach_sender("first", 0)
    peer.send(asking_to_send("second", 0))
    peer.expect_end(HandleInUse)


@spec("amqp:2.7.2", "amqp:2.8.16")
def test_a_handle_above_handle_max_is_a_framing_error() -> None:
    peer = session_server(Settings("server", handle_max=3))
    peer.attach_sender("last", 3)
    peer.send(asking_to_send("beyond", 4))
    peer.expect_close(FramingError)


@spec("amqp:2.7.3")
def test_a_name_that_is_too_long_closes_the_connection() -> None:
    peer = session_server()
    peer.attach_sender("n" * MAX_NAME_CHARACTERS, 0)
    peer.send(asking_to_send("n" * (MAX_NAME_CHARACTERS + 1), 1))
    peer.expect_close(InvalidField)


@spec("amqp:2.7.2")
def test_a_peer_that_attaches_more_links_than_its_handle_max_lets_us_answer_is_told() -> None:
    peer = opened_server()
    peer.begin(handle_max=1)
    for handle in (7, 5):
        assert peer.attach_sender(f"link {handle}", handle).handle == {7: 0, 5: 1}[handle]
    peer.send(asking_to_send("one too many", 3))
    peer.expect_end(InvalidField)


@spec("amqp:2.7.2")
def test_no_link_can_be_attached_when_all_handles_are_in_use() -> None:
    peer = opened_client(Settings("client", handle_max=5))
    session = peer.connection.begin()
    peer.send(Begin(0, 0, OPEN_WINDOW, OPEN_WINDOW, handle_max=1))
    for name in ("one", "two"):
        session.attach_sender(name, Target("q"))
    with pytest.raises(StateError):
        session.attach_sender("three", Target("q"))
    assert len(session.links) == 2


@spec("amqp:2.6.2")
def test_a_handle_of_ours_is_free_again_once_the_peer_has_detached_too() -> None:
    peer, session = session_client()
    link = session.attach_sender("out", Target("q"))
    peer.send(Attach("out", 0, RECEIVER))
    link.detach()
    assert session.attach_sender("next", Target("q")).handle == 1
    peer.send(Detach(0, True))
    assert session.attach_sender("last", Target("q")).handle == 0


# --- refusing ---------------------------------------------------------------------------------------------------


@spec("amqp:2.6.3")
@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_a_refusal_is_an_attach_without_termini_and_a_detach_with_the_reason(role: bool) -> None:
    peer = session_server()
    link = peer.attach(Attach("link", 6, role, 0, 0, Source("nowhere"), Target("nowhere")))
    link.refuse(NotFound("there is no nowhere"))
    attach, detach = peer.read()
    assert isinstance(attach, Attach)
    assert (attach.source, attach.target, attach.handle) == (None, None, 6)
    assert isinstance(detach, Detach)
    assert detach.closed
    assert detach.error == AmqpError("amqp:not-found", "there is no nowhere")
    event = only(peer.send(Detach(6, True)), LinkDetached)
    assert event.link is link
    assert peer.connection.data_to_send() == b""
    assert link.session.links == {}


@spec("amqp:2.6.3")
def test_frames_for_a_refused_link_are_swallowed_until_the_peer_has_detached() -> None:
    peer = session_server()
    link = peer.attach(asking_to_send())
    link.refuse(NotFound("no"))
    peer.read()
    assert peer.send(Transfer(0, 0, b"t", 0), Flow(0, 1, 0, 1, 0, 0, 10, echo=True)) == []
    assert peer.connection.data_to_send() == b""
    only(peer.send(Detach(0, True)), LinkDetached)
    peer.transfer(0, 1)
    peer.expect_end(UnattachedHandle)


@spec("amqp:2.6.3", "amqp:2.6.4")
def test_a_peer_that_gives_up_before_an_answer_gets_an_attach_before_the_detach() -> None:
    """No detach is ever written for a handle that was not attached: clients drop the connection over it."""
    peer = session_server()
    link = peer.attach(asking_to_send())
    event = only(peer.send(Detach(0, True, AmqpError("amqp:internal-error"))), LinkDetached)
    assert event.link is link
    attach, detach = peer.read()
    assert isinstance(attach, Attach)
    assert (attach.source, attach.target) == (None, None)
    assert isinstance(detach, Detach)
    assert (detach.closed, detach.error) == (True, None)
    # The application learns of both at once, and may answer the attach before it gets to the detach.
    link.accept(link.attach_reply())
    assert isinstance(link, ReceiverLink)
    link.grant(10)
    link.refuse(NotFound("no"))
    link.detach()
    assert link.is_gone
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.6.4")
def test_we_may_give_up_before_an_answer_too() -> None:
    peer, session = session_client()
    link = session.attach_sender("out", Target("q"))
    link.detach()
    assert [type(performative) for performative in peer.read()] == [Attach, Detach]
    events = peer.send(Attach("out", 0, RECEIVER), Flow(0, 1, 0, 1, 0, 0, 5), Detach(0, True))
    assert [type(event) for event in events] == [LinkAttached, LinkDetached]
    assert session.links == {}
    assert peer.connection.data_to_send() == b""


# --- detaching and coming back ----------------------------------------------------------------------------------


@spec("amqp:2.6.4", "amqp:2.6.6")
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_detach_is_answered_with_one_that_closes(is_closed: bool) -> None:
    peer = session_server()
    link = peer.attach_sender()
    reason = AmqpError("amqp:link:detach-forced", "idle")
    event = only(peer.send(Detach(0, is_closed, reason)), LinkDetached)
    assert (event.link, event.is_closed, event.error) == (link, is_closed, reason)
    answer = peer.read_one(Detach)
    assert (answer.handle, answer.closed, answer.error) == (0, True, None)


@spec("amqp:2.6.5")
def test_a_transfer_without_delivery_id_detaches_its_link_only_and_the_link_can_come_back() -> None:
    peer = session_server()
    broken, whole = peer.attach_sender("broken", 0), peer.attach_sender("whole", 1)
    peer.transfer(0, None)
    peer.expect_detach(InvalidField, broken)
    # What was under way on the broken link is swallowed, the other one goes on.
    assert peer.transfer(0, 1) == []
    peer.transfer(1, 2, b"goes on")
    assert whole.session.incoming_unsettled[2].payload == b"goes on"
    only(peer.send(Detach(0, True)), LinkDetached)
    assert peer.connection.data_to_send() == b""
    back = peer.attach_sender("broken", 0)
    peer.transfer(0, 3, b"is back")
    assert back.session.incoming_unsettled[3].payload == b"is back"


@spec("amqp:2.6.5", "amqp:2.7.5")
@pytest.mark.parametrize("tag", [None, bytes(33)], ids=["none", "33 bytes"])
def test_a_transfer_with_a_bad_delivery_tag_detaches_its_link(tag: bytes | None) -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 0, tag=tag)
    peer.expect_detach(InvalidField, link)


@spec("amqp:2.6.5")
def test_a_transfer_on_a_link_on_which_we_send_detaches_it() -> None:
    peer = session_server()
    link = peer.attach_receiver()
    peer.transfer(0, 0)
    peer.expect_detach(NotAllowed, link)


@spec("amqp:2.6.5", "amqp:2.6.3")
def test_a_mistake_on_a_link_not_answered_yet_refuses_it() -> None:
    peer = session_server()
    link = peer.attach(asking_to_send())
    peer.transfer(0, None)
    only(peer.events[-1:], LinkFailed)
    attach, detach = peer.read()
    assert isinstance(attach, Attach)
    assert (attach.source, attach.target) == (None, None)
    assert isinstance(detach, Detach)
    assert detach.error is not None
    assert detach.error.condition == "amqp:invalid-field"
    assert link.state is LinkState.DETACH_SENT


@spec("amqp:2.6.4")
def test_what_was_settled_before_a_detach_is_written_before_it() -> None:
    peer = session_server()
    link = peer.attach_sender()
    peer.transfer(0, 0)
    link.settle(link.session.incoming_unsettled[0])
    link.detach()
    assert [type(performative) for performative in peer.read()] == [Disposition, Detach]


@spec("amqp:2.6.4")
def test_a_late_settlement_on_a_link_that_is_gone_does_nothing() -> None:
    peer = session_server()
    inward, outward = peer.attach_sender("in", 0), peer.attach_receiver("out", 1)
    peer.transfer(0, 0)
    received = inward.session.incoming_unsettled[0]
    sent = outward.send(b"m")
    peer.send(Detach(0, True), Detach(1, True))
    peer.read()
    inward.settle(received)
    outward.settle(sent, ACCEPTED)
    outward.drained()
    assert peer.connection.data_to_send() == b""
    assert inward.session.incoming_unsettled == {}
    assert inward.session.outgoing_unsettled == {}
    # Neither is a disposition that crossed the detach a mistake.
    assert peer.send(Disposition(RECEIVER, 0, 0, True, ACCEPTED), Disposition(SENDER, 0, 0, True, ACCEPTED)) == []


@spec("amqp:2.6.4")
def test_an_end_takes_the_links_with_it() -> None:
    peer = session_server()
    inward, outward = peer.attach_sender("in", 0), peer.attach_receiver("out", 1)
    peer.transfer(0, 0)
    peer.transfer(0, 1, b"first part", more=True)
    received = inward.session.incoming_unsettled[0]
    sent = outward.send(b"m")
    only(peer.send(End()), SessionEnded)
    assert isinstance(peer.read()[-1], End)
    assert inward.state is outward.state is LinkState.DETACHED
    assert peer.connection.incomplete_bytes == 0
    inward.settle(received)
    outward.settle(sent, ACCEPTED)
    with pytest.raises(StateError):
        outward.send(b"m")
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.5.6", "amqp:2.6.4")
def test_transfers_swallowed_behind_our_detach_open_the_window_again() -> None:
    peer = session_server(Settings("server", incoming_window=4))
    link = peer.attach_sender()
    link.detach()
    peer.read()
    for number in range(4):
        assert peer.transfer(0, number) == []
    assert peer.read_one(Flow).incoming_window == 4


# --- link stealing ----------------------------------------------------------------------------------------------


@spec("amqp:2.6.1", "amqp:2.8.18")
def test_an_attach_under_a_name_in_use_steals_the_link() -> None:
    peer = session_server()
    old = peer.attach_sender("in", 0)
    failed, attached = peer.send(asking_to_send("in", 1))
    assert isinstance(failed, LinkFailed)
    assert failed.link is old
    assert isinstance(failed.error, LinkStolen)
    assert isinstance(attached, LinkAttached)
    detach = peer.read_one(Detach)
    assert detach.handle == old.handle
    assert detach.error is not None
    assert detach.error.condition == "amqp:link:stolen"
    attached.link.accept()
    only(peer.send(Detach(0, True)), LinkDetached)
    peer.transfer(1, 0, b"to the new one")
    assert attached.link.session.incoming_unsettled[0].link is attached.link


@spec("amqp:2.6.1")
def test_a_link_that_was_not_answered_yet_can_be_stolen_too() -> None:
    peer = session_server()
    old = peer.attach(asking_to_send("in", 0))
    failed, attached = peer.send(asking_to_send("in", 1))
    assert isinstance(failed, LinkFailed)
    assert failed.link is old
    assert [type(performative) for performative in peer.read()] == [Attach, Detach]
    assert isinstance(attached, LinkAttached)
    attached.link.accept()
    assert not old.is_attached
    assert attached.link.is_attached


@spec("amqp:2.6.1")
def test_a_link_that_we_are_detaching_is_not_there_to_be_stolen() -> None:
    peer = session_server()
    old = peer.attach_sender("in", 0)
    old.detach()
    peer.read()
    event = only(peer.send(asking_to_send("in", 1)), LinkAttached)
    assert event.link is not old
    assert peer.connection.data_to_send() == b""


# --- credit -----------------------------------------------------------------------------------------------------


@spec("amqp:2.6.7")
def test_a_peer_may_grant_credit_right_behind_its_attach() -> None:
    peer = session_server()
    attach = Attach("out", 0, RECEIVER, 0, 0, Source("q"), Target())
    attached, credit = peer.send(attach, Flow(None, OPEN_WINDOW, 0, OPEN_WINDOW, 0, None, 7, echo=True))
    assert isinstance(attached, LinkAttached)
    assert isinstance(credit, CreditReceived)
    link = credit.link
    assert isinstance(link, SenderLink)
    assert link is attached.link
    assert link.credit == 7
    assert peer.read() == [], "no flow is written for a link that is not attached yet"
    link.accept()
    link.send(b"m")
    assert [type(performative) for performative in peer.read()] == [Attach, Flow, Transfer], (
        "the echo follows the attach"
    )


@spec("amqp:2.6.7")
def test_deliveries_beyond_the_credit_are_tolerated_up_to_the_limit_and_then_detach_the_link() -> None:
    peer = session_server(Settings("server", max_credit_overrun=3))
    link = peer.attach_sender(credit=2)
    for number in range(5):
        peer.transfer(0, number)
    assert len(link.unsettled) == 5
    assert link.credit == 0
    peer.transfer(0, 5)
    peer.expect_detach(TransferLimitExceeded, link)


@spec("amqp:2.6.7")
def test_a_grant_forgives_the_overrun() -> None:
    peer = session_server(Settings("server", max_credit_overrun=3))
    link = peer.attach_sender(credit=0)
    for number in range(12):
        if number % 3 == 0:
            link.grant(0)
        peer.transfer(0, number)
    assert len(link.unsettled) == 12


@spec("amqp:2.7.4")
def test_credit_that_is_no_uint_is_refused_and_changes_nothing() -> None:
    peer = session_server()
    link = peer.attach_sender(credit=5)
    for credit in (-1, 2**32):
        with pytest.raises(EncodeError):
            link.grant(credit)
    assert link.credit == 5
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.6.7", "amqp:2.7.4")
@pytest.mark.parametrize("is_sender", [True, False])
def test_a_link_flow_with_echo_is_answered_with_where_we_stand(is_sender: bool) -> None:
    peer = session_server()
    if is_sender:
        sender = peer.attach_receiver(credit=9)
        sender.send(b"m", is_settled=True)
        sender.available = 3
        peer.read()
        peer.flow(0, 9, echo=True)
        flow = peer.read_one(Flow)
        assert (flow.handle, flow.delivery_count, flow.link_credit, flow.available) == (0, 1, 8, 3)
    else:
        peer.attach_sender(credit=9)
        peer.transfer(0, 0, settled=True)
        peer.flow(0, None, delivery_count=1, echo=True)
        flow = peer.read_one(Flow)
        assert (flow.handle, flow.delivery_count, flow.link_credit, flow.available) == (0, 1, 8, 0)
    assert flow.echo is False


@spec("amqp:2.6.7")
def test_a_flow_of_a_sender_that_grants_itself_credit_is_ignored() -> None:
    """The official Python SDK's senders write one right behind their attach."""
    peer = session_server()
    link = peer.attach_sender(credit=2)
    assert peer.flow(0, 10_000) == []
    assert link.credit == 2


@spec("amqp:2.6.3")
def test_an_attach_that_nobody_asked_for_cannot_be_echoed() -> None:
    _, session = session_client()
    link = session.attach_sender("out", Target("q"))
    with pytest.raises(StateError, match="asked for no attach"):
        link.attach_reply()
