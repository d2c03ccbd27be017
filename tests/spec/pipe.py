"""Two of our own stacks that talk through a pipe in memory, an application on each side, and what they talk about.

The pipe may cut the byte stream of either direction anywhere. An application here hears of everything that came in one
turn at once, after its last byte: what it does then is the same however the bytes were cut, so that a whole
conversation can be compared with itself, event by event and byte by byte.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from tandem.amqp.connection import Connection, Role
from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.delivery_states import (
    ACCEPTED,
    RELEASED,
    AmqpError,
    Declared,
    DeliveryState,
    Modified,
    Rejected,
    TransactionalState,
)
from tandem.amqp.events import (
    AuthenticationFailed,
    AuthenticationRequested,
    AuthenticationSucceeded,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    CreditDrained,
    CreditReceived,
    DeliveryAborted,
    DeliveryRefused,
    DispositionReceived,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SessionBegun,
    SessionEnded,
    SessionFailed,
    SettlementReceived,
)
from tandem.amqp.link import ReceiverLink, SenderLink
from tandem.amqp.performatives import Flow
from tandem.amqp.session import Session
from tandem.amqp.settings import Settings
from tandem.amqp.states import LinkState
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.transactions import Declare, Discharge, decode_transaction_request
from tandem.amqp.types import Symbol
from tandem.errors import ConnectionForced, DetachForced, NotFound, ResourceLimitExceeded, Scope
from tests.spec.wire import WireReader, amqp_frame

TO_SERVER: Final = "client to server"
TO_CLIENT: Final = "server to client"
DIRECTIONS: Final = (TO_SERVER, TO_CLIENT)

PASSWORD: Final = "sesame"
SECOND: Final = 1
TXN_ID: Final = b"txn-1"


class Cut(Protocol):
    """Where the bytes of a direction come apart."""

    def pieces(self, direction: str, start: int, data: bytes) -> Iterator[bytes]:
        """`data` in pieces; it starts at offset `start` of its direction."""


class NoCut:
    """As it was written."""

    def pieces(self, direction: str, start: int, data: bytes) -> Iterator[bytes]:
        yield data


class CutAt:
    """Once, at one offset of one direction."""

    def __init__(self, direction: str, offset: int) -> None:
        self.direction = direction
        self.offset = offset

    def pieces(self, direction: str, start: int, data: bytes) -> Iterator[bytes]:
        within = self.offset - start
        if direction == self.direction and 0 < within < len(data):
            yield data[:within]
            yield data[within:]
        else:
            yield data


class CutInto:
    """Into pieces of the given lengths, over and over."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths
        self.cuts = 0

    def pieces(self, direction: str, start: int, data: bytes) -> Iterator[bytes]:
        offset = 0
        while offset < len(data):
            length = self.lengths[self.cuts % len(self.lengths)]
            self.cuts += 1
            yield data[offset : offset + length]
            offset += length


class Side:
    """A stack and its application. What that does with a message stands in the message."""

    def __init__(self, role: Role, settings: Settings) -> None:
        self.connection = Connection(role, settings)
        self.transcript: list[str] = []
        self.credit = 10
        self.held: list[IncomingDelivery] = []
        self.senders: dict[str, SenderLink] = {}
        self.receivers: dict[str, ReceiverLink] = {}

    def take(self, pieces: Iterator[bytes]) -> None:
        """One turn: hear everything, then act on it."""
        events: list[Event] = []
        for piece in pieces:
            events += self.connection.receive(piece)
        while events:
            self.transcript += [describe(event) for event in events]
            for event in events:
                self._on(event)
            # Deciding an authentication lets what was kept back go on.
            events = self.connection.receive(b"")

    def inject_flow(self, flow: Flow, channel: int = 0) -> None:
        """A flow that the API would not write: with echo."""
        self.connection.output.append(amqp_frame(flow, channel))

    def _on(self, event: Event) -> None:
        if isinstance(event, AuthenticationRequested):
            if event.password is None or event.password == PASSWORD:
                self.connection.accept_authentication()
            else:
                self.connection.reject_authentication()
        elif isinstance(event, LinkAttached):
            self._on_attach(event)
        elif isinstance(event, IncomingDelivery):
            self._on_delivery(event)
        elif isinstance(event, DispositionReceived) and not event.is_settled:
            for delivery in event.deliveries:
                event.link.settle(delivery, event.state)
        elif isinstance(event, CreditReceived) and event.link.is_draining:
            event.link.drained()

    def _on_attach(self, event: LinkAttached) -> None:
        link = event.link
        if isinstance(link, SenderLink):
            self.senders[link.name] = link
        else:
            assert isinstance(link, ReceiverLink)
            self.receivers[link.name] = link
        if link.state is LinkState.ATTACH_RCVD:
            if link.name.startswith("unknown"):
                link.refuse(NotFound(f"there is no {link.name}"))
            elif not link.name.startswith("unanswered"):
                link.accept()
        if isinstance(link, ReceiverLink) and link.is_attached:
            link.grant(self.credit)

    def _on_delivery(self, delivery: IncomingDelivery) -> None:
        link = delivery.link
        attach = link.attach
        assert attach is not None
        if isinstance(attach.target, Coordinator):
            request = decode_transaction_request(delivery.payload)
            link.settle(delivery, Declared(TXN_ID) if isinstance(request, Declare) else ACCEPTED)
        elif isinstance(delivery.state, TransactionalState):
            link.settle(delivery, TransactionalState(delivery.state.txn_id, ACCEPTED))
        elif delivery.payload.startswith(b"hold"):
            self.held.append(delivery)
        else:
            link.settle(delivery, outcome(delivery.payload), is_settled=attach.rcv_settle_mode != SECOND)


def outcome(payload: bytes) -> DeliveryState:
    """What the payload asks its receiver to say."""
    if payload.startswith(b"reject"):
        return Rejected(AmqpError("amqp:not-allowed", "as it was asked for", {Symbol("why"): "test"}))
    if payload.startswith(b"release"):
        return RELEASED
    if payload.startswith(b"modify"):
        return Modified(True, False, {Symbol("x-opt-tries"): 2})
    return ACCEPTED


class Pipe:
    """A client and a server."""

    def __init__(
        self,
        client: Settings | None = None,
        server: Settings | None = None,
        *,
        cut: Cut | None = None,
        is_audited: bool = True,
    ) -> None:
        self.client = Side(Role.CLIENT, client or Settings("client", max_frame_size=512))
        self.server = Side(Role.SERVER, server or Settings("server", max_frame_size=512))
        self.cut: Cut = cut or NoCut()
        self.written = {TO_SERVER: bytearray(), TO_CLIENT: bytearray()}
        self._readers = {TO_SERVER: WireReader(), TO_CLIENT: WireReader()} if is_audited else {}

    def pump(self) -> None:
        """Turn by turn, until neither side has anything to say."""
        while self._carry(TO_SERVER, self.client, self.server) or self._carry(TO_CLIENT, self.server, self.client):
            pass

    def _carry(self, direction: str, source: Side, sink: Side) -> bool:
        data = source.connection.data_to_send()
        if not data:
            return False
        if self._readers:
            self._readers[direction].read(data)
        start = len(self.written[direction])
        self.written[direction] += data
        sink.take(self.cut.pieces(direction, start, data))
        return True

    def connect(self) -> Session:
        """Up to a session, begun by the client."""
        self.client.connection.open()
        self.pump()
        session = self.client.connection.begin()
        self.pump()
        return session

    def close(self) -> None:
        self.client.connection.close()
        self.pump()
        assert self.client.connection.is_finished
        assert self.server.connection.is_finished


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """All that can be seen of a conversation from outside."""

    client_transcript: list[str]
    server_transcript: list[str]
    to_server: bytes
    to_client: bytes

    def written(self, direction: str) -> bytes:
        return self.to_server if direction == TO_SERVER else self.to_client


@dataclasses.dataclass(frozen=True, slots=True)
class Conversation:
    """A script of what the two applications do by themselves; the rest is their answers."""

    script: Callable[[Pipe], None]
    # False where the script opens the connection itself.
    is_begun: bool = True
    client: Settings | None = None

    def run(self, cut: Cut | None = None, *, is_audited: bool = False) -> Record:
        """From the first byte of the script on: a session that it starts with is set up without a cut."""
        pipe = Pipe(self.client, is_audited=is_audited)
        if self.is_begun:
            pipe.connect()
            for written in pipe.written.values():
                written.clear()
        pipe.cut = cut or NoCut()
        self.script(pipe)
        return Record(
            pipe.client.transcript,
            pipe.server.transcript,
            bytes(pipe.written[TO_SERVER]),
            bytes(pipe.written[TO_CLIENT]),
        )


# --- what is said -----------------------------------------------------------------------------------------------


def open_and_close(pipe: Pipe) -> None:
    pipe.connect()
    pipe.close()


def be_turned_away(pipe: Pipe) -> None:
    pipe.client.connection.open()
    pipe.pump()
    assert pipe.client.connection.is_finished
    assert pipe.server.connection.is_finished


def begin_and_end_sessions(pipe: Pipe) -> None:
    """Several at a time, begun and ended by either side, one of them for a reason."""
    second = pipe.client.connection.begin()
    third = pipe.client.connection.begin()
    pipe.pump()
    fourth = pipe.server.connection.begin()
    pipe.pump()
    second.end()
    fourth.end(ResourceLimitExceeded("enough", Scope.SESSION))
    pipe.pump()
    third.end()
    pipe.client.connection.begin()
    pipe.pump()
    pipe.close()


def _sender(pipe: Pipe, name: str = "to-server") -> SenderLink:
    link = pipe.client.connection.sessions[0].attach_sender(name, Target("queue"), Source("here"))
    pipe.pump()
    return link


def _receiver(pipe: Pipe, name: str = "to-client", *, rcv_settle_mode: int | None = None) -> SenderLink:
    """The server's end of a link on which it sends to the client."""
    pipe.client.connection.sessions[0].attach_receiver(name, Source("queue"), rcv_settle_mode=rcv_settle_mode)
    pipe.pump()
    return pipe.server.senders[name]


def settle_in_every_way(pipe: Pipe) -> None:
    """Accepted in a row, which merges; rejected, released, modified; settled by its sender."""
    link = _sender(pipe)
    for payload in (b"one", b"two", b"three", b"reject it", b"release it", b"modify it"):
        link.send(payload)
    link.send(b"settled", b"own tag", is_settled=True, message_format=0x8001_3700)
    pipe.pump()


def send_messages_of_several_frames(pipe: Pipe) -> None:
    up, down = _sender(pipe), _receiver(pipe)
    up.send(bytes(range(256)) * 2 + b"and a bit")
    up.send(b"small")
    down.send(b"down" * 130)
    down.send(b"", is_settled=True)
    pipe.pump()


def settle_second(pipe: Pipe) -> None:
    """The receiver says its outcome, and waits for the sender to settle."""
    link = _receiver(pipe, rcv_settle_mode=SECOND)
    link.send(b"one")
    link.send(b"two")
    link.send(b"reject it")
    pipe.pump()


def hold_and_settle_later(pipe: Pipe) -> None:
    link = _sender(pipe)
    for number in range(4):
        link.send(b"hold %d" % number)
    pipe.pump()
    for delivery in pipe.server.held:
        delivery.link.settle(delivery)
    pipe.pump()


def drain_and_echo(pipe: Pipe) -> None:
    sender = _receiver(pipe)
    sender.send(b"one")
    pipe.pump()
    pipe.client.receivers["to-client"].grant(5, drain=True)
    pipe.pump()
    pipe.client.inject_flow(Flow(2, 100, 1, 100, echo=True))
    pipe.client.inject_flow(Flow(2, 100, 1, 100, 0, sender.flow_state.delivery_count, 3, echo=True))
    pipe.pump()


def work_in_a_transaction(pipe: Pipe) -> None:
    session = pipe.client.connection.sessions[0]
    controller = session.attach_sender("controller", Coordinator([Symbol("amqp:local-transactions")]))
    link = _sender(pipe)
    controller.send(Declare().encode())
    pipe.pump()
    link.send(b"posted", state=TransactionalState(TXN_ID))
    link.send(b"posted in parts" * 35, state=TransactionalState(TXN_ID))
    retired = _receiver(pipe)
    retired.send(b"hold for the transaction")
    pipe.pump()
    (held,) = pipe.client.held
    held.link.settle(held, TransactionalState(TXN_ID, ACCEPTED))
    controller.send(Discharge(TXN_ID).encode())
    pipe.pump()


def detach_and_attach_again(pipe: Pipe) -> None:
    """Detached by either side, with and without a reason; refused; given up before an answer."""
    session = pipe.client.connection.sessions[0]
    first = _sender(pipe, "first")
    second = _receiver(pipe, "second")
    session.attach_sender("unknown", Target("nowhere"))
    unanswered = session.attach_sender("unanswered", Target("somewhere"))
    pipe.pump()
    first.send(b"hold")
    pipe.pump()
    first.detach()
    second.detach(DetachForced("idle for too long"))
    unanswered.detach()
    pipe.pump()
    _sender(pipe, "first").send(b"again")
    pipe.pump()
    session.end()
    pipe.pump()


def close_for_a_reason(pipe: Pipe) -> None:
    _sender(pipe).send(b"hold")
    pipe.pump()
    pipe.server.connection.close(ConnectionForced("shutting down"))
    pipe.pump()


def everything(pipe: Pipe) -> None:
    """All of it on one connection, one session after the other."""
    pipe.client.connection.open()
    pipe.pump()
    for script in (
        settle_in_every_way,
        send_messages_of_several_frames,
        settle_second,
        hold_and_settle_later,
        drain_and_echo,
        work_in_a_transaction,
        detach_and_attach_again,
    ):
        for side in (pipe.client, pipe.server):
            side.held.clear()
        session = pipe.client.connection.begin()
        pipe.pump()
        script(pipe)
        if session.is_mapped:
            session.end()
            pipe.pump()
    pipe.client.connection.begin()
    pipe.pump()
    begin_and_end_sessions(pipe)


CONVERSATIONS: Final = {
    "anonymous": Conversation(open_and_close, is_begun=False),
    "plain": Conversation(
        open_and_close,
        is_begun=False,
        client=Settings("client", hostname="bus.example", max_frame_size=512, user="me", password=PASSWORD),
    ),
    "wrong password": Conversation(
        be_turned_away, is_begun=False, client=Settings("client", user="me", password="a guess")
    ),
    "sessions": Conversation(begin_and_end_sessions),
    "settlement": Conversation(settle_in_every_way),
    "several frames": Conversation(send_messages_of_several_frames),
    "settled second": Conversation(settle_second),
    "settled later": Conversation(hold_and_settle_later),
    "drain and echo": Conversation(drain_and_echo),
    "transaction": Conversation(work_in_a_transaction),
    "detach": Conversation(detach_and_attach_again),
    "close": Conversation(close_for_a_reason),
}

EVERYTHING: Final = Conversation(everything, is_begun=False)


# --- events as text ---------------------------------------------------------------------------------------------


def describe(event: Event) -> str:
    """One line with all that an event says."""
    name = type(event).__name__
    if isinstance(event, IncomingDelivery):
        head = f"{event.link.name} {event.delivery_id} {event.delivery_tag!r} {event.message_format}"
        return f"{name} {head} settled={event.is_settled} {event.state!r} {event.payload!r}"
    if isinstance(event, AuthenticationRequested):
        return f"{name} {event.mechanism} {event.initial_response!r} {event.user} {event.hostname}"
    if isinstance(event, AuthenticationSucceeded):
        return f"{name} {event.additional_data!r}"
    if isinstance(event, AuthenticationFailed):
        return f"{name} {event.code} {event.offered}"
    if isinstance(event, ConnectionOpened):
        return f"{name} {event.open!r}"
    if isinstance(event, ConnectionClosed | ConnectionFailed):
        return f"{name} {event.error!r}"
    if isinstance(event, SessionBegun):
        return f"{name} {event.session.channel} {event.session.begin!r}"
    if isinstance(event, SessionEnded | SessionFailed):
        return f"{name} {event.session.channel} {event.error!r}"
    return f"{name} {_describe_link_event(event)}"


def _describe_link_event(event: Event) -> str:
    if isinstance(event, LinkAttached):
        return f"{event.attach!r}"
    if isinstance(event, LinkDetached):
        return f"{event.link.name} {event.error!r} closed={event.is_closed}"
    if isinstance(event, LinkFailed):
        return f"{event.link.name} {event.error!r}"
    if isinstance(event, CreditReceived):
        return f"{event.link.name} {event.link.credit} draining={event.link.is_draining}"
    if isinstance(event, CreditDrained):
        return event.link.name
    if isinstance(event, DispositionReceived | SettlementReceived):
        ids = [delivery.delivery_id for delivery in event.deliveries]
        return f"{event.link.name} {ids} {event.state!r} settled={event.is_settled}"
    if isinstance(event, DeliveryRefused):
        return f"{event.link.name} {event.delivery_id} {event.size_bytes}"
    assert isinstance(event, DeliveryAborted)
    return f"{event.link.name} {event.delivery_id}"
