"""What `tandem.amqp` promises whatever a peer sends, in a form that can be checked after every step of a fuzz target.

A target raises nothing as long as the promises hold. What escapes is either an exception that the library should not
have let out, or `BrokenPromise`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from tandem.amqp.connection import AMQP_HEADER, Connection
from tandem.amqp.deliveries import IncomingDelivery
from tandem.amqp.events import ConnectionFailed, Event, LinkFailed, SessionFailed
from tandem.amqp.fields import decode_composite
from tandem.amqp.link import ReceiverLink, SenderLink
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
from tandem.amqp.sasl import SASL_HEADER
from tandem.amqp.session import Session
from tandem.amqp.types import Array, Described
from tandem.amqp.windows import add
from tandem.errors import UsageError
from tandem.limits import MAX_DELIVERY_TAG_BYTES, MAX_FRAME_SIZE_BEFORE_OPEN_BYTES

__all__ = ["BrokenPromise", "Endpoint", "Written", "is_same", "promise", "trace"]

_Result = TypeVar("_Result")

_SASL_TYPE: Final = 1


class BrokenPromise(Exception):
    """The library did what its documentation says it never does."""


def promise(is_kept: bool, text: str) -> None:
    if not is_kept:
        raise BrokenPromise(text)


def is_same(left: object, right: object) -> bool:
    """Equal in value and in AMQP type. Not `==`: to Python UInt(1), 1.0 and True are equal, and NaN is not itself."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return repr(left) == repr(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return is_same(list(left.items()), list(right.items()))
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    if isinstance(left, Described) and isinstance(right, Described):
        return is_same(left.descriptor, right.descriptor) and is_same(left.value, right.value)
    if isinstance(left, Array) and isinstance(right, Array):
        is_same_kind = left.constructor == right.constructor and left.count == right.count
        return is_same_kind and is_same(left.descriptors, right.descriptors) and is_same(left.items, right.items)
    return left == right


def trace(events: list[Event]) -> list[str]:
    """What happened, without what may differ between two runs: descriptions name offsets in the buffer of the day."""
    lines: list[str] = []
    for event in events:
        line = type(event).__name__
        if isinstance(event, ConnectionFailed | SessionFailed | LinkFailed):
            line += f" {event.error.condition}"
        elif isinstance(event, IncomingDelivery):
            line += f" {event.link.name!r} {event.delivery_id} {event.delivery_tag!r} {event.payload!r}"
        lines.append(line)
    return lines


class _Channel:
    """A session as the peer sees it in what we write."""

    __slots__ = ("handles", "incomplete", "next_delivery_id")

    def __init__(self) -> None:
        self.handles: set[int] = set()
        # The delivery of each handle that has transfers to come.
        self.incomplete: dict[int, int] = {}
        self.next_delivery_id = 0

    def copy(self) -> _Channel:
        copy = _Channel()
        copy.handles |= self.handles
        copy.incomplete |= self.incomplete
        copy.next_delivery_id = self.next_delivery_id
        return copy


class Written:
    """What a connection writes, judged as a strict peer would judge it."""

    __slots__ = ("channels", "is_closed", "is_opened", "last")

    def __init__(self) -> None:
        self.channels: dict[int, _Channel] = {}
        self.is_opened = False
        self.is_closed = False
        self.last = "nothing"

    def copy(self) -> Written:
        copy = Written()
        copy.channels = {number: channel.copy() for number, channel in self.channels.items()}
        copy.is_opened = self.is_opened
        copy.is_closed = self.is_closed
        copy.last = self.last
        return copy

    def read(self, data: bytes, max_frame_size: int, channel_max: int) -> None:
        """`data` is all or the next of it; the two limits are those that the peer announced."""
        offset = 0
        while offset < len(data):
            header = data[offset : offset + 8]
            promise(len(header) == 8, "a frame or header was written in part")
            if header in (AMQP_HEADER, SASL_HEADER):
                promise(not self.is_opened, "a protocol header was written behind the open")
                offset += 8
                continue
            size = int.from_bytes(header[:4], "big")
            promise(size >= 8 and header[4] == 2, f"the frame header {header!r} was written")
            promise(offset + size <= len(data), "a frame was written in part")
            promise(not self.is_closed, "a frame was written behind the close")
            promise(size <= max_frame_size, f"{size} bytes were written in a frame, the limit is {max_frame_size}")
            channel = int.from_bytes(header[6:], "big")
            promise(channel <= channel_max, f"channel {channel} was written to, channel-max is {channel_max}")
            self._read_frame(header[5], channel, data, offset + 8, offset + size)
            offset += size

    def _read_frame(self, kind: int, channel: int, data: bytes, start: int, end: int) -> None:
        if kind == _SASL_TYPE:
            promise(not self.is_opened, "a SASL frame was written behind the open")
            _, _, stop = decode_composite(data, start, end)
            promise(stop == end, "a SASL frame was written with bytes behind it")
        elif start == end:
            promise(self.is_opened, "an empty frame was written before the open")
        else:
            performative, stop = decode_performative(data, start, end)
            self.last = type(performative).__name__
            promise(stop == end or isinstance(performative, Transfer), f"bytes were written behind a {self.last}")
            self._judge(channel, performative)

    def _judge(self, channel: int, performative: Performative) -> None:
        if isinstance(performative, Open):
            promise(not self.is_opened, "a second open was written")
            self.is_opened = True
            return
        promise(self.is_opened, f"a {self.last} was written before the open")
        if isinstance(performative, Close):
            self.is_closed = True
        elif isinstance(performative, Begin):
            promise(channel not in self.channels, f"a second begin was written on channel {channel}")
            self.channels[channel] = _Channel()
        else:
            promise(channel in self.channels, f"a {self.last} was written on channel {channel}, which is not mapped")
            if isinstance(performative, End):
                del self.channels[channel]
            else:
                _judge_on_channel(self.channels[channel], performative)


def _judge_on_channel(channel: _Channel, performative: Performative) -> None:
    name = type(performative).__name__
    if isinstance(performative, Disposition):
        return
    if isinstance(performative, Attach):
        promise(performative.handle not in channel.handles, "an attach was written on a handle in use")
        channel.handles.add(performative.handle)
        return
    assert isinstance(performative, Flow | Transfer | Detach)
    handle = performative.handle
    promise(handle is None or handle in channel.handles, f"a {name} was written on handle {handle}, not attached")
    if isinstance(performative, Detach):
        channel.handles.remove(performative.handle)
        channel.incomplete.pop(performative.handle, None)
    elif isinstance(performative, Transfer):
        _judge_transfer(channel, performative)


def _judge_transfer(channel: _Channel, transfer: Transfer) -> None:
    started = channel.incomplete.pop(transfer.handle, None)
    if started is None:
        promise(transfer.delivery_id == channel.next_delivery_id, "delivery-ids were written with a gap")
        channel.next_delivery_id = add(channel.next_delivery_id, 1)
        tag = transfer.delivery_tag
        promise(tag is not None and len(tag) <= MAX_DELIVERY_TAG_BYTES, f"the delivery-tag {tag!r} was written")
    else:
        promise(
            transfer.delivery_id in (None, started), f"delivery {transfer.delivery_id} was written within {started}"
        )
    if transfer.more:
        assert transfer.delivery_id is not None
        channel.incomplete[transfer.handle] = transfer.delivery_id


class Endpoint:
    """A connection under test. Every way to it leads through a check of its promises."""

    __slots__ = ("connection", "events", "is_silent", "now_ms", "written")

    def __init__(self, connection: Connection, written: Written | None = None) -> None:
        """`written` is what the connection has written before it came here."""
        self.connection = connection
        self.events: list[Event] = []
        self.now_ms = 0
        # The connection failed and what it had to say about it was taken.
        self.is_silent = False
        self.written = Written() if written is None else written

    def receive(self, data: bytes) -> list[Event]:
        return self._report(self.connection.receive(data, self.now_ms))

    def tick(self, elapsed_ms: int) -> list[Event]:
        self.now_ms += elapsed_ms
        return self._report(self.connection.tick(self.now_ms))

    def _report(self, events: list[Event]) -> list[Event]:
        self.events += events
        # Events end up in logs: no peer may make that fail either.
        for event in events:
            repr(event)
        check_books(self.connection)
        return events

    def call(self, function: Callable[[], _Result]) -> _Result | None:
        """A call of the application, who may be told that it is not possible, and nothing else."""
        try:
            return function()
        except UsageError:
            return None
        finally:
            check_books(self.connection)

    def flush(self) -> bytes:
        data = self.connection.data_to_send(self.now_ms)
        promise(not (self.is_silent and data), f"{data[:16]!r} was written after the connection had failed")
        self.written.read(data, self.connection.peer_max_frame_size, self.connection.peer_channel_max)
        deadline_ms = self.connection.next_deadline_ms()
        promise(deadline_ms is None or deadline_ms > 0, f"the next deadline is {deadline_ms} ms")
        if self.connection.is_broken:
            self.is_silent = True
        return data


def check_books(connection: Connection) -> None:
    """What connection, sessions and links say about each other agrees, and is within the limits."""
    settings = connection.settings
    held = len(connection.unread.fragment)
    promise(held <= max(connection.max_frame_size, MAX_FRAME_SIZE_BEFORE_OPEN_BYTES), f"{held} bytes are kept unread")
    promise(len(connection.sessions) <= settings.channel_max + 1, "there are more sessions than channel-max allows")
    promise(len(connection.ended_channels) <= settings.channel_max + 1, "more channels ended than channel-max allows")
    incomplete = 0
    for channel, session in connection.sessions.items():
        promise(session.channel == channel, "a session is kept under another channel than its own")
        incomplete += _check_session(session)
    for channel, session in connection.sessions_by_remote_channel.items():
        promise(session.remote_channel == channel, "a session is kept under another remote channel than its own")
        promise(connection.sessions.get(session.channel) is session, "a session is known by its remote channel only")
    if not connection.is_broken:
        promise(
            connection.incomplete_bytes == incomplete, f"{connection.incomplete_bytes} bytes should be {incomplete}"
        )
        most = max(settings.max_incomplete, settings.max_message_size)
        promise(incomplete <= most, f"{incomplete} bytes of incomplete deliveries are kept")
        undecided = sum(
            delivery.undecided_bytes
            for session in connection.sessions.values()
            for delivery in [*session.incoming_unsettled.values(), *_sharing(session)]
        )
        promise(connection.undecided_bytes == undecided, f"{connection.undecided_bytes} bytes should be {undecided}")


def _sharing(session: Session) -> list[IncomingDelivery]:
    """Return the deliveries that share their delivery-ids."""
    return session.shared_ids.named(0, 0xFFFF_FFFF, is_taken=False)


def _check_shared_ids(session: Session) -> None:
    sharing = _sharing(session)
    promise(len(sharing) == session.shared_ids.undecided_count, "deliveries that share their ids are miscounted")
    promise(len(sharing) <= session.max_unsettled + 1, "there are more deliveries that share their ids than allowed")
    for delivery in sharing:
        promise(delivery.delivery_id not in session.incoming_unsettled, "a shared delivery-id has an owner")
        promise(session.links.get(delivery.link.handle) is delivery.link, "a delivery outlived its link")


def _check_session(session: Session) -> int:
    """Return its bytes of incomplete deliveries."""
    _check_shared_ids(session)
    settings = session.connection.settings
    promise(len(session.links) <= settings.handle_max + 1, "there are more links than handle-max allows")
    promise(
        len(session.incoming_unsettled) <= settings.max_unsettled, "there are more unsettled deliveries than allowed"
    )
    incomplete = 0
    incoming = 0
    outgoing = 0
    for handle, link in session.links.items():
        promise(link.handle == handle, "a link is kept under another handle than its own")
        if isinstance(link, ReceiverLink):
            incoming += len(link.unsettled)
            incomplete += 0 if link.partial is None else len(link.partial.buffer)
            for delivery_id in link.unsettled:
                delivery = session.incoming_unsettled.get(delivery_id)
                promise(delivery is not None and delivery.link is link, f"delivery {delivery_id} is another link's")
        elif isinstance(link, SenderLink):
            outgoing += len(link.unsettled)
            promise(link.credit >= 0, "credit is negative")
            for delivery_id in link.unsettled:
                sent = session.outgoing_unsettled.get(delivery_id)
                promise(sent is not None and sent.link is link, f"delivery {delivery_id} is another link's")
    promise(incoming == len(session.incoming_unsettled), "the session has unsettled deliveries of no link")
    promise(outgoing == len(session.outgoing_unsettled), "the session has sent deliveries of no link")
    for handle, link in session.links_by_remote_handle.items():
        promise(link.remote_handle == handle, "a link is kept under another remote handle than its own")
        promise(session.links.get(link.handle) is link, "a link is known by its remote handle only")
    return incomplete
