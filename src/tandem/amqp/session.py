"""Sessions (AMQP 1.0 part 2.5): links share their windows, their delivery ids and their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem import limits
from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
from tandem.amqp.delivery_states import AmqpError, DeliveryState, Rejected, TransactionalState
from tandem.amqp.dispositions import DispositionBatch
from tandem.amqp.events import (
    DispositionReceived,
    Event,
    LinkAttached,
    LinkDetached,
    LinkFailed,
    SessionFailed,
    SettlementReceived,
)
from tandem.amqp.hot_paths import flow_frame, frame
from tandem.amqp.link import Link, ReceiverLink, SenderLink
from tandem.amqp.outbox import Outbox
from tandem.amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Performative,
    Transfer,
)
from tandem.amqp.shared_ids import SharedIds
from tandem.amqp.states import SESSION_TABLE, LinkInput, LinkState, SessionInput, SessionState
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.types import Symbol
from tandem.amqp.windows import IncomingWindow, OutgoingWindow, add, distance, is_ahead
from tandem.errors import (
    EncodeError,
    FrameSizeTooSmall,
    FramingError,
    HandleInUse,
    InvalidField,
    LinkStolen,
    NotAllowed,
    ProtocolError,
    Scope,
    StateError,
    UnattachedHandle,
)

if TYPE_CHECKING:
    from tandem.amqp.connection import Connection

__all__ = ["Session", "Unfinished"]

MAPPED: Final = SessionState.MAPPED
DETACH_SENT: Final = LinkState.DETACH_SENT

# Bytes of a disposition's frame beside its state, in the widest encoding of all its fields.
DISPOSITION_HEAD_BYTES: Final = 48

# Deliveries that a disposition settles in one step at least, however little work is left.
_MIN_SETTLED: Final = 64

# Deliveries that are looked at for one unit of work, as a power of two.
_LOOKS_PER_WORK_SHIFT: Final = 7

# The id of our first transfer, as the service counts.
FIRST_OUTGOING_ID: Final = 1


class Unfinished:
    """A disposition that names many deliveries, of which those from `start` on are left for the next step."""

    __slots__ = ("disposition", "named", "session", "start")

    def __init__(self, session: Session, disposition: Disposition, named: list[int] | range, start: int) -> None:
        self.session = session
        self.disposition = disposition
        self.named = named
        self.start = start


class Session:
    """One session of a connection, begun by either side."""

    __slots__ = (
        "begin",
        "channel",
        "connection",
        "context",
        "incoming_unsettled",
        "incoming_window",
        "is_dirty",
        "links",
        "links_by_remote_handle",
        "max_unsettled",
        "next_delivery_id",
        "outbox",
        "outgoing_unsettled",
        "outgoing_window",
        "receiver_dispositions",
        "remote_channel",
        "sender_dispositions",
        "shared_ids",
        "state",
    )

    def __init__(self, connection: Connection, channel: int) -> None:
        self.connection = connection
        self.channel = channel
        self.remote_channel = -1
        self.state = SessionState.UNMAPPED
        # The peer's begin, once it has come.
        self.begin: Begin | None = None
        self.incoming_window = IncomingWindow(connection.settings.incoming_window)
        self.outgoing_window = OutgoingWindow(FIRST_OUTGOING_ID)
        self.next_delivery_id = 0
        self.links: dict[int, Link] = {}
        self.links_by_remote_handle: dict[int, Link] = {}
        self.max_unsettled = connection.settings.max_unsettled
        # By delivery-id, as long as one delivery has it; ids of several are among `shared_ids`.
        self.incoming_unsettled: dict[int, IncomingDelivery] = {}
        self.shared_ids = SharedIds()
        self.outgoing_unsettled: dict[int, OutgoingDelivery] = {}
        self.outbox = Outbox(self, self.outgoing_window)
        self.sender_dispositions = DispositionBatch(channel, SENDER)
        self.receiver_dispositions = DispositionBatch(channel, RECEIVER)
        self.is_dirty = False
        # Whatever the application wants to find again on the session's events.
        self.context: object = None

    # --- state ----------------------------------------------------------------------------------------------

    @property
    def is_mapped(self) -> bool:
        return self.state is MAPPED

    def step(self, step: SessionInput) -> None:
        following = SESSION_TABLE.get((self.state, step))
        if following is None:
            raise NotAllowed(f"{step.value} is not allowed in session state {self.state.value}")
        self.state = following

    def write(self, performative: Performative) -> None:
        """EncodeError if it is larger than the peer's frames: only an application's own words can be."""
        data = frame(self.channel, performative.encode())
        limit = self.connection.peer_max_frame_size
        if len(data) > limit:
            kind = type(performative).__name__.lower()
            raise EncodeError(f"this {kind} takes {len(data)} bytes, the peer's frames have at most {limit}")
        self.connection.output.append(data)

    def write_ending(self, ending: Detach | End) -> None:
        """Write a detach or an end. A description too long for the peer's frames is shortened.

        A peer chooses its frame size and the names that stand in descriptions. Neither choice may keep it attached.
        """
        if ending.error is not None:
            excess = len(frame(self.channel, ending.encode())) - self.connection.peer_max_frame_size
            if excess > 0:
                ending.error = ending.error.shortened(excess)
        self.write(ending)

    def write_begin(self) -> None:
        settings = self.connection.settings
        self.step(SessionInput.SEND_BEGIN)
        self.write(
            Begin(
                None if self.remote_channel < 0 else self.remote_channel,
                self.outgoing_window.next_outgoing_id,
                self.incoming_window.window,
                settings.outgoing_window,
                settings.handle_max,
            )
        )

    def on_begin(self, begin: Begin, remote_channel: int) -> None:
        self.step(SessionInput.RECEIVE_BEGIN)
        self.begin = begin
        self.remote_channel = remote_channel
        self.incoming_window.next_incoming_id = begin.next_outgoing_id
        self.outgoing_window.remote_window = begin.incoming_window

    def end(self, error: ProtocolError | AmqpError | None = None) -> None:
        """End the session and with it its links. The peer's answer arrives as `SessionEnded`."""
        if self.state is not MAPPED:
            raise StateError(f"the session cannot be ended in state {self.state.value}")
        self.flush_dispositions()
        reason = AmqpError.of(error) if isinstance(error, ProtocolError) else error
        self.write_ending(End(reason))
        self.step(SessionInput.SEND_END if reason is None else SessionInput.SEND_END_ERROR)
        self._forget_links()

    def on_end(self) -> None:
        """The peer ends, or answers our end. What was queued behind a shut window is lost with the session."""
        self.step(SessionInput.RECEIVE_END)
        if self.state is SessionState.END_RCVD:
            self.flush_dispositions()
            self.step(SessionInput.SEND_END)
            self.write(End())
        self._forget_links()

    def abandon(self) -> None:
        """The connection is over, and with it the session: every later call on it is refused or does nothing."""
        self.state = SessionState.UNMAPPED
        self._forget_links()

    def _forget_links(self) -> None:
        # First of all: a link that is forgotten may leave an answer to others, and nobody is left to read it.
        for delivery in self.shared_ids.take_all():
            self.connection.undecided_bytes -= delivery.undecided_bytes
        for link in self.links.values():
            link.state = LinkState.DETACHED
            link.forget_deliveries()
        self.connection.link_count -= len(self.links)
        self.links.clear()
        self.links_by_remote_handle.clear()

    # --- links ----------------------------------------------------------------------------------------------

    def attach_sender(
        self,
        name: str,
        target: Target | Coordinator | None,
        source: Source | None = None,
        *,
        snd_settle_mode: int | None = None,
        rcv_settle_mode: int | None = None,
        properties: dict[object, object] | None = None,
        desired_capabilities: list[Symbol] | None = None,
    ) -> SenderLink:
        """Ask for a link on which we send. The peer's answer arrives as `LinkAttached`, or `LinkDetached` after it."""
        link = SenderLink(self, name, self._free_handle())
        source = source or Source()
        self._attach(link, source, target, snd_settle_mode, rcv_settle_mode, properties, None, desired_capabilities)
        return link

    def attach_receiver(
        self,
        name: str,
        source: Source | None,
        target: Target | None = None,
        *,
        snd_settle_mode: int | None = None,
        rcv_settle_mode: int | None = None,
        properties: dict[object, object] | None = None,
        max_message_size: int | None = None,
        desired_capabilities: list[Symbol] | None = None,
    ) -> ReceiverLink:
        """Ask for a link on which we receive. Grant credit once it is attached."""
        link = ReceiverLink(self, name, self._free_handle())
        target = target or Target()
        self._attach(
            link, source, target, snd_settle_mode, rcv_settle_mode, properties, max_message_size, desired_capabilities
        )
        return link

    def _attach(
        self,
        link: Link,
        source: Source | None,
        target: Target | Coordinator | None,
        snd_settle_mode: int | None,
        rcv_settle_mode: int | None,
        properties: dict[object, object] | None,
        max_message_size: int | None,
        desired_capabilities: list[Symbol] | None,
    ) -> None:
        if self.state is not MAPPED:
            raise StateError(f"no link can be attached in session state {self.state.value}")
        attach = Attach(
            link.name,
            link.handle,
            link.role,
            snd_settle_mode,
            rcv_settle_mode,
            source,
            target,
            initial_delivery_count=0 if link.role is SENDER else None,
            max_message_size=max_message_size,
            desired_capabilities=desired_capabilities,
            properties=properties,
        )
        link.step(LinkInput.SEND_ATTACH)
        link.on_accept(attach)
        # Written first: what cannot be encoded must leave no link behind.
        self.write(attach)
        self.links[link.handle] = link
        self.connection.link_count += 1

    def _free_handle(self, preferred: int = 0) -> int:
        """The peer's own number if it is free, else the lowest. Both peers bound how many there are."""
        highest = self.connection.settings.handle_max
        if self.begin is not None:
            highest = min(highest, self.begin.handle_max)
        if preferred <= highest and preferred not in self.links:
            return preferred
        for handle in range(highest + 1):
            if handle not in self.links:
                return handle
        raise StateError(f"all {highest + 1} handles of the session are in use")

    def _on_attach(self, attach: Attach, events: list[Event]) -> None:
        if attach.handle > self.connection.settings.handle_max:
            raise FramingError(f"attach.handle {attach.handle} is above {self.connection.settings.handle_max}")
        if len(attach.name) > limits.MAX_NAME_CHARACTERS:
            raise InvalidField(f"attach.name has {len(attach.name)} characters, at most {limits.MAX_NAME_CHARACTERS}")
        if attach.handle in self.links_by_remote_handle:
            raise HandleInUse(f"attach.handle {attach.handle} is attached already")
        link = self._awaiting(attach)
        if link is None:
            self._steal(attach, events)
            link = self._new_link(attach)
            self.links[link.handle] = link
            self.connection.link_count += 1
        link.remote_handle = attach.handle
        self.links_by_remote_handle[attach.handle] = link
        link.on_attach(attach)
        if link.state is LinkState.ATTACH_RCVD:
            self._require_room_to_answer(link)
        events.append(LinkAttached(link, attach))

    def _require_room_to_answer(self, link: Link) -> None:
        """Our attach repeats the peer's name and termini, and has to fit into a frame that the peer takes."""
        size = len(frame(self.channel, link.attach_reply().encode()))
        limit = self.connection.peer_max_frame_size
        if size > limit:
            raise FrameSizeTooSmall(f"the answer to an attach takes {size} bytes, open.max-frame-size is {limit}")

    def _new_link(self, attach: Attach) -> Link:
        """Our end of a link that the peer begins: the opposite of its own."""
        try:
            handle = self._free_handle(attach.handle)
        except StateError as error:
            # Only a peer with a handle-max below the number of links it attaches gets here.
            raise InvalidField(f"no handle is left to answer an attach: {error}", Scope.SESSION) from error
        if attach.role is SENDER:
            return ReceiverLink(self, attach.name, handle)
        return SenderLink(self, attach.name, handle)

    def _awaiting(self, attach: Attach) -> Link | None:
        """The link we asked for and this attach answers. A link is known by its name and direction."""
        for link in self.links.values():
            is_waiting = link.remote_handle < 0 and link.role is not attach.role
            if is_waiting and link.name == attach.name:
                return link
        return None

    def _steal(self, attach: Attach, events: list[Event]) -> None:
        """An attach under a name in use takes the link over; the old one learns of it (part 2.6.1)."""
        for link in list(self.links.values()):
            is_in_use = link.is_attached or link.state is LinkState.ATTACH_RCVD
            if is_in_use and link.name == attach.name and link.role is not attach.role:
                self._fail_link(link, LinkStolen(f"link '{link.name:.80}' was attached again"), events)

    def _link(self, handle: int, what: str) -> Link:
        link = self.links_by_remote_handle.get(handle)
        if link is None:
            raise UnattachedHandle(f"{what} came for handle {handle}, which is not attached")
        return link

    def _on_detach(self, detach: Detach, events: list[Event]) -> None:
        link = self._link(detach.handle, "detach")
        if link.state is LinkState.ATTACH_RCVD:
            # The peer gave up before the application answered. Its client knows only handles that were attached
            # back, so the attach has to be answered first.
            reply = link.attach_reply()
            reply.source = None
            reply.target = None
            link.step(LinkInput.SEND_ATTACH)
            self.write(reply)
        link.step(LinkInput.RECEIVE_DETACH)
        if link.state is LinkState.DETACH_RCVD:
            link.step(LinkInput.SEND_DETACH)
            link.write_detach(None)
        del self.links_by_remote_handle[detach.handle]
        del self.links[link.handle]
        self.connection.link_count -= 1
        events.append(LinkDetached(link, detach.error, detach.closed))

    # --- frames in ------------------------------------------------------------------------------------------

    def on_transfer(self, transfer: Transfer, payload: bytes, events: list[Event]) -> None:
        """One transfer: the hot path of everything that is sent to us."""
        if self.state is not MAPPED:
            self.step(SessionInput.RECEIVE_FRAME)
            return
        window = self.incoming_window
        try:
            window.on_transfer()
            link = self.links_by_remote_handle.get(transfer.handle)
            if link is None or link.state is not DETACH_SENT:
                if not isinstance(link, ReceiverLink):
                    link = self._link(transfer.handle, "transfer")
                    raise NotAllowed(f"transfer came on link '{link.name:.80}', on which we send", Scope.LINK)
                link.on_transfer(transfer, payload, events)
        except ProtocolError as error:
            self._fail(error, transfer.handle, events)
        # What is swallowed behind our detach uses the window up like anything else.
        if window.is_low and not self.is_dirty:
            self.mark_dirty()

    def on_frame(self, performative: Performative, events: list[Event]) -> None:
        """Attach, detach, flow or disposition. Frames for a session that is over are swallowed (part 2.5.5)."""
        if self.state is not MAPPED:
            self.step(SessionInput.RECEIVE_FRAME)
            return
        handle: int | None = None
        try:
            if isinstance(performative, Disposition):
                self._on_disposition(performative, events)
            elif isinstance(performative, Flow):
                handle = performative.handle
                self._on_flow(performative, events)
            elif isinstance(performative, Attach):
                self._on_attach(performative, events)
            else:
                assert isinstance(performative, Detach)
                self._on_detach(performative, events)
        except ProtocolError as error:
            self._fail(error, handle, events)

    def _fail(self, error: ProtocolError, handle: int | None, events: list[Event]) -> None:
        """End what the error's scope says: the link, this session, or (by raising on) the connection."""
        if error.scope is Scope.CONNECTION:
            raise error
        if error.scope is Scope.LINK and handle is not None:
            self._fail_link(self.links_by_remote_handle[handle], error, events)
            return
        self.end(error)
        events.append(SessionFailed(self, error))

    def _fail_link(self, link: Link, error: ProtocolError, events: list[Event]) -> None:
        link.detach(error)
        events.append(LinkFailed(link, error))

    def _on_flow(self, flow: Flow, events: list[Event]) -> None:
        self.outgoing_window.on_flow(flow.next_incoming_id, flow.incoming_window)
        if self.outbox.pending:
            self.outbox.send_pending()
        if flow.handle is None:
            if flow.echo:
                self.write_flow(None, None, None, None, False)
            return
        link = self._link(flow.handle, "flow")
        link.step(LinkInput.RECEIVE_FRAME)
        if link.state is not LinkState.DETACH_SENT:
            link.on_flow(flow, events)

    def _on_disposition(self, disposition: Disposition, events: list[Event]) -> None:
        first = disposition.first
        last = first if disposition.last is None else disposition.last
        if is_ahead(first, last):
            raise InvalidField(f"disposition.last {last} comes before disposition.first {first}", Scope.SESSION)
        if disposition.role is RECEIVER:
            unsettled_count = len(self.outgoing_unsettled)
            named = _named(first, last, self.outgoing_unsettled)
        else:
            unsettled_count = len(self.incoming_unsettled)
            named = _named(first, last, self.incoming_unsettled)
        if not isinstance(named, range):
            # All of them were looked at.
            self.connection.work_left -= unsettled_count >> _LOOKS_PER_WORK_SHIFT
        self.go_on_settling(disposition, named, 0, events)

    def go_on_settling(
        self, disposition: Disposition, named: list[int] | range, start: int, events: list[Event]
    ) -> None:
        """Settle as many of the deliveries that a disposition names as there is work left for.

        The connection calls this again for the others, before it handles another frame.
        """
        connection = self.connection
        connection.unfinished = None
        if self.state is not MAPPED:
            return
        end = start + max(_MIN_SETTLED, connection.work_left)
        if end < len(named):
            connection.unfinished = Unfinished(self, disposition, named, end)
        if start or end < len(named):
            named = named[start:end]
        connection.work_left -= len(named)
        if disposition.role is RECEIVER:
            self._on_receiver_disposition(named, disposition, events)
            return
        self._on_sender_disposition(named, disposition, events)
        if connection.unfinished is None and self.shared_ids.undecided_count:
            last = disposition.first if disposition.last is None else disposition.last
            shared = self.shared_ids.named(disposition.first, last, disposition.settled is True)
            self._settle_incoming(shared, disposition, events)

    def _on_receiver_disposition(self, named: list[int] | range, disposition: Disposition, events: list[Event]) -> None:
        """The receiver's word on what we sent: one event per run of deliveries of the same link."""
        unsettled = self.outgoing_unsettled
        event: DispositionReceived | None = None
        for delivery_id in named:
            delivery = unsettled.pop(delivery_id, None) if disposition.settled else unsettled.get(delivery_id)
            if delivery is None:
                continue
            if disposition.state is not None:
                delivery.state = disposition.state
            if disposition.settled:
                delivery.link.unsettled.discard(delivery_id)
                delivery.is_settled = True
            if event is None or event.link is not delivery.link:
                event = DispositionReceived(delivery.link, [delivery], disposition.state, disposition.settled)
                events.append(event)
            else:
                event.deliveries.append(delivery)

    def _on_sender_disposition(self, named: list[int] | range, disposition: Disposition, events: list[Event]) -> None:
        """The sender's word on what it sent us. The same as above on other types: a shared form would lose them, and
        with them the native code for what happens once per message."""
        unsettled = self.incoming_unsettled
        deliveries: list[IncomingDelivery] = []
        for delivery_id in named:
            delivery = unsettled.pop(delivery_id, None) if disposition.settled else unsettled.get(delivery_id)
            if delivery is not None:
                deliveries.append(delivery)
        self._settle_incoming(deliveries, disposition, events)

    def _settle_incoming(
        self, deliveries: list[IncomingDelivery], disposition: Disposition, events: list[Event]
    ) -> None:
        event: SettlementReceived | None = None
        for delivery in deliveries:
            if disposition.state is not None:
                delivery.state = disposition.state
            if disposition.settled:
                delivery.link.unsettled.discard(delivery.delivery_id)
                self.connection.undecided_bytes -= delivery.undecided_bytes
                delivery.is_settled = True
            if event is None or event.link is not delivery.link:
                event = SettlementReceived(delivery.link, [delivery], disposition.state, disposition.settled)
                events.append(event)
            else:
                event.deliveries.append(delivery)

    # --- frames out -----------------------------------------------------------------------------------------

    def take_delivery_id(self) -> int:
        delivery_id = self.next_delivery_id
        self.next_delivery_id = add(delivery_id, 1)
        return delivery_id

    def fitting(self, state: DeliveryState) -> DeliveryState:
        """Return the state as the peer's frames can hold it: the description of a rejection is shortened.

        Called before a delivery is settled: its disposition may be written much later, when no caller is left to
        handle an error.
        """
        limit = self.connection.peer_max_frame_size - DISPOSITION_HEAD_BYTES
        excess = len(state.encoded()) - limit
        if excess > 0 and isinstance(state, Rejected) and state.error is not None:
            state = Rejected(state.error.shortened(excess))
            excess = len(state.encoded()) - limit
        if excess > 0:
            raise EncodeError(f"a delivery state has at most {limit} bytes in the peer's frames: {state!r:.80}")
        return state

    def dispose(self, batch: DispositionBatch, delivery_id: int, state: DeliveryState | None, is_settled: bool) -> None:
        batch.add(delivery_id, state, is_settled, self.connection.output)
        if isinstance(state, TransactionalState):
            # Not held back: the discharge that follows is a transfer, written at once, and must not overtake the work.
            batch.flush(self.connection.output)
        elif not self.is_dirty:
            self.mark_dirty()

    def mark_dirty(self) -> None:
        """Have `flush` called when the connection's output is taken."""
        self.is_dirty = True
        self.connection.dirty_sessions.append(self)

    def flush_dispositions(self) -> None:
        self.sender_dispositions.flush(self.connection.output)
        self.receiver_dispositions.flush(self.connection.output)

    def flush(self) -> None:
        """Write what was held back to be merged: dispositions, and the window if it ran low."""
        self.is_dirty = False
        self.flush_dispositions()
        if self.incoming_window.is_low and self.state is MAPPED:
            self.write_flow(None, None, None, None, False)

    def write_flow(
        self,
        handle: int | None,
        delivery_count: int | None,
        link_credit: int | None,
        available: int | None,
        drain: bool,
    ) -> None:
        """A flow for a link or for the session alone. Every flow reopens our window: it states it anyway."""
        self.incoming_window.reopen()
        flow = Flow(
            self.incoming_window.next_incoming_id,
            self.incoming_window.window,
            self.outgoing_window.next_outgoing_id,
            self.connection.settings.outgoing_window,
            handle,
            delivery_count,
            link_credit,
            available,
            drain,
        )
        self.connection.output.append(flow_frame(self.channel, flow))

    def __repr__(self) -> str:
        return f"Session(channel={self.channel}, {self.state.value})"


def _named(
    first: int, last: int, unsettled: dict[int, IncomingDelivery] | dict[int, OutgoingDelivery]
) -> list[int] | range:
    """The ids from `first` to `last` that may be in `unsettled`, never more of them than it holds.

    A range is as large as the peer likes, up to 2^31; what we hold bounds the work.
    """
    count = distance(last, first) + 1
    if count == 1:
        return range(first, first + 1)
    if count <= len(unsettled) and first <= last:
        return range(first, last + 1)
    return [delivery_id for delivery_id in unsettled if distance(delivery_id, first) < count]
