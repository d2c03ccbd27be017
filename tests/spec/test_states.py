"""The four state machines, swept: every state, every input, by their tables and by real objects fed with real bytes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import pytest

from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.encode import encode_described_list
from tandem.amqp.events import (
    AuthenticationFailed,
    AuthenticationRequested,
    AuthenticationSucceeded,
    ConnectionFailed,
    Event,
)
from tandem.amqp.link import Link, ReceiverLink, SenderLink
from tandem.amqp.performatives import RECEIVER, SENDER, Attach, Begin, Close, Detach, End, Flow, Open
from tandem.amqp.sasl import SASL_HEADER, SaslClient, SaslServer
from tandem.amqp.session import Session
from tandem.amqp.settings import Settings
from tandem.amqp.states import (
    CONNECTION_TABLE,
    LINK_TABLE,
    SASL_CLIENT_TABLE,
    SASL_SERVER_TABLE,
    SESSION_TABLE,
    ConnectionInput,
    ConnectionState,
    LinkInput,
    LinkState,
    SaslInput,
    SaslState,
    SessionInput,
    SessionState,
)
from tandem.amqp.terminus import Source, Target
from tandem.amqp.types import Array, Symbol, UByte
from tandem.errors import (
    ConnectionForced,
    DetachForced,
    FramingError,
    HandleInUse,
    NotAllowed,
    ProtocolError,
    ResourceLimitExceeded,
    Scope,
    StateError,
    UnattachedHandle,
)
from tests.markers import spec
from tests.spec.raw_peer import OPEN_WINDOW, RawPeer, only, opened_client, server, session_client, session_server
from tests.spec.wire import amqp_frame, raw_frame

State = TypeVar("State", bound=enum.Enum)
Input = TypeVar("Input", bound=enum.Enum)
Table = Mapping[tuple[State, Input], State]

C = ConnectionState
CI = ConnectionInput
S = SessionState
SI = SessionInput
L = LinkState
LI = LinkInput
A = SaslState
AI = SaslInput

FORCED: Final = ConnectionForced("shutting down")
FRAME: Final = amqp_frame(Begin(None, 0, 1, 1), channel=7)
OPEN: Final = amqp_frame(Open("raw"))
CLOSE: Final = amqp_frame(Close())


# --- the tables by themselves -----------------------------------------------------------------------------------


def reachable(table: Table[State, Input], start: State) -> set[State]:
    found = {start}
    while True:
        following = {after for (before, _), after in table.items() if before in found}
        if following <= found:
            return found
        found |= following


@spec("amqp:2.4.7", "amqp:2.5.5", "amqp:2.6.3", "amqp:5.3.2")
@pytest.mark.parametrize(
    "table, start, terminal",
    [
        (CONNECTION_TABLE, C.START, {C.END}),
        (SESSION_TABLE, S.UNMAPPED, {S.UNMAPPED}),
        (LINK_TABLE, L.DETACHED, {L.DETACHED}),
        (SASL_SERVER_TABLE, A.START, {A.SUCCEEDED, A.FAILED}),
        (SASL_CLIENT_TABLE, A.START, {A.SUCCEEDED, A.FAILED}),
    ],
    ids=["connection", "session", "link", "SASL server", "SASL client"],
)
def test_every_state_of_a_table_can_be_reached_and_leads_to_an_end(
    table: Table[enum.Enum, enum.Enum], start: enum.Enum, terminal: set[enum.Enum]
) -> None:
    states = reachable(table, start)
    assert states == {state for state, _ in table} | set(table.values())
    without_exit = {state for state in states if not any(before is state for before, _ in table)}
    assert without_exit <= terminal
    for state in states:
        assert reachable(table, state) & terminal, f"{state} leads nowhere"


@spec("amqp:2.4.7", "amqp:2.5.5", "amqp:2.6.3", "amqp:5.3.2")
def test_no_state_is_forgotten_in_the_tables() -> None:
    assert reachable(CONNECTION_TABLE, C.START) == set(ConnectionState)
    assert reachable(SESSION_TABLE, S.UNMAPPED) == set(SessionState)
    assert reachable(LINK_TABLE, L.DETACHED) == set(LinkState)
    assert reachable(SASL_SERVER_TABLE, A.START) | reachable(SASL_CLIENT_TABLE, A.START) == set(SaslState)


@spec("amqp:2.4.7")
@pytest.mark.parametrize("step", ConnectionInput)
@pytest.mark.parametrize("state", ConnectionState)
def test_a_connection_steps_as_its_table_says_and_not_otherwise(state: ConnectionState, step: ConnectionInput) -> None:
    connection = Connection(Role.SERVER, Settings("server"))
    connection.state = state
    following = CONNECTION_TABLE.get((state, step))
    if following is None:
        with pytest.raises(NotAllowed) as caught:
            connection._step(step)
        assert caught.value.scope is Scope.CONNECTION
        assert connection.state is state
    else:
        connection._step(step)
        assert connection.state is following


@spec("amqp:2.5.5")
@pytest.mark.parametrize("step", SessionInput)
@pytest.mark.parametrize("state", SessionState)
def test_a_session_steps_as_its_table_says_and_not_otherwise(state: SessionState, step: SessionInput) -> None:
    session = Session(Connection(Role.SERVER, Settings("server")), 0)
    session.state = state
    following = SESSION_TABLE.get((state, step))
    if following is None:
        with pytest.raises(NotAllowed) as caught:
            session.step(step)
        assert caught.value.scope is Scope.CONNECTION
        assert session.state is state
    else:
        session.step(step)
        assert session.state is following


@spec("amqp:2.6.3")
@pytest.mark.parametrize("step", LinkInput)
@pytest.mark.parametrize("state", LinkState)
def test_a_link_steps_as_its_table_says_and_not_otherwise(state: LinkState, step: LinkInput) -> None:
    link = SenderLink(Session(Connection(Role.SERVER, Settings("server")), 0), "link", 0)
    link.state = state
    following = LINK_TABLE.get((state, step))
    if following is None:
        with pytest.raises(NotAllowed) as caught:
            link.step(step)
        assert caught.value.scope is Scope.SESSION
        assert link.state is state
    else:
        link.step(step)
        assert link.state is following


@spec("amqp:5.3.2")
@pytest.mark.parametrize("step", SaslInput)
@pytest.mark.parametrize("state", SaslState)
def test_sasl_steps_as_its_tables_say_and_not_otherwise(state: SaslState, step: SaslInput) -> None:
    sides: list[tuple[SaslServer | SaslClient, Table[SaslState, SaslInput]]] = [
        (SaslServer(("ANONYMOUS",)), SASL_SERVER_TABLE),
        (SaslClient(Settings("client")), SASL_CLIENT_TABLE),
    ]
    for side, table in sides:
        side.state = state
        following = table.get((state, step))
        if following is None:
            with pytest.raises(NotAllowed):
                side._step(step)
            assert side.state is state
        else:
            side._step(step)
            assert side.state is following


# --- a connection of bytes and calls ----------------------------------------------------------------------------


class ConnectionStep:
    """Something done to a connection, and the inputs of the table that it amounts to."""

    def __init__(self, do: Callable[[RawPeer], object], *inputs: ConnectionInput) -> None:
        self.do = do
        self.inputs = inputs


HEADER_CAME: Final = ConnectionStep(lambda peer: peer.write(AMQP_HEADER), CI.RECEIVE_HEADER)
OPEN_CAME: Final = ConnectionStep(lambda peer: peer.write(OPEN), CI.RECEIVE_OPEN)
CLOSE_CAME: Final = ConnectionStep(lambda peer: peer.write(CLOSE), CI.RECEIVE_CLOSE)
FRAME_CAME: Final = ConnectionStep(lambda peer: peer.write(FRAME), CI.RECEIVE_FRAME)
CLOSED: Final = ConnectionStep(lambda peer: peer.connection.close(), CI.SEND_CLOSE)
CLOSED_WITH_ERROR: Final = ConnectionStep(lambda peer: peer.connection.close(FORCED), CI.SEND_CLOSE_ERROR)
OPENED: Final = ConnectionStep(lambda peer: peer.connection.open(sasl=False), CI.SEND_HEADER, CI.SEND_OPEN)
# A server answers by itself.
SERVER_HEADER_CAME: Final = ConnectionStep(HEADER_CAME.do, CI.RECEIVE_HEADER, CI.SEND_HEADER)
SERVER_OPEN_CAME: Final = ConnectionStep(OPEN_CAME.do, CI.RECEIVE_OPEN, CI.SEND_OPEN)
CLOSE_CAME_FIRST: Final = ConnectionStep(CLOSE_CAME.do, CI.RECEIVE_CLOSE, CI.SEND_CLOSE)
GARBAGE_CAME_EARLY: Final = ConnectionStep(lambda peer: peer.write(FRAME), CI.SEND_OPEN, CI.SEND_CLOSE_ERROR)

CONNECTION_PATHS: Final[list[tuple[Role, list[ConnectionStep]]]] = [
    (Role.SERVER, [SERVER_HEADER_CAME, SERVER_OPEN_CAME, FRAME_CAME, CLOSE_CAME_FIRST]),
    (Role.SERVER, [SERVER_HEADER_CAME, GARBAGE_CAME_EARLY]),
    (Role.CLIENT, [OPENED, HEADER_CAME, OPEN_CAME, CLOSED, FRAME_CAME, CLOSE_CAME]),
    (Role.CLIENT, [OPENED, CLOSED, HEADER_CAME, OPEN_CAME, CLOSE_CAME]),
    (Role.CLIENT, [OPENED, HEADER_CAME, CLOSED, OPEN_CAME, CLOSE_CAME]),
    (Role.CLIENT, [OPENED, HEADER_CAME, CLOSED_WITH_ERROR, OPEN_CAME, FRAME_CAME, CLOSE_CAME]),
    (Role.CLIENT, [OPENED, HEADER_CAME, OPEN_CAME, CLOSED_WITH_ERROR, FRAME_CAME, CLOSE_CAME]),
]

# Header and open are written in one go, so nothing can come between them.
NEVER_TAKEN: Final = {(C.HDR_SENT, CI.RECEIVE_HEADER)}


def walk_connection(role: Role, steps: list[ConnectionStep]) -> tuple[RawPeer, set[tuple[C, CI]]]:
    """Do the steps with a real connection, and hold its state against the table's after each."""
    peer = RawPeer(Connection(role, Settings("ours")))
    state = C.START
    taken = set()
    for step in steps:
        step.do(peer)
        for each in step.inputs:
            taken.add((state, each))
            state = CONNECTION_TABLE[state, each]
        assert peer.connection.state is state
        peer.read()
    return peer, taken


@spec("amqp:2.4.7")
def test_every_transition_of_a_connection_is_taken_by_real_bytes_and_calls() -> None:
    taken = set()
    for role, steps in CONNECTION_PATHS:
        taken |= walk_connection(role, steps)[1]
    assert taken == set(CONNECTION_TABLE) - NEVER_TAKEN


# States in which a connection can be found, and how to get there. The others last no longer than one call.
CONNECTION_STATES: Final[dict[str, tuple[Role, list[ConnectionStep], ConnectionState]]] = {
    "START of a client": (Role.CLIENT, [], C.START),
    "START of a server": (Role.SERVER, [], C.START),
    "HDR_EXCH": (Role.SERVER, [SERVER_HEADER_CAME], C.HDR_EXCH),
    "OPEN_PIPE": (Role.CLIENT, [OPENED], C.OPEN_PIPE),
    "OC_PIPE": (Role.CLIENT, [OPENED, CLOSED], C.OC_PIPE),
    "OPEN_SENT": (Role.CLIENT, [OPENED, HEADER_CAME], C.OPEN_SENT),
    "CLOSE_PIPE": (Role.CLIENT, [OPENED, HEADER_CAME, CLOSED], C.CLOSE_PIPE),
    "OPENED": (Role.SERVER, [SERVER_HEADER_CAME, SERVER_OPEN_CAME], C.OPENED),
    "CLOSE_SENT": (Role.SERVER, [SERVER_HEADER_CAME, SERVER_OPEN_CAME, CLOSED], C.CLOSE_SENT),
    "DISCARDING": (Role.SERVER, [SERVER_HEADER_CAME, SERVER_OPEN_CAME, CLOSED_WITH_ERROR], C.DISCARDING),
    "END": (Role.SERVER, [SERVER_HEADER_CAME, SERVER_OPEN_CAME, CLOSE_CAME_FIRST], C.END),
}
# What follows by itself when a state is entered on input.
ANSWERED_AT_ONCE: Final = {C.HDR_RCVD: C.HDR_EXCH, C.OPEN_RCVD: C.OPENED, C.CLOSE_RCVD: C.END}
AWAITING_HEADER: Final = {C.START, C.OPEN_PIPE, C.OC_PIPE}
# An open can be, or was, written, and no close: so a close can be.
CLOSABLE: Final = {C.HDR_EXCH, C.OPEN_SENT, C.OPENED}


def test_the_states_in_which_a_connection_rests_are_all_but_four() -> None:
    resting = {state for _, _, state in CONNECTION_STATES.values()}
    assert set(ConnectionState) - resting == {C.HDR_RCVD, C.HDR_SENT, C.OPEN_RCVD, C.CLOSE_RCVD}


@spec("amqp:2.4.3", "amqp:2.4.7")
@pytest.mark.parametrize(
    "deed", [HEADER_CAME, OPEN_CAME, CLOSE_CAME, FRAME_CAME], ids=["header", "open", "close", "begin"]
)
@pytest.mark.parametrize("name", CONNECTION_STATES)
def test_input_in_every_connection_state_is_taken_or_closes_the_connection(name: str, deed: ConnectionStep) -> None:
    role, steps, state = CONNECTION_STATES[name]
    peer, _ = walk_connection(role, steps)
    following = CONNECTION_TABLE.get((state, deed.inputs[0]))
    is_header = deed is HEADER_CAME
    is_client_without_header = role is Role.CLIENT and state is C.START and is_header
    if following is not None and not is_client_without_header:
        deed.do(peer)
        assert peer.connection.state is ANSWERED_AT_ONCE.get(following, following)
        assert not any(isinstance(event, ConnectionFailed) for event in peer.events)
        return
    peer.events.clear()
    deed.do(peer)
    if is_client_without_header:
        # The table lets a header come first; a client of ours that did not ask for it then has nothing to answer.
        assert peer.connection.state is C.HDR_RCVD
        return
    error: type[ProtocolError] = FramingError if is_header or state in AWAITING_HEADER else NotAllowed
    failed = only(peer.events, ConnectionFailed)
    assert type(failed.error) is error
    assert peer.connection.is_finished
    closes = [performative for performative in peer.read() if isinstance(performative, Close)]
    assert [close.error and close.error.condition for close in closes] == [error.condition] * (state in CLOSABLE)


@spec("amqp:2.4.3", "amqp:2.4.7")
@pytest.mark.parametrize("deed", [OPENED, CLOSED, CLOSED_WITH_ERROR], ids=["open", "close", "close with error"])
@pytest.mark.parametrize("name", CONNECTION_STATES)
def test_a_call_in_every_connection_state_is_done_or_refused_without_a_trace(name: str, deed: ConnectionStep) -> None:
    role, steps, state = CONNECTION_STATES[name]
    peer, _ = walk_connection(role, steps)
    following = CONNECTION_TABLE.get((state, deed.inputs[0]))
    if following is None or (deed is OPENED and role is Role.SERVER):
        with pytest.raises(StateError):
            deed.do(peer)
        assert peer.connection.state is state
        assert peer.connection.data_to_send() == b""
    else:
        deed.do(peer)
        assert peer.connection.state is (C.OPEN_PIPE if deed is OPENED else following)
        assert peer.read()


@spec("amqp:2.5.1")
@pytest.mark.parametrize("name", CONNECTION_STATES)
def test_a_session_can_be_begun_on_an_open_connection_only(name: str) -> None:
    role, steps, state = CONNECTION_STATES[name]
    peer, _ = walk_connection(role, steps)
    if state is C.OPENED:
        assert peer.connection.begin().state is S.BEGIN_SENT
    else:
        with pytest.raises(StateError):
            peer.connection.begin()
        assert peer.connection.data_to_send() == b""


# --- a session of bytes and calls -------------------------------------------------------------------------------


class SessionStep:
    def __init__(self, do: Callable[[RawPeer, Session], object], *inputs: SessionInput) -> None:
        self.do = do
        self.inputs = inputs


ENOUGH: Final = ResourceLimitExceeded("enough", Scope.SESSION)
SESSION_FLOW_CAME: Final = SessionStep(lambda peer, _: peer.flow(), SI.RECEIVE_FRAME)
END_CAME_FIRST: Final = SessionStep(lambda peer, _: peer.send(End()), SI.RECEIVE_END, SI.SEND_END)
END_CAME: Final = SessionStep(lambda peer, _: peer.send(End()), SI.RECEIVE_END)
ENDED: Final = SessionStep(lambda _, session: session.end(), SI.SEND_END)
ENDED_WITH_ERROR: Final = SessionStep(lambda _, session: session.end(ENOUGH), SI.SEND_END_ERROR)
BEGIN_ANSWERED: Final = SessionStep(lambda peer, _: peer.send(Begin(0, 0, OPEN_WINDOW, OPEN_WINDOW)), SI.RECEIVE_BEGIN)
BEGIN_CAME: Final = SessionStep(lambda peer, _: peer.send(Begin(None, 0, 1, 1)), SI.RECEIVE_BEGIN)


def session_begun_by_us() -> tuple[RawPeer, Session, list[SessionInput]]:
    peer = opened_client()
    session = peer.connection.begin()
    peer.read()
    return peer, session, [SI.SEND_BEGIN]


def session_begun_by_the_peer() -> tuple[RawPeer, Session, list[SessionInput]]:
    peer = session_server()
    return peer, peer.connection.sessions[0], [SI.RECEIVE_BEGIN, SI.SEND_BEGIN]


SessionStart = Callable[[], tuple[RawPeer, Session, list[SessionInput]]]

SESSION_PATHS: Final[list[tuple[SessionStart, list[SessionStep]]]] = [
    (session_begun_by_the_peer, [SESSION_FLOW_CAME, END_CAME_FIRST]),
    (session_begun_by_us, [BEGIN_ANSWERED, ENDED, SESSION_FLOW_CAME, END_CAME]),
    (session_begun_by_us, [BEGIN_ANSWERED, ENDED_WITH_ERROR, SESSION_FLOW_CAME, END_CAME]),
]


def walk_session(start: SessionStart, steps: list[SessionStep]) -> tuple[RawPeer, Session, set[tuple[S, SI]]]:
    peer, session, inputs = start()
    state = S.UNMAPPED
    taken = set()
    for step in [SessionStep(lambda _peer, _session: None, *inputs), *steps]:
        step.do(peer, session)
        for each in step.inputs:
            taken.add((state, each))
            state = SESSION_TABLE[state, each]
        assert session.state is state
        peer.read()
    return peer, session, taken


@spec("amqp:2.5.5")
def test_every_transition_of_a_session_is_taken_by_real_bytes_and_calls() -> None:
    taken = set()
    for start, steps in SESSION_PATHS:
        taken |= walk_session(start, steps)[2]
    assert taken == set(SESSION_TABLE)


SESSION_STATES: Final[dict[S, tuple[SessionStart, list[SessionStep]]]] = {
    S.BEGIN_SENT: (session_begun_by_us, []),
    S.MAPPED: (session_begun_by_us, [BEGIN_ANSWERED]),
    S.END_SENT: (session_begun_by_us, [BEGIN_ANSWERED, ENDED]),
    S.DISCARDING: (session_begun_by_us, [BEGIN_ANSWERED, ENDED_WITH_ERROR]),
    S.UNMAPPED: (session_begun_by_us, [BEGIN_ANSWERED, ENDED, END_CAME]),
}


@spec("amqp:2.5.1", "amqp:2.5.5")
@pytest.mark.parametrize("deed", [BEGIN_CAME, BEGIN_ANSWERED, END_CAME, SESSION_FLOW_CAME])
@pytest.mark.parametrize("state", SESSION_STATES)
def test_input_in_every_session_state_is_taken_or_closes_the_connection(state: S, deed: SessionStep) -> None:
    start, steps = SESSION_STATES[state]
    peer, session, _ = walk_session(start, steps)
    following = SESSION_TABLE.get((state, deed.inputs[0]))
    if state is S.UNMAPPED:
        # This session is over. Its channel swallows what is under way, and takes a new begin.
        following = S.UNMAPPED if deed is not BEGIN_ANSWERED else None
    elif deed is BEGIN_CAME:
        # Not an answer: a session of the peer's own, on a channel that is free or not.
        following = state if state is S.BEGIN_SENT else None
    deed.do(peer, session)
    if following is None:
        error = peer.events[-1]
        assert isinstance(error, ConnectionFailed)
        assert error.error.scope is Scope.CONNECTION
        peer.expect_close(type(error.error))
    else:
        assert session.state is (S.UNMAPPED if following is S.END_RCVD else following)
        assert peer.connection.is_open


@spec("amqp:2.5.2", "amqp:2.5.5")
@pytest.mark.parametrize("state", SESSION_STATES)
def test_a_call_in_every_session_state_is_done_or_refused_without_a_trace(state: S) -> None:
    calls: list[Callable[[Session], object]] = [
        lambda session: session.end(),
        lambda session: session.end(ENOUGH),
        lambda session: session.attach_sender("link", Target("q")),
        lambda session: session.attach_receiver("link", Source("q")),
    ]
    for call in calls:
        start, steps = SESSION_STATES[state]
        peer, session, _ = walk_session(start, steps)
        if state is S.MAPPED:
            call(session)
            assert len(peer.read()) == 1
        else:
            with pytest.raises(StateError):
                call(session)
            assert session.state is state
            assert not session.links
            assert peer.connection.data_to_send() == b""


# --- a link of bytes and calls ----------------------------------------------------------------------------------


class LinkStep:
    def __init__(self, do: Callable[[RawPeer, Link], object], *inputs: LinkInput) -> None:
        self.do = do
        self.inputs = inputs


IDLE: Final = DetachForced("idle for too long")
ATTACH: Final = Attach("link", 0, RECEIVER, 0, 0, Source("q"), Target())
ATTACH_CAME: Final = LinkStep(lambda peer, _: peer.send(ATTACH), LI.RECEIVE_ATTACH)
FLOW_CAME: Final = LinkStep(lambda peer, _: peer.flow(0, 5), LI.RECEIVE_FRAME)
DETACH_CAME: Final = LinkStep(lambda peer, _: peer.send(Detach(0, True)), LI.RECEIVE_DETACH)
DETACH_CAME_FIRST: Final = LinkStep(DETACH_CAME.do, LI.RECEIVE_DETACH, LI.SEND_DETACH)
ACCEPTED: Final = LinkStep(lambda _, link: link.accept(), LI.SEND_ATTACH)
DETACHED: Final = LinkStep(lambda _, link: link.detach(), LI.SEND_DETACH)
DETACHED_WITH_ERROR: Final = LinkStep(lambda _, link: link.detach(IDLE), LI.SEND_DETACH)


def link_attached_by_us() -> tuple[RawPeer, Link, list[LinkInput]]:
    peer, session = session_client()
    link = session.attach_sender("link", Target("q"))
    peer.read()
    return peer, link, [LI.SEND_ATTACH]


def link_attached_by_the_peer() -> tuple[RawPeer, Link, list[LinkInput]]:
    peer = session_server()
    return peer, peer.attach(ATTACH), [LI.RECEIVE_ATTACH]


LinkStart = Callable[[], tuple[RawPeer, Link, list[LinkInput]]]

LINK_PATHS: Final[list[tuple[LinkStart, list[LinkStep]]]] = [
    (link_attached_by_us, [ATTACH_CAME, FLOW_CAME, DETACHED, FLOW_CAME, DETACH_CAME]),
    (link_attached_by_us, [DETACHED_WITH_ERROR, ATTACH_CAME, DETACH_CAME]),
    (link_attached_by_the_peer, [FLOW_CAME, ACCEPTED, FLOW_CAME, DETACH_CAME_FIRST]),
]


def walk_link(start: LinkStart, steps: list[LinkStep]) -> tuple[RawPeer, Link, set[tuple[L, LI]]]:
    peer, link, inputs = start()
    state = L.DETACHED
    taken = set()
    for step in [LinkStep(lambda _peer, _link: None, *inputs), *steps]:
        step.do(peer, link)
        for each in step.inputs:
            taken.add((state, each))
            state = LINK_TABLE[state, each]
        assert link.state is state
        peer.read()
    return peer, link, taken


@spec("amqp:2.6.3", "amqp:2.6.4")
def test_every_transition_of_a_link_is_taken_by_real_bytes_and_calls() -> None:
    taken = set()
    for start, steps in LINK_PATHS:
        taken |= walk_link(start, steps)[2]
    assert taken == set(LINK_TABLE)


LINK_STATES: Final[dict[L, tuple[LinkStart, list[LinkStep]]]] = {
    L.ATTACH_SENT: (link_attached_by_us, []),
    L.ATTACH_RCVD: (link_attached_by_the_peer, []),
    L.ATTACHED: (link_attached_by_us, [ATTACH_CAME]),
    L.DETACH_SENT: (link_attached_by_us, [ATTACH_CAME, DETACHED]),
    L.DETACHED: (link_attached_by_us, [ATTACH_CAME, DETACHED, DETACH_CAME]),
}

# What is not in the table, by the error that ends the session. In DETACH_SENT an attach is taken where it is still
# owed, which is another path; here it came before.
LINK_ERRORS: Final[dict[tuple[L, LI], type[ProtocolError]]] = {
    (L.ATTACH_SENT, LI.RECEIVE_FRAME): UnattachedHandle,
    (L.ATTACH_SENT, LI.RECEIVE_DETACH): UnattachedHandle,
    (L.ATTACH_RCVD, LI.RECEIVE_ATTACH): HandleInUse,
    (L.ATTACHED, LI.RECEIVE_ATTACH): HandleInUse,
    (L.DETACH_SENT, LI.RECEIVE_ATTACH): HandleInUse,
    (L.DETACHED, LI.RECEIVE_FRAME): UnattachedHandle,
    (L.DETACHED, LI.RECEIVE_DETACH): UnattachedHandle,
}
# An attach that finds nothing is a new link; a detach without an answer to the attach is answered with both.
LINK_SUCCESSES: Final = {
    (L.DETACHED, LI.RECEIVE_ATTACH): L.DETACHED,
    (L.ATTACH_RCVD, LI.RECEIVE_DETACH): L.DETACHED,
    (L.ATTACHED, LI.RECEIVE_DETACH): L.DETACHED,
}


@spec("amqp:2.6.2", "amqp:2.6.3", "amqp:2.6.4", "amqp:2.8.17")
@pytest.mark.parametrize("deed", [ATTACH_CAME, FLOW_CAME, DETACH_CAME], ids=["attach", "flow", "detach"])
@pytest.mark.parametrize("state", LINK_STATES)
def test_input_in_every_link_state_is_taken_or_ends_the_session(state: L, deed: LinkStep) -> None:
    start, steps = LINK_STATES[state]
    peer, link, _ = walk_link(start, steps)
    deed.do(peer, link)
    case = (state, deed.inputs[0])
    error = LINK_ERRORS.get(case)
    if error is None:
        assert link.state is (LINK_SUCCESSES.get(case) or LINK_TABLE[case])
        assert link.session.is_mapped
    else:
        peer.expect_end(error)
        assert link.state is L.DETACHED


@spec("amqp:2.6.3", "amqp:2.6.4", "amqp:2.6.7")
@pytest.mark.parametrize("state", LINK_STATES)
def test_a_call_in_every_link_state_is_done_ignored_or_refused_without_a_trace(state: L) -> None:
    reply = Attach("link", 0, SENDER, 0, 0, Source("q"), Target(), initial_delivery_count=0)
    gone = {L.DETACHED, L.DETACH_SENT}
    calls: list[tuple[Callable[[SenderLink], object], set[L], set[L]]] = [
        (lambda link: link.accept(), {L.ATTACH_RCVD}, gone),
        (lambda link: link.accept(reply), {L.ATTACH_RCVD}, gone),
        (lambda link: link.refuse(IDLE), {L.ATTACH_RCVD}, gone),
        (lambda link: link.detach(), {L.ATTACHED, L.ATTACH_SENT, L.ATTACH_RCVD}, gone),
        (lambda link: link.detach(IDLE), {L.ATTACHED, L.ATTACH_SENT, L.ATTACH_RCVD}, gone),
        (lambda link: link.write_flow(), {L.ATTACHED}, set()),
        (lambda link: link.send(b"m", is_settled=True), {L.ATTACHED}, set()),
    ]
    for call, allowed, ignored in calls:
        start, steps = LINK_STATES[state]
        peer, link, _ = walk_link(start, steps)
        assert isinstance(link, SenderLink)
        link.flow_state.credit = 1
        if state in allowed:
            call(link)
            assert peer.read()
            continue
        if state in ignored:
            call(link)
        else:
            with pytest.raises(StateError):
                call(link)
        assert link.state is state
        assert peer.connection.data_to_send() == b""


@spec("amqp:2.6.7")
@pytest.mark.parametrize("state", [L.ATTACH_SENT, L.ATTACHED])
def test_credit_can_be_granted_on_an_attached_link_only(state: L) -> None:
    peer, session = session_client()
    link = session.attach_receiver("link", Source("q"))
    if state is L.ATTACHED:
        peer.send(Attach("link", 0, SENDER, 0, 0, Source("q"), Target(), initial_delivery_count=0))
        peer.read()
        link.grant(5)
        assert peer.read_one(Flow).link_credit == 5
        link.write_flow()
        assert peer.read_one(Flow).link_credit == 5
    else:
        peer.read()
        with pytest.raises(StateError):
            link.grant(5)
        with pytest.raises(StateError):
            link.write_flow()
        assert peer.connection.data_to_send() == b""


def test_a_link_without_a_direction_does_nothing() -> None:
    link = Link(Session(Connection(Role.SERVER, Settings("server")), 0), "link", 0, SENDER)
    link.on_accept(ATTACH)
    link.forget_deliveries()
    with pytest.raises(NotImplementedError):
        link.on_flow(Flow(0, 0, 0, 0), [])
    with pytest.raises(NotImplementedError):
        link.write_flow()
    assert repr(link) == "Link('link', handle=0, DETACHED)"
    assert repr(link.session) == "Session(channel=0, UNMAPPED)"


# --- SASL of bytes and calls ------------------------------------------------------------------------------------


def sasl_frame(code: int, *fields: object) -> bytes:
    return raw_frame(encode_described_list(code, list(fields)), kind=1)


MECHANISMS: Final = sasl_frame(0x40, Array.of_symbols(["ANONYMOUS"]))
FOREIGN_MECHANISMS: Final = sasl_frame(0x40, Array.of_symbols(["GSSAPI"]))
INIT: Final = sasl_frame(0x41, Symbol("ANONYMOUS"), b"", None)
CHALLENGE: Final = sasl_frame(0x42, b"who are you?")
RESPONSE: Final = sasl_frame(0x43, b"me")
OUTCOME_OK: Final = sasl_frame(0x44, UByte(0), b"Welcome!")
OUTCOME_AUTH: Final = sasl_frame(0x44, UByte(1), None)


class SaslStep:
    def __init__(self, do: Callable[[RawPeer], object], *inputs: SaslInput) -> None:
        self.do = do
        self.inputs = inputs


SASL_OPENED: Final = SaslStep(lambda peer: peer.connection.open(), AI.SEND_HEADER)
SASL_HEADER_CAME: Final = SaslStep(lambda peer: peer.write(SASL_HEADER), AI.RECEIVE_HEADER)
INIT_CAME: Final = SaslStep(lambda peer: peer.write(INIT), AI.RECEIVE_INIT)
MECHANISMS_CAME: Final = SaslStep(lambda peer: peer.write(MECHANISMS), AI.RECEIVE_MECHANISMS)
FOREIGN_MECHANISMS_CAME: Final = SaslStep(lambda peer: peer.write(FOREIGN_MECHANISMS), AI.FAIL)
OUTCOME_OK_CAME: Final = SaslStep(lambda peer: peer.write(OUTCOME_OK), AI.SUCCEED)
OUTCOME_AUTH_CAME: Final = SaslStep(lambda peer: peer.write(OUTCOME_AUTH), AI.FAIL)
SASL_ACCEPTED: Final = SaslStep(lambda peer: peer.connection.accept_authentication(), AI.SUCCEED)
SASL_REJECTED: Final = SaslStep(lambda peer: peer.connection.reject_authentication(), AI.FAIL)

SASL_SERVER_PATHS: Final = [
    [SASL_HEADER_CAME, INIT_CAME, SASL_ACCEPTED],
    [SASL_HEADER_CAME, INIT_CAME, SASL_REJECTED],
]
SASL_CLIENT_PATHS: Final = [
    [SASL_OPENED, SASL_HEADER_CAME, MECHANISMS_CAME, OUTCOME_OK_CAME],
    [SASL_OPENED, SASL_HEADER_CAME, MECHANISMS_CAME, OUTCOME_AUTH_CAME],
    [SASL_OPENED, SASL_HEADER_CAME, FOREIGN_MECHANISMS_CAME],
]


def sasl_state(connection: Connection) -> SaslState:
    if connection.sasl_server is not None:
        return connection.sasl_server.state
    return SaslState.START if connection.sasl_client is None else connection.sasl_client.state


def walk_sasl(role: Role, steps: list[SaslStep]) -> tuple[RawPeer, set[tuple[A, AI]]]:
    table = SASL_SERVER_TABLE if role is Role.SERVER else SASL_CLIENT_TABLE
    peer = RawPeer(Connection(role, Settings("ours")))
    state = A.START
    taken = set()
    for step in steps:
        step.do(peer)
        for each in step.inputs:
            taken.add((state, each))
            state = table[state, each]
        assert sasl_state(peer.connection) is state
        assert peer.connection.is_finished is (state is A.FAILED)
        peer.read_frames()
    return peer, taken


@spec("amqp:5.3.2")
@pytest.mark.parametrize(
    "role, paths, table",
    [
        (Role.SERVER, SASL_SERVER_PATHS, SASL_SERVER_TABLE),
        (Role.CLIENT, SASL_CLIENT_PATHS, SASL_CLIENT_TABLE),
    ],
    ids=["server", "client"],
)
def test_every_transition_of_sasl_is_taken_by_real_bytes_and_calls(
    role: Role, paths: list[list[SaslStep]], table: Table[SaslState, SaslInput]
) -> None:
    taken = set()
    for steps in paths:
        taken |= walk_sasl(role, steps)[1]
    assert taken == set(table)


SASL_INPUTS: Final = {
    "SASL header": SASL_HEADER,
    "mechanisms": MECHANISMS,
    "init": INIT,
    "challenge": CHALLENGE,
    "response": RESPONSE,
    "outcome ok": OUTCOME_OK,
    "outcome auth": OUTCOME_AUTH,
    "open": OPEN,
    "heartbeat": raw_frame(b""),
}
# What each state takes, and what it tells the application; everything else ends the connection.
SASL_TAKEN: Final[dict[tuple[Role, A], dict[str, type[Event] | None]]] = {
    (Role.SERVER, A.START): {"SASL header": None},
    (Role.SERVER, A.AWAITING_INIT): {"init": AuthenticationRequested},
    (Role.CLIENT, A.HEADER_SENT): {"SASL header": None},
    # A server may refuse before it has offered anything.
    (Role.CLIENT, A.AWAITING_MECHANISMS): {
        "mechanisms": None,
        "outcome auth": AuthenticationFailed,
    },
    (Role.CLIENT, A.AWAITING_OUTCOME): {
        "outcome ok": AuthenticationSucceeded,
        "outcome auth": AuthenticationFailed,
    },
    (Role.CLIENT, A.SUCCEEDED): {},
    (Role.SERVER, A.SUCCEEDED): {},
}
SASL_STATES: Final[dict[tuple[Role, A], list[SaslStep]]] = {
    (Role.SERVER, A.START): [],
    (Role.SERVER, A.AWAITING_INIT): SASL_SERVER_PATHS[0][:1],
    (Role.SERVER, A.SUCCEEDED): SASL_SERVER_PATHS[0],
    (Role.CLIENT, A.HEADER_SENT): SASL_CLIENT_PATHS[0][:1],
    (Role.CLIENT, A.AWAITING_MECHANISMS): SASL_CLIENT_PATHS[0][:2],
    (Role.CLIENT, A.AWAITING_OUTCOME): SASL_CLIENT_PATHS[0][:3],
    (Role.CLIENT, A.SUCCEEDED): SASL_CLIENT_PATHS[0],
}


@spec("amqp:5.3.2", "amqp:5.3.3")
@pytest.mark.parametrize("name", SASL_INPUTS)
@pytest.mark.parametrize("role, state", SASL_STATES)
def test_input_in_every_sasl_state_is_taken_or_ends_the_connection(role: Role, state: SaslState, name: str) -> None:
    peer, _ = walk_sasl(role, SASL_STATES[role, state])
    events = peer.write(SASL_INPUTS[name])
    taken = SASL_TAKEN[role, state]
    if name in taken:
        assert [type(event) for event in events] == [kind for kind in [taken[name]] if kind is not None]
    else:
        failed = only(events, ConnectionFailed)
        assert isinstance(failed.error, NotAllowed | FramingError)
        assert peer.connection.is_finished


@spec("amqp:5.3.2")
def test_a_server_reads_nothing_more_until_the_application_has_decided() -> None:
    for name, data in SASL_INPUTS.items():
        peer, _ = walk_sasl(Role.SERVER, SASL_SERVER_PATHS[0][:2])
        assert peer.write(data) == [], name
        assert sasl_state(peer.connection) is A.AWAITING_DECISION
        assert peer.connection.data_to_send() == b""


@spec("amqp:5.3.2")
@pytest.mark.parametrize("steps", [[], SASL_SERVER_PATHS[0][:1], SASL_SERVER_PATHS[0], SASL_SERVER_PATHS[1]])
def test_an_authentication_can_be_decided_only_once_and_when_it_is_asked_for(steps: list[SaslStep]) -> None:
    peer, _ = walk_sasl(Role.SERVER, steps)
    for decide in (peer.connection.accept_authentication, peer.connection.reject_authentication):
        with pytest.raises(StateError):
            decide()
    assert peer.connection.data_to_send() == b""


@spec("amqp:5.3.2")
def test_a_client_opens_only_once() -> None:
    peer = RawPeer(Connection(Role.CLIENT, Settings("client")))
    peer.connection.open()
    peer.read_frames()
    for sasl in (True, False):
        with pytest.raises(StateError):
            peer.connection.open(sasl=sasl)
    assert peer.connection.data_to_send() == b""


@spec("amqp:2.4.1")
def test_a_server_does_not_open() -> None:
    with pytest.raises(StateError):
        server().connection.open()


def test_a_receiver_link_shows_what_it_is() -> None:
    peer = session_server()
    link = peer.attach_sender("in", 3)
    assert isinstance(link, ReceiverLink)
    assert repr(link) == "ReceiverLink('in', handle=3, ATTACHED)"
