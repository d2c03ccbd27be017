"""The connection (AMQP 1.0 part 2.4): bytes in, events out; calls in, bytes out. It owns all state and does no IO.

    connection = Connection(Role.SERVER, Settings("my-container"))
    events = connection.receive(data, now_ms)       # what the peer did
    ...                                             # answer through the objects in the events
    transport.write(connection.data_to_send(now_ms))

`receive` never raises for what a peer sent: a broken link, session or connection is reported by an event, and the
frame that tells the peer is queued. It raises only `UsageError`, for what the caller did.
"""

# Longer than 650 lines: the frames of a connection share its whole state; the nouns inside have left already.

from __future__ import annotations

import enum
import struct
from typing import Final

from tandem import limits
from tandem.amqp.delivery_states import AmqpError
from tandem.amqp.events import (
    AuthenticationFailed,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    Event,
    SessionBegun,
    SessionEnded,
)
from tandem.amqp.hot_paths import decode_disposition, decode_flow, decode_transfer, frame
from tandem.amqp.idle import IdleTimeouts
from tandem.amqp.performatives import (
    DISPOSITION,
    FLOW,
    TRANSFER,
    Attach,
    Begin,
    Close,
    End,
    Open,
    Performative,
    Transfer,
    decode_performative,
)
from tandem.amqp.sasl import SASL_HEADER, SaslClient, SaslServer
from tandem.amqp.session import Session, Unfinished
from tandem.amqp.settings import Settings
from tandem.amqp.states import CONNECTION_TABLE, ConnectionInput, ConnectionState, SaslState
from tandem.amqp.unread import HEADER_BYTES, UnreadInput
from tandem.errors import (
    DecodeError,
    EncodeError,
    FramingError,
    IdleTimeoutExpired,
    InvalidField,
    NotAllowed,
    ProtocolError,
    ResourceLimitExceeded,
    StateError,
    UnauthorizedAccess,
)

__all__ = ["AMQP_HEADER", "UNLIMITED_WORK", "Connection", "Role"]

AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
EMPTY_FRAME: Final = b"\x00\x00\x00\x08\x02\x00\x00\x00"

AMQP_TYPE: Final = 0
SASL_TYPE: Final = 1
LIST32: Final = 0xD0
MIN_DATA_OFFSET_WORDS: Final = 2

_unpack_frame_header: Final = struct.Struct(">IBBH").unpack_from

OPENED: Final = ConnectionState.OPENED

# Units of work. A frame costs one, and one for each KiB of it. Those that come once per link or session rather than
# once per message cost more, as they do in time; so does a flow, behind which a queue may be looked through.
UNLIMITED_WORK: Final = 1 << 60
_RARE_FRAME_WORK: Final = 15
_FLOW_WORK: Final = 3


class Role(enum.Enum):
    """Who speaks first."""

    CLIENT = "client"
    SERVER = "server"


class Connection:
    """One AMQP connection, either role."""

    __slots__ = (
        "dirty_sessions",
        "ended_channels",
        "events",
        "has_more",
        "held_bytes",
        "idle",
        "incomplete_bytes",
        "is_amqp_running",
        "is_broken",
        "is_header_next",
        "link_count",
        "max_frame_size",
        "max_frame_size_once_open",
        "max_performative_bytes",
        "open_received",
        "output",
        "output_bytes",
        "peer_channel_max",
        "peer_max_frame_size",
        "pending_bytes",
        "role",
        "sasl_client",
        "sasl_server",
        "sessions",
        "sessions_by_remote_channel",
        "settings",
        "state",
        "undecided_bytes",
        "unfinished",
        "unread",
        "work_left",
    )

    def __init__(self, role: Role, settings: Settings) -> None:
        self.role = role
        self.settings = settings
        self.state = ConnectionState.START
        self.sasl_server: SaslServer | None = None
        self.sasl_client: SaslClient | None = None
        # The peer's open, once it has come.
        self.open_received: Open | None = None
        self.sessions: dict[int, Session] = {}
        self.sessions_by_remote_channel: dict[int, Session] = {}
        # Channels whose session is over: clients are seen to write a detach behind their end.
        self.ended_channels: set[int] = set()
        self.dirty_sessions: list[Session] = []
        # Links of all sessions, with those whose detach the peer has not answered.
        self.link_count = 0
        self.output: list[bytes] = []
        # Payloads in the output, and those that wait for the peer's incoming windows, over all sessions.
        self.output_bytes = 0
        self.pending_bytes = 0
        self.events: list[Event] = []
        self.idle = IdleTimeouts(settings.idle_timeout_ms)
        # Strangers get small frames; the peer's open raises this to what we advertise.
        self.max_frame_size = min(limits.MAX_FRAME_SIZE_BEFORE_OPEN_BYTES, settings.max_frame_size)
        self.max_frame_size_once_open = settings.max_frame_size
        self.max_performative_bytes = limits.MAX_PERFORMATIVE_BYTES
        self.peer_max_frame_size = limits.MIN_MAX_FRAME_SIZE_BYTES
        self.peer_channel_max = 0
        self.is_header_next = True
        # Both headers of AMQP were exchanged: whatever SASL there was is over.
        self.is_amqp_running = False
        # After a framing or decoding error nothing that follows can be trusted.
        self.is_broken = False
        # What deliveries of several transfers hold while they are incomplete, over all links.
        self.incomplete_bytes = 0
        # What deliveries brought whose outcome the application has not told, over all links.
        self.undecided_bytes = 0
        # What the application holds for this peer beside that.
        self.held_bytes = 0
        self.unread = UnreadInput()
        # `receive` has left whole frames for its next call because its work was used up.
        self.has_more = False
        self.work_left = 0
        # A frame that takes more work than there was, as far as it is not handled yet.
        self.unfinished: Unfinished | None = None

    # --- for the application --------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.state is OPENED

    @property
    def is_finished(self) -> bool:
        """Nothing more will come of it: write what `data_to_send` gives, and hang up."""
        return self.is_broken or self.state is ConnectionState.END

    @property
    def is_saturated(self) -> bool:
        """The peer sends faster than the application decides: read nothing more until this is false again."""
        return self.undecided_bytes + self.held_bytes > self.settings.max_undecided_bytes

    def hold(self, size_bytes: int) -> None:
        """Count what the application holds for this peer, such as a request that it has settled and not answered."""
        self.held_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        """Count what was held no longer."""
        self.held_bytes -= size_bytes

    @property
    def unsent_bytes(self) -> int:
        """Payloads that were sent and are not written: in the output, or behind a window that the peer keeps shut."""
        return self.output_bytes + self.pending_bytes

    def limit_frames(self, max_frame_size: int, max_performative_bytes: int) -> None:
        """Read no larger frames than these once the connection is open, whatever our open says."""
        self.max_frame_size_once_open = min(max_frame_size, self.settings.max_frame_size)
        self.max_performative_bytes = min(max_performative_bytes, limits.MAX_PERFORMATIVE_BYTES)
        if self.open_received is not None:
            self.max_frame_size = self.max_frame_size_once_open

    def open(self, *, sasl: bool = True) -> None:
        """Client: start. With `sasl` (what nearly every server wants) the handshake comes first."""
        if self.role is Role.SERVER:
            raise StateError("a server answers, it does not open")
        if self.state is not ConnectionState.START or self.sasl_client is not None:
            raise StateError("the connection was opened already")
        if sasl:
            self.sasl_client = SaslClient(self.settings)
            self.output.append(self.sasl_client.start())
        else:
            self._write_header_and_open()

    def accept_authentication(self) -> None:
        """Server: answer `AuthenticationRequested`. Call `receive(b"")` afterwards: input may have been kept back."""
        self.output.append(self._sasl_server().decide(True))
        self.is_header_next = True

    def reject_authentication(self) -> None:
        """Server: refuse, and end the connection."""
        self.output.append(self._sasl_server().decide(False))
        self.is_broken = True

    def _sasl_server(self) -> SaslServer:
        if self.sasl_server is None:
            raise StateError("no authentication was asked for")
        return self.sasl_server

    def begin(self) -> Session:
        """Begin a session. It is usable after its `SessionBegun`."""
        if self.state is not OPENED:
            raise StateError(f"no session can be begun in connection state {self.state.value}")
        session = Session(self, self._free_channel(0))
        self.sessions[session.channel] = session
        session.write_begin()
        return session

    def close(self, error: ProtocolError | AmqpError | None = None) -> None:
        """Close the connection, with a reason or without. The peer's answer arrives as `ConnectionClosed`."""
        reason = AmqpError.of(error) if isinstance(error, ProtocolError) else error
        step = ConnectionInput.SEND_CLOSE if reason is None else ConnectionInput.SEND_CLOSE_ERROR
        if (self.state, step) not in CONNECTION_TABLE:
            raise StateError(f"the connection cannot be closed in state {self.state.value}")
        self._write_close(reason)
        self._step(step)

    def data_to_send(self, now_ms: int = 0) -> bytes:
        """Everything queued since the last call."""
        if self.dirty_sessions:
            self._flush()
        if not self.output:
            return b""
        data = b"".join(self.output)
        self.output.clear()
        self.output_bytes = 0
        self.idle.spoke_at_ms = now_ms
        return data

    def next_deadline_ms(self) -> int | None:
        """When to call `tick`, on the clock that `receive` and `data_to_send` are given; None if there is no need."""
        if self.is_finished:
            return None
        return self.idle.next_deadline_ms()

    def tick(self, now_ms: int) -> list[Event]:
        """Time has passed: write a heartbeat if one is due, give up on a peer that is silent for too long."""
        self.events = []
        if self.is_finished:
            return self.events
        if self.idle.is_peer_gone(now_ms):
            silence = now_ms - self.idle.heard_at_ms
            self._fail(
                IdleTimeoutExpired(
                    f"nothing was heard for {silence} ms, the limit is {self.idle.drop_after_ms} ms",
                )
            )
        elif self.idle.is_heartbeat_due(now_ms):
            self.output.append(EMPTY_FRAME)
        return self.events

    # --- input ----------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now_ms: int = 0, work: int = UNLIMITED_WORK) -> list[Event]:
        """Take bytes as they came from the transport; return what they meant.

        Stops when this much work is done, with `has_more` set: call it again with no bytes to go on. `work_left` says
        how much was not used; it is negative if the last frame took more than there was.
        """
        events: list[Event] = []
        self.events = events
        self.work_left = work
        self.has_more = False
        if self.is_broken:
            return events
        if data:
            self.idle.heard_at_ms = now_ms
        joined = self.unread.join(data)
        if joined is None:
            return events
        try:
            offset = self._parse(joined, self.unread.left_at)
        except ProtocolError as error:
            self._fail(error)
            return events
        if not self.is_broken:
            self.unread.keep(joined, offset, self.has_more)
        return events

    def _parse(self, data: bytes, offset: int) -> int:
        """Handle whole frames while there is work left; return where the first that was not handled starts."""
        end = len(data)
        while not self.is_broken and (end - offset >= HEADER_BYTES or self.unfinished is not None):
            if self.work_left <= 0:
                self.has_more = True
                return offset
            unfinished = self.unfinished
            if unfinished is not None:
                unfinished.session.go_on_settling(
                    unfinished.disposition, unfinished.named, unfinished.start, self.events
                )
                continue
            if not self.is_amqp_running:
                if self.is_header_next:
                    self.work_left -= _RARE_FRAME_WORK
                    self._on_header(data[offset : offset + HEADER_BYTES])
                    offset += HEADER_BYTES
                    continue
                if self._is_decision_due(end - offset):
                    break
            # Annotated, or the compiled form would take the four for objects of any kind and compare them as such.
            header: tuple[int, int, int, int] = _unpack_frame_header(data, offset)
            size, data_offset, kind, channel = header
            body = data_offset * 4
            if size > self.max_frame_size:
                raise FramingError(f"a frame of {size} bytes came, the limit is {self.max_frame_size} bytes")
            if data_offset < MIN_DATA_OFFSET_WORDS or body > size:
                raise FramingError(f"a frame of {size} bytes has its data at offset {body}")
            if end - offset < size:
                self.unread.wanted_bytes = size
                return offset
            self.work_left -= 1 + (size >> 10)
            self._on_frame(kind, channel, data, offset + body, offset + size)
            offset += size
        self.unread.wanted_bytes = HEADER_BYTES
        return offset

    def _is_decision_due(self, length: int) -> bool:
        """Whether the application has to decide first. Input is not ours to read until then, and nothing honest is
        large here."""
        if self.sasl_server is None or self.sasl_server.state is not SaslState.AWAITING_DECISION:
            return False
        if length > limits.MAX_FRAME_SIZE_BEFORE_OPEN_BYTES:
            raise FramingError(f"{length} bytes came before the SASL outcome was sent")
        return True

    def _on_header(self, header: bytes) -> None:
        """A protocol header (part 2.2): it says which layer comes next."""
        if header == AMQP_HEADER:
            self._on_amqp_header()
        elif header == SASL_HEADER:
            self._on_sasl_header()
        else:
            # A server's answer to an unknown protocol is the header of the one it wants, and the end.
            if self.role is Role.SERVER:
                self.output.append(SASL_HEADER if self.sasl_server is None else AMQP_HEADER)
            self._break(FramingError(f"the protocol header {header!r} is not supported"))

    def _on_sasl_header(self) -> None:
        if self.role is Role.CLIENT:
            if self.sasl_client is None:
                raise NotAllowed("a SASL header came, but no SASL was started")
            self.sasl_client.on_header()
        else:
            if self.sasl_server is not None:
                raise NotAllowed("SASL was done already")
            self.sasl_server = SaslServer(self.settings.sasl_mechanisms)
            self.output.append(self.sasl_server.on_header())
        self.is_header_next = False

    def _on_amqp_header(self) -> None:
        if self.role is Role.SERVER:
            if self.sasl_server is None and self.settings.is_sasl_required:
                self.output.append(SASL_HEADER)
                self._break(UnauthorizedAccess("the client must start with SASL"))
                return
            self._step(ConnectionInput.RECEIVE_HEADER)
            self._step(ConnectionInput.SEND_HEADER)
            self.output.append(AMQP_HEADER)
        else:
            if self.sasl_client is not None and self.sasl_client.state is not SaslState.SUCCEEDED:
                raise NotAllowed("the server answered the SASL header with that of AMQP: it does no SASL")
            self._step(ConnectionInput.RECEIVE_HEADER)
        self.is_header_next = False
        self.is_amqp_running = True

    # The first frames checked are the ones that come per message.
    def _on_frame(self, kind: int, channel: int, data: bytes, start: int, end: int) -> None:
        if kind != AMQP_TYPE:
            self._on_other_frame(kind, data, start, end)
            return
        if not self.is_amqp_running:
            raise NotAllowed("an AMQP frame came where SASL was expected")
        if start == end:
            return  # A heartbeat: that it was heard is all there is to it.
        if end - start > 4 and data[start] == 0 and data[start + 1] == 0x53:
            code = data[start + 2]
            if code == TRANSFER:
                transfer, payload_start = decode_transfer(data, start, end)
                session = self.sessions_by_remote_channel.get(channel)
                if session is None or self.state is not OPENED:
                    self._on_frame_without_session(channel, "transfer")
                else:
                    session.on_transfer(transfer, data[payload_start:end], self.events)
                return
            # The others are the whole of their frame; bytes behind their list are complained of below.
            if start + 5 + data[start + 4] == end:
                if code == DISPOSITION:
                    self._session(channel, "disposition", decode_disposition(data, start, end), b"")
                    return
                if code == FLOW:
                    self.work_left -= _FLOW_WORK
                    self._session(channel, "flow", decode_flow(data, start, end), b"")
                    return
            if data[start + 3] == LIST32 and end - start >= 8:
                # Before anything of it is decoded.
                self._check_performative(8 + int.from_bytes(data[start + 4 : start + 8], "big"), False)
        self.work_left -= _RARE_FRAME_WORK
        performative, stop = decode_performative(data, start, end)
        self._check_performative(stop - start, isinstance(performative, Attach))
        self._on_performative(channel, performative, data[stop:end])

    def _check_performative(self, size_bytes: int, is_attach: bool) -> None:
        limit = min(self.max_performative_bytes, limits.MAX_ATTACH_BYTES) if is_attach else self.max_performative_bytes
        if size_bytes > limit:
            raise ResourceLimitExceeded(f"a performative of {size_bytes} bytes came, the limit is {limit}")

    def _session(self, channel: int, what: str, performative: Performative, payload: bytes) -> None:
        """Hand a frame to its session. What comes behind our close is swallowed."""
        session = self.sessions_by_remote_channel.get(channel)
        if session is None or self.state is not OPENED:
            self._on_frame_without_session(channel, what)
        elif isinstance(performative, Transfer):
            session.on_transfer(performative, payload, self.events)
        else:
            session.on_frame(performative, self.events)

    def _on_frame_without_session(self, channel: int, what: str) -> None:
        self._step(ConnectionInput.RECEIVE_FRAME)
        if self.state is OPENED and channel not in self.ended_channels:
            raise NotAllowed(f"{what} came on channel {channel}, where no session was begun")

    def _on_other_frame(self, kind: int, data: bytes, start: int, end: int) -> None:
        if kind != SASL_TYPE:
            raise FramingError(f"a frame of the unknown type {kind} came")
        if self.sasl_client is not None and self.sasl_client.state is not SaslState.SUCCEEDED:
            self._on_sasl_client_frame(self.sasl_client, data, start, end)
        elif self.sasl_server is not None and self.sasl_server.state is not SaslState.SUCCEEDED:
            event = self.sasl_server.on_frame(data, start, end)
            if event is None:
                self.reject_authentication()
                self.events.append(ConnectionFailed(UnauthorizedAccess("the SASL mechanism or response is unusable")))
            else:
                self.events.append(event)
        else:
            raise NotAllowed("a SASL frame came where AMQP was expected")

    def _on_sasl_client_frame(self, sasl: SaslClient, data: bytes, start: int, end: int) -> None:
        answer, event = sasl.on_frame(data, start, end)
        self.output.append(answer)
        if event is None:
            return
        self.events.append(event)
        if isinstance(event, AuthenticationFailed):
            self.is_broken = True
        else:
            self._write_header_and_open()

    def _on_performative(self, channel: int, performative: Performative, rest: bytes) -> None:
        if rest and not isinstance(performative, Transfer):
            raise DecodeError(f"{len(rest)} bytes follow the {type(performative).__name__.lower()}")
        if isinstance(performative, Open):
            self._on_open(performative)
        elif isinstance(performative, Close):
            self._on_close(performative)
        elif isinstance(performative, Begin):
            self._step(ConnectionInput.RECEIVE_FRAME)
            if self.state is OPENED:
                self._on_begin(channel, performative)
        elif isinstance(performative, End):
            self._on_end(channel, performative)
        else:
            self._session(channel, type(performative).__name__.lower(), performative, rest)

    def _on_open(self, received: Open) -> None:
        self._step(ConnectionInput.RECEIVE_OPEN)
        self.max_frame_size = self.max_frame_size_once_open
        if self.state is ConnectionState.DISCARDING or self.state is ConnectionState.CLOSE_SENT:
            return  # It crossed our close: there is nothing left to agree upon.
        self._check_open(received)
        self.open_received = received
        self.peer_max_frame_size = min(received.max_frame_size, self.settings.max_frame_size)
        self.peer_channel_max = received.channel_max
        self.idle.on_peer_timeout(received.idle_timeout_ms or 0)
        if self.state is ConnectionState.OPEN_RCVD:
            self._write_open()
        self.events.append(ConnectionOpened(received))

    def _check_open(self, received: Open) -> None:
        if received.max_frame_size < limits.MIN_MAX_FRAME_SIZE_BYTES:
            raise InvalidField(
                f"open.max-frame-size {received.max_frame_size} is below {limits.MIN_MAX_FRAME_SIZE_BYTES}"
            )
        if len(received.container_id) > limits.MAX_NAME_CHARACTERS:
            raise InvalidField(
                f"open.container-id has {len(received.container_id)} characters, "
                f"at most {limits.MAX_NAME_CHARACTERS} are allowed"
            )
        idle_timeout_ms = received.idle_timeout_ms
        if idle_timeout_ms and idle_timeout_ms < limits.MIN_PEER_IDLE_TIMEOUT_MS:
            raise InvalidField(f"open.idle-time-out {idle_timeout_ms} is below {limits.MIN_PEER_IDLE_TIMEOUT_MS} ms")

    def _on_close(self, received: Close) -> None:
        self._step(ConnectionInput.RECEIVE_CLOSE)
        if self.state is ConnectionState.CLOSE_RCVD:
            self._step(ConnectionInput.SEND_CLOSE)
            self._write_close(None)
        self.events.append(ConnectionClosed(received.error))

    def _on_begin(self, channel: int, begin: Begin) -> None:
        if channel > self.settings.channel_max:
            raise FramingError(f"begin came on channel {channel}, channel-max is {self.settings.channel_max}")
        if channel in self.sessions_by_remote_channel:
            raise NotAllowed(f"begin came on channel {channel}, where a session is mapped already")
        if begin.remote_channel is None:
            session = Session(self, self._answering_channel(channel))
            self.sessions[session.channel] = session
            session.on_begin(begin, channel)
            session.write_begin()
        else:
            waiting = self.sessions.get(begin.remote_channel)
            if waiting is None:
                raise InvalidField(f"begin.remote-channel {begin.remote_channel} names no session that was begun")
            session = waiting
            session.on_begin(begin, channel)
        self.sessions_by_remote_channel[channel] = session
        self.ended_channels.discard(channel)
        self.events.append(SessionBegun(session))

    def _on_end(self, channel: int, end: End) -> None:
        session = self.sessions_by_remote_channel.get(channel)
        if session is None or self.state is not OPENED:
            self._on_frame_without_session(channel, "end")
            return
        session.on_end()
        del self.sessions_by_remote_channel[channel]
        del self.sessions[session.channel]
        self.ended_channels.add(channel)
        self.events.append(SessionEnded(session, end.error))

    # --- output ---------------------------------------------------------------------------------------------

    def _step(self, step: ConnectionInput) -> None:
        following = CONNECTION_TABLE.get((self.state, step))
        if following is None:
            raise NotAllowed(f"{step.value} is not allowed in connection state {self.state.value}")
        self.state = following

    def _answering_channel(self, channel: int) -> int:
        """Preferably the number the peer uses, which costs no search and reads well in a trace."""
        try:
            return self._free_channel(channel)
        except StateError as error:
            raise ResourceLimitExceeded(f"no channel is left to answer a begin: {error}") from error

    def _free_channel(self, preferred: int) -> int:
        highest = min(self.settings.channel_max, self.peer_channel_max)
        if preferred <= highest and preferred not in self.sessions:
            return preferred
        for channel in range(highest + 1):
            if channel not in self.sessions:
                return channel
        raise StateError(f"all {highest + 1} channels of the connection are in use")

    def _write_header_and_open(self) -> None:
        self._step(ConnectionInput.SEND_HEADER)
        self.output.append(AMQP_HEADER)
        self.is_header_next = True
        self._write_open()

    def _write_open(self) -> None:
        settings = self.settings
        self._step(ConnectionInput.SEND_OPEN)
        ours = Open(
            settings.container_id,
            settings.hostname,
            settings.max_frame_size,
            settings.channel_max,
            settings.idle_timeout_ms or None,
            properties=self._open_properties(),
        )
        self.output.append(frame(0, ours.encode()))

    def _open_properties(self) -> dict[object, object] | None:
        """A client names the host in its open, in its sasl-init or in neither."""
        properties_for_host = self.settings.properties_for_host
        if properties_for_host is None or self.role is Role.CLIENT:
            return self.settings.properties
        hostname = None if self.open_received is None else self.open_received.hostname
        if not hostname and self.sasl_server is not None:
            hostname = self.sasl_server.hostname
        return properties_for_host(hostname)

    def _write_close(self, reason: AmqpError | None) -> None:
        """The last frame: sessions and links are inert from here on, so that nothing can be written behind it."""
        data = frame(0, Close(reason).encode())
        limit = self.peer_max_frame_size
        if len(data) > limit and reason is not None:
            data = frame(0, Close(reason.shortened(len(data) - limit)).encode())
        if len(data) > limit:
            raise EncodeError(f"this close takes {len(data)} bytes, the peer's frames have at most {limit}")
        self._flush()
        self.output.append(data)
        self.idle.on_peer_timeout(0)  # Not even a heartbeat.
        for session in self.sessions.values():
            session.abandon()

    def _flush(self) -> None:
        for session in self.dirty_sessions:
            session.flush()
        self.dirty_sessions.clear()

    def _fail(self, error: ProtocolError) -> None:
        """Close for the peer's fault: an open must come before the close if none was sent yet (part 2.4.3)."""
        if self.state is ConnectionState.HDR_EXCH or self.state is ConnectionState.OPEN_RCVD:
            self._write_open()
        if (self.state, ConnectionInput.SEND_CLOSE_ERROR) in CONNECTION_TABLE:
            self.close(error)
        self._break(error)

    def _break(self, error: ProtocolError) -> None:
        """Read nothing more, and let the driver hang up."""
        self.is_broken = True
        self.has_more = False
        self.unfinished = None
        self.unread.clear()
        self.events.append(ConnectionFailed(error))
