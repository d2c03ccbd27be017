"""Two of our own stacks do random things that the API allows, through a pipe that cuts at random, and stay in step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tandem.amqp.connection import Connection, Role
from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
from tandem.amqp.delivery_states import ACCEPTED, RELEASED, AmqpError, DeliveryState, Modified, Rejected
from tandem.amqp.events import (
    AuthenticationRequested,
    ConnectionFailed,
    CreditReceived,
    Event,
    LinkAttached,
    LinkFailed,
    SessionFailed,
)
from tandem.amqp.link import ReceiverLink, SenderLink
from tandem.amqp.session import Session
from tandem.amqp.settings import Settings
from tandem.amqp.states import LinkState
from tandem.amqp.terminus import Source, Target
from tandem.errors import DetachForced, ResourceLimitExceeded, Scope
from tests.markers import spec
from tests.spec.wire import WireReader

T = TypeVar("T")

MAX_LINKS: Final = 12
MAX_SESSIONS: Final = 4
MAX_CREDIT: Final = 6

STATES: Final[list[DeliveryState]] = [
    ACCEPTED,
    RELEASED,
    Rejected(AmqpError("amqp:not-allowed", "no")),
    Modified(True, False, None),
]

picks = st.integers(min_value=0, max_value=1_000)
sides = st.integers(min_value=0, max_value=1)
# For what would leave nothing to test if it happened as often as the rest.
lucks = st.integers(min_value=0, max_value=3)


def pick(items: Sequence[T], number: int) -> T | None:
    return items[number % len(items)] if items else None


class Side:
    """A stack whose application accepts every link and settles nothing by itself."""

    def __init__(self, role: Role) -> None:
        # Small frames and a small window: most messages need several transfers, and often have to wait.
        self.connection = Connection(role, Settings(role.value, max_frame_size=512, incoming_window=4))
        self.reader = WireReader()
        # On their way to the other side.
        self.wire = bytearray()
        self.sent: dict[str, list[bytes]] = {}
        self.received: dict[str, list[bytes]] = {}

    def take(self, data: bytes) -> None:
        events = self.connection.receive(data)
        while events:
            for event in events:
                self._on(event)
            events = self.connection.receive(b"")

    def _on(self, event: Event) -> None:
        assert not isinstance(event, ConnectionFailed | SessionFailed | LinkFailed), event
        if isinstance(event, AuthenticationRequested):
            self.connection.accept_authentication()
        elif isinstance(event, LinkAttached):
            if event.link.state is LinkState.ATTACH_RCVD:
                event.link.accept()
            if isinstance(event.link, ReceiverLink) and event.link.is_attached:
                event.link.grant(MAX_CREDIT)
        elif isinstance(event, IncomingDelivery):
            self.received.setdefault(event.link.name, []).append(event.payload)
        elif isinstance(event, CreditReceived) and event.link.is_draining:
            event.link.drained()

    def write(self) -> None:
        data = self.connection.data_to_send()
        self.reader.read(data)
        self.wire += data

    def sessions(self) -> list[Session]:
        return [session for session in self.connection.sessions.values() if session.is_mapped]

    def senders(self) -> list[SenderLink]:
        return [
            link
            for session in self.sessions()
            for link in session.links.values()
            if isinstance(link, SenderLink) and link.is_attached
        ]

    def receivers(self) -> list[ReceiverLink]:
        return [
            link
            for session in self.sessions()
            for link in session.links.values()
            if isinstance(link, ReceiverLink) and link.is_attached
        ]


class TwoStacks(RuleBasedStateMachine):
    """Every call is one that an honest application may make; so nothing may ever fail, on either side."""

    def __init__(self) -> None:
        super().__init__()
        self.sides = (Side(Role.CLIENT), Side(Role.SERVER))
        self.links_made = 0

    @initialize()
    def open(self) -> None:
        self.sides[0].connection.open()
        self.settle_down()
        assert all(side.connection.is_open for side in self.sides)
        session = self.sides[0].connection.begin()
        self.settle_down()
        session.attach_sender("up", Target("q"))
        session.attach_receiver("down", Source("q"))
        self.settle_down()

    # --- the pipe -------------------------------------------------------------------------------------------

    @rule(source=sides, length=st.integers(min_value=1, max_value=1_500))
    def carry(self, source: int, length: int) -> None:
        """Some of what one side wrote arrives."""
        side = self.sides[source]
        side.write()
        piece = bytes(side.wire[:length])
        del side.wire[:length]
        self.sides[1 - source].take(piece)

    @rule()
    def settle_down(self) -> None:
        """Everything arrives, and all answers to it; then the two must agree."""
        busy = True
        while busy:
            busy = False
            for number, side in enumerate(self.sides):
                side.write()
                if side.wire:
                    busy = True
                    data = bytes(side.wire)
                    side.wire.clear()
                    self.sides[1 - number].take(data)
        self.check_agreement()

    def check_agreement(self) -> None:
        client, server = (side.connection for side in self.sides)
        assert {session.channel: session.remote_channel for session in client.sessions.values()} == {
            session.remote_channel: session.channel for session in server.sessions.values()
        }
        for ours in client.sessions.values():
            theirs = server.sessions[ours.remote_channel]
            assert ours.is_mapped
            assert theirs.is_mapped
            self.check_session(ours, theirs, self.sides[0], self.sides[1])
            self.check_session(theirs, ours, self.sides[1], self.sides[0])

    def check_session(self, source: Session, sink: Session, sending: Side, receiving: Side) -> None:
        """One direction of one session at rest."""
        assert not source.outbox.pending, "something waits for a window that is open"
        assert source.outgoing_window.next_outgoing_id == sink.incoming_window.next_incoming_id
        assert set(source.outgoing_unsettled) == set(sink.incoming_unsettled)
        for link in source.links.values():
            if isinstance(link, SenderLink):
                other = sink.links_by_remote_handle[link.handle]
                assert isinstance(other, ReceiverLink)
                assert (other.name, link.is_attached, other.is_attached) == (link.name, True, True)
                assert other.unsettled == link.unsettled
                assert other.credit == link.credit
                assert other.flow_state.delivery_count == link.flow_state.delivery_count
                assert receiving.received.get(link.name, []) == sending.sent.get(link.name, [])

    @invariant()
    def what_arrived_is_what_was_sent_so_far(self) -> None:
        for number, side in enumerate(self.sides):
            for name, payloads in side.received.items():
                assert payloads == self.sides[1 - number].sent[name][: len(payloads)]

    @invariant()
    def no_credit_is_negative(self) -> None:
        for side in self.sides:
            assert all(sender.credit >= 0 for sender in side.senders())
            assert all(receiver.credit >= 0 for receiver in side.receivers())
            assert all(receiver.flow_state.overrun == 0 for receiver in side.receivers())
            assert all(session.outgoing_window.remote_window >= 0 for session in side.sessions())

    # --- the applications -----------------------------------------------------------------------------------

    @rule(number=sides)
    @precondition(lambda self: all(len(side.connection.sessions) < MAX_SESSIONS for side in self.sides))
    def begin(self, number: int) -> None:
        self.sides[number].connection.begin()

    @rule(number=sides, which=picks, error=st.booleans(), luck=lucks)
    def end(self, number: int, which: int, error: bool, luck: int) -> None:
        # Never the first one: what is done on no session tests nothing.
        session = pick([session for session in self.sides[number].sessions() if session.channel], which)
        if session is not None and luck == 0:
            session.end(ResourceLimitExceeded("enough", Scope.SESSION) if error else None)

    @rule(number=sides, which=picks, is_sender=st.booleans())
    def attach(self, number: int, which: int, is_sender: bool) -> None:
        session = pick(self.sides[number].sessions(), which)
        if session is None or len(session.links) >= MAX_LINKS:
            return
        self.links_made += 1
        name = f"link {self.links_made}"
        if is_sender:
            session.attach_sender(name, Target("q"))
        else:
            session.attach_receiver(name, Source("q"))

    @rule(number=sides, which=picks, is_sender=st.booleans(), error=st.booleans(), luck=lucks)
    def detach(self, number: int, which: int, is_sender: bool, error: bool, luck: int) -> None:
        side = self.sides[number]
        links = [*side.senders()] if is_sender else [*side.receivers()]
        link = pick(links, which)
        if link is not None and luck == 0:
            link.detach(DetachForced("idle") if error else None)

    @rule(which=picks, credit=st.integers(min_value=0, max_value=MAX_CREDIT), drain=st.booleans())
    def grant(self, which: int, credit: int, drain: bool) -> None:
        link = pick(self.sides[0].receivers() + self.sides[1].receivers(), which)
        # Never less than what is out: a smaller grant crosses deliveries, and drains, that it did not allow for.
        if link is not None and credit >= link.credit:
            link.grant(credit, drain=drain)

    @rule(
        which=picks,
        sizes=st.lists(st.integers(min_value=0, max_value=2_500), min_size=1, max_size=4),
        is_settled=st.booleans(),
    )
    def send(self, which: int, sizes: list[int], is_settled: bool) -> None:
        ready = [(side, link) for side in self.sides for link in side.senders() if link.credit]
        chosen = pick(ready, which)
        if chosen is None:
            return
        side, link = chosen
        for size in sizes[: link.credit]:
            sent = side.sent.setdefault(link.name, [])
            payload = bytes([len(sent) % 256]) * size
            sent.append(payload)
            link.send(payload, is_settled=is_settled)

    @rule(
        number=sides, count=st.integers(min_value=1, max_value=3), state=st.sampled_from(STATES), settled=st.booleans()
    )
    def settle_what_came(self, number: int, count: int, state: DeliveryState, settled: bool) -> None:
        held: list[IncomingDelivery] = [
            delivery for session in self.sides[number].sessions() for delivery in session.incoming_unsettled.values()
        ]
        for delivery in held[:count]:
            delivery.link.settle(delivery, state, is_settled=settled)

    @rule(number=sides, count=st.integers(min_value=1, max_value=3))
    def settle_what_was_sent(self, number: int, count: int) -> None:
        """Of what has an outcome: the receiver waits for it."""
        told: list[OutgoingDelivery] = [
            delivery
            for session in self.sides[number].sessions()
            for delivery in session.outgoing_unsettled.values()
            if delivery.state is not None
        ]
        for delivery in told[:count]:
            delivery.link.settle(delivery, delivery.state)

    def teardown(self) -> None:
        client, server = (side.connection for side in self.sides)
        if client.is_open and server.is_open:
            self.settle_down()
            client.close()
            self.settle_down_for_good()

    def settle_down_for_good(self) -> None:
        for number in (0, 1):
            self.sides[number].write()
            self.sides[1 - number].take(bytes(self.sides[number].wire))
        for side in self.sides:
            assert side.connection.is_finished
            assert side.reader.is_closed
            assert side.connection.incomplete_bytes == 0
            assert side.connection.undecided_bytes == 0


TwoStacks.TestCase.settings = settings(
    max_examples=80, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestTwoStacks = spec("amqp:2.5.6", "amqp:2.6.7", "amqp:2.6.12")(TwoStacks.TestCase)
