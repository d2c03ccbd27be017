"""A peer made of bytes: it writes any frame at any moment, as our own stack would refuse to, and reads the answers."""

from __future__ import annotations

from typing import Final, TypeVar

from tandem.amqp.connection import AMQP_HEADER, Connection, Role
from tandem.amqp.delivery_states import AmqpError
from tandem.amqp.events import ConnectionFailed, Event, LinkAttached, LinkFailed, SessionFailed
from tandem.amqp.link import Link, ReceiverLink, SenderLink
from tandem.amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Close,
    Detach,
    End,
    Flow,
    Open,
    Performative,
    Transfer,
)
from tandem.amqp.session import Session
from tandem.amqp.settings import Settings
from tandem.amqp.terminus import Source, Target
from tandem.errors import ProtocolError
from tests.spec.wire import Frame, WireReader, amqp_frame

# As large as a uint can be: no window of the raw peer ever shuts by itself.
OPEN_WINDOW: Final = 0xFFFF_FFFF

SomePerformative = TypeVar("SomePerformative", bound=Performative)
SomeEvent = TypeVar("SomeEvent", bound=Event)


class RawPeer:
    """The other end of `connection`, whichever role that has."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.reader = WireReader()
        self.events: list[Event] = []

    # --- writing --------------------------------------------------------------------------------------------

    def write(self, data: bytes, now_ms: int = 0) -> list[Event]:
        """Hand bytes to the stack; return what they meant to it."""
        events = self.connection.receive(data, now_ms)
        self.events += events
        return events

    def send(self, *performatives: Performative, channel: int = 0) -> list[Event]:
        """Several frames in one write."""
        return self.write(b"".join(amqp_frame(performative, channel) for performative in performatives))

    def transfer(
        self,
        handle: int,
        delivery_id: int | None,
        payload: bytes = b"m",
        *,
        tag: bytes | None = b"t",
        settled: bool | None = None,
        more: bool = False,
        aborted: bool = False,
        channel: int = 0,
    ) -> list[Event]:
        transfer = Transfer(handle, delivery_id, tag, 0, settled, more, aborted=aborted)
        return self.write(amqp_frame(transfer, channel, payload))

    def flow(
        self,
        handle: int | None = None,
        credit: int | None = None,
        *,
        delivery_count: int | None = 0,
        drain: bool = False,
        echo: bool = False,
        window: int = OPEN_WINDOW,
        next_incoming_id: int | None = 1,
        channel: int = 0,
    ) -> list[Event]:
        count = None if handle is None else delivery_count
        flow = Flow(next_incoming_id, window, 0, OPEN_WINDOW, handle, count, credit, None, drain, echo)
        return self.send(flow, channel=channel)

    # --- reading --------------------------------------------------------------------------------------------

    def read_frames(self, now_ms: int = 0) -> list[Frame]:
        return self.reader.read(self.connection.data_to_send(now_ms))

    def read(self) -> list[Performative]:
        """The performatives written since the last time, in order."""
        return [frame.performative for frame in self.read_frames() if frame.performative is not None]

    def read_one(self, kind: type[SomePerformative]) -> SomePerformative:
        """The only performative written since the last time, which is of this kind."""
        (performative,) = self.read()
        assert isinstance(performative, kind)
        return performative

    # --- usual beginnings -----------------------------------------------------------------------------------

    def open(
        self, *, max_frame_size: int = 1_048_576, channel_max: int = 65_535, idle_timeout_ms: int | None = None
    ) -> None:
        """Header and open, whoever was first."""
        self.write(AMQP_HEADER)
        self.send(Open("raw", None, max_frame_size, channel_max, idle_timeout_ms))
        assert self.connection.is_open
        self.read()
        self.reader.max_frame_size = max_frame_size

    def begin(self, channel: int = 0, *, window: int = OPEN_WINDOW, handle_max: int = 0xFFFF_FFFF) -> Session:
        self.send(Begin(None, 0, window, OPEN_WINDOW, handle_max), channel=channel)
        self.read()
        return self.connection.sessions_by_remote_channel[channel]

    def attach(self, attach: Attach, channel: int = 0) -> Link:
        """Attach, without an answer yet."""
        event = only(self.send(attach, channel=channel), LinkAttached)
        return event.link

    def attach_sender(self, name: str = "in", handle: int = 0, *, credit: int = 100, channel: int = 0) -> ReceiverLink:
        """The raw peer sends; the stack accepts and grants credit."""
        attach = Attach(name, handle, SENDER, 0, 0, Source(), Target("q"), initial_delivery_count=0)
        link = self.attach(attach, channel)
        assert isinstance(link, ReceiverLink)
        link.accept()
        if credit:
            link.grant(credit)
        self.read()
        return link

    def attach_receiver(self, name: str = "out", handle: int = 0, *, credit: int = 100, channel: int = 0) -> SenderLink:
        """The raw peer receives; the stack accepts, and has credit."""
        link = self.attach(Attach(name, handle, RECEIVER, 0, 0, Source("q"), Target()), channel)
        assert isinstance(link, SenderLink)
        link.accept()
        if credit:
            self.flow(handle, credit, channel=channel)
        self.read()
        return link

    # --- usual ends -----------------------------------------------------------------------------------------

    def expect_close(self, error: type[ProtocolError]) -> AmqpError:
        """The stack gave the connection up for this reason, said so to both sides, and reads nothing more."""
        failed = only(self.events[-1:], ConnectionFailed)
        assert isinstance(failed.error, error)
        close = self.read()[-1]
        assert isinstance(close, Close)
        assert close.error is not None
        assert close.error.condition == error.condition
        assert close.error.description == failed.error.description
        assert self.connection.is_finished
        assert self.write(b"whatever comes now") == []
        assert self.connection.data_to_send() == b""
        return close.error

    def expect_end(self, error: type[ProtocolError], channel: int = 0) -> AmqpError:
        """The stack ended one session for this reason, and said so to both sides."""
        failed = only(self.events[-1:], SessionFailed)
        assert isinstance(failed.error, error)
        frame = self.read_frames()[-1]
        end = frame.performative
        assert isinstance(end, End)
        assert frame.channel == channel
        assert end.error is not None
        assert end.error.condition == error.condition
        assert self.connection.is_open
        return end.error

    def expect_detach(self, error: type[ProtocolError], link: Link) -> AmqpError:
        """The stack detached one link for this reason, and said so to both sides."""
        failed = only(self.events[-1:], LinkFailed)
        assert isinstance(failed.error, error)
        assert failed.link is link
        detach = self.read()[-1]
        assert isinstance(detach, Detach)
        assert detach.handle == link.handle
        assert detach.closed
        assert detach.error is not None
        assert detach.error.condition == error.condition
        assert link.session.is_mapped
        return detach.error


def only(events: list[Event], kind: type[SomeEvent]) -> SomeEvent:
    """The only event there is, which is of this kind."""
    (event,) = events
    assert isinstance(event, kind), event
    return event


def server(settings: Settings | None = None) -> RawPeer:
    """A server of ours, nothing said yet."""
    return RawPeer(Connection(Role.SERVER, settings or Settings("server")))


def opened_server(settings: Settings | None = None, *, max_frame_size: int = 1_048_576) -> RawPeer:
    peer = server(settings)
    peer.open(max_frame_size=max_frame_size)
    return peer


def session_server(settings: Settings | None = None, *, max_frame_size: int = 1_048_576) -> RawPeer:
    """A server of ours with a session on channel 0."""
    peer = opened_server(settings, max_frame_size=max_frame_size)
    peer.begin()
    return peer


def opened_client(settings: Settings | None = None) -> RawPeer:
    """A client of ours that did no SASL."""
    peer = RawPeer(Connection(Role.CLIENT, settings or Settings("client")))
    peer.connection.open(sasl=False)
    peer.open()
    return peer


def session_client(settings: Settings | None = None) -> tuple[RawPeer, Session]:
    """A client of ours with a session on channel 0."""
    peer = opened_client(settings)
    session = peer.connection.begin()
    peer.send(Begin(0, 0, OPEN_WINDOW, OPEN_WINDOW))
    peer.read()
    return peer, session
