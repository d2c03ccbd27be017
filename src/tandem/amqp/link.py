"""Links (AMQP 1.0 part 2.6): `SenderLink` for messages to the peer, `ReceiverLink` for messages from it.

A link is created by its session: by `attach_sender`/`attach_receiver` when we begin, by a received attach when the
peer does. After a detach it keeps nothing for a later resumption, so every detach we write says closed=true.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from tandem import limits
from tandem.amqp.credit import ReceiverCredit, SenderCredit
from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
from tandem.amqp.delivery_states import ACCEPTED, RELEASED, AmqpError, DeliveryState, Rejected
from tandem.amqp.events import CreditDrained, CreditReceived, DeliveryAborted, DeliveryRefused, Event
from tandem.amqp.outbox import PendingFlow
from tandem.amqp.performatives import (
    MAX_UINT,
    RECEIVER,
    SENDER,
    Attach,
    Detach,
    Flow,
    Transfer,
    decode_performative,
)
from tandem.amqp.states import LINK_TABLE, LinkInput, LinkState
from tandem.errors import (
    EncodeError,
    InvalidField,
    MessageSizeExceeded,
    NotAllowed,
    ProtocolError,
    ResourceLimitExceeded,
    Scope,
    StateError,
    TransferLimitExceeded,
)

if TYPE_CHECKING:
    from tandem.amqp.session import Session

__all__ = ["Link", "ReceiverLink", "SenderLink"]

ATTACHED: Final = LinkState.ATTACHED
_pack_tag: Final = struct.Struct(">I").pack

# A transfer's head with its tag takes up to 80 bytes; with its state it must leave room for payload in the smallest
# frames a peer may ask for, 512 bytes.
MAX_STATE_BYTES: Final = 256

# A handle that no link can have: the peer's is not known yet.
NO_HANDLE: Final = -1


class Link:
    """What both directions have in common."""

    __slots__ = (
        "attach",
        "context",
        "encoded_attach",
        "handle",
        "name",
        "owes_flow",
        "remote_handle",
        "role",
        "session",
        "state",
    )

    def __init__(self, session: Session, name: str, handle: int, role: bool) -> None:
        self.session = session
        self.name = name
        self.handle = handle
        # Ours: SENDER on a SenderLink, RECEIVER on a ReceiverLink.
        self.role = role
        self.remote_handle = NO_HANDLE
        self.state = LinkState.DETACHED
        # The peer's attach, once it has come and until the application forgets it.
        self.attach: Attach | None = None
        # The same if it is forgotten before it is answered.
        self.encoded_attach = b""
        # The peer asked for a flow before its attach was answered.
        self.owes_flow = False
        # Whatever the application wants to find again on the link's events.
        self.context: object = None

    @property
    def is_attached(self) -> bool:
        return self.state is ATTACHED

    @property
    def is_gone(self) -> bool:
        """Detached from either side. What the application still says on it is said to nobody, and does nothing.

        It cannot know better: a peer may attach, send and detach in one write, and all of it is reported at once.
        """
        return self.state is LinkState.DETACHED or self.state is LinkState.DETACH_SENT

    def require_attached(self, what: str) -> None:
        if self.state is not ATTACHED:
            raise StateError(f"link '{self.name}' cannot {what} in state {self.state.value}")

    def step(self, step: LinkInput) -> None:
        following = LINK_TABLE.get((self.state, step))
        if following is None:
            raise NotAllowed(
                f"{step.value} is not allowed on link '{self.name:.80}' in state {self.state.value}", Scope.SESSION
            )
        self.state = following

    def attach_reply(self) -> Attach:
        """Our attach as an echo of the peer's, to be changed where the application wants to, and given to `accept`.

        Modes and termini are repeated exactly: clients compare them with what they asked for.
        """
        asked = self._decoded_attach() if self.attach is None else self.attach
        if asked is None:
            raise StateError(f"the peer asked for no attach of link '{self.name}' (state {self.state.value})")
        return Attach(
            self.name,
            self.handle,
            self.role,
            asked.snd_settle_mode,
            asked.rcv_settle_mode,
            asked.source,
            asked.target,
            initial_delivery_count=0 if self.role is SENDER else None,
        )

    def forget_attach(self) -> None:
        """Keep the peer's attach no longer: it may be large. One that has to be answered yet is kept encoded, which
        takes a small part of the memory."""
        if self.state is LinkState.ATTACH_RCVD and self.attach is not None:
            self.encoded_attach = self.attach.encode()
        self.attach = None

    def _decoded_attach(self) -> Attach | None:
        if not self.encoded_attach:
            return None
        attach, _ = decode_performative(self.encoded_attach, 0, len(self.encoded_attach))
        assert isinstance(attach, Attach)
        return attach

    def accept(self, reply: Attach | None = None) -> None:
        """Answer the peer's attach with ours. A link that is gone needs no answer any more."""
        if self.is_gone:
            return
        self._require_unanswered()
        if reply is None:
            reply = self.attach_reply()
        # Written first: what cannot be encoded must leave the attach unanswered.
        self.session.write(reply)
        self.step(LinkInput.SEND_ATTACH)
        self.on_accept(reply)
        if self.owes_flow:
            self.owes_flow = False
            self.write_flow()

    def _require_unanswered(self) -> None:
        if self.state is not LinkState.ATTACH_RCVD:
            raise StateError(f"the peer waits for no answer on link '{self.name}' (state {self.state.value})")

    def on_accept(self, reply: Attach) -> None:
        """What a direction does with its own attach."""

    def refuse(self, error: ProtocolError | AmqpError | None) -> None:
        """Answer the peer's attach with one that has neither source nor target, then detach (part 2.6.3)."""
        if self.is_gone:
            return
        self._require_unanswered()
        reply = self.attach_reply()
        reply.source = None
        reply.target = None
        self.step(LinkInput.SEND_ATTACH)
        self.session.write(reply)
        self.detach(error)

    def detach(self, error: ProtocolError | AmqpError | None = None) -> None:
        """Close the link in whatever state it is, with a reason or without. The peer's answer arrives as
        `LinkDetached`. An attach that was not answered yet is refused."""
        if self.is_gone:
            return
        if self.state is LinkState.ATTACH_RCVD:
            self.refuse(error)
            return
        self.write_detach(error)
        self.step(LinkInput.SEND_DETACH)

    def write_detach(self, error: ProtocolError | AmqpError | None) -> None:
        reason = AmqpError.of(error) if isinstance(error, ProtocolError) else error
        self.session.flush_dispositions()
        self.session.write_ending(Detach(self.handle, True, reason))
        self.forget_deliveries()

    def forget_deliveries(self) -> None:
        """The link is over: nobody will settle what was under way on it."""

    def on_attach(self, attach: Attach) -> None:
        """The peer's attach came."""
        self.step(LinkInput.RECEIVE_ATTACH)
        self.attach = attach

    def on_flow(self, flow: Flow, events: list[Event]) -> None:
        raise NotImplementedError

    def write_flow(self) -> None:
        """Write a flow with our state of the link."""
        raise NotImplementedError

    def echo_flow(self) -> None:
        """Answer a flow that asks for one, now or right behind the answer to its attach."""
        if self.state is ATTACHED:
            self.write_flow()
        else:
            self.owes_flow = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, handle={self.handle}, {self.state.value})"


class SenderLink(Link):
    """We send, the peer grants credit."""

    __slots__ = ("available", "flow_state", "unsettled", "waiting_flow")

    def __init__(self, session: Session, name: str, handle: int) -> None:
        super().__init__(session, name, handle, SENDER)
        self.flow_state = SenderCredit()
        # How many messages wait here for credit; told to the peer in flows. The application may set it.
        self.available = 0
        self.unsettled: set[int] = set()
        # A flow of ours that waits behind deliveries for the peer's window.
        self.waiting_flow: PendingFlow | None = None

    @property
    def credit(self) -> int:
        """How many deliveries the receiver will take."""
        return self.flow_state.credit

    @property
    def is_draining(self) -> bool:
        """The receiver wants what there is now, and then `drained()`."""
        return self.flow_state.is_draining

    def send(
        self,
        payload: bytes,
        delivery_tag: bytes | None = None,
        *,
        prefix: bytes = b"",
        is_settled: bool = False,
        message_format: int = 0,
        state: DeliveryState | None = None,
        context: object = None,
    ) -> OutgoingDelivery:
        """Send one message, using one credit. With `is_settled` it is forgotten at once.

        What `prefix` holds goes before the payload, as if it were a part of it that nobody had to copy.
        """
        if self.state is not ATTACHED:
            raise StateError(f"link '{self.name}' cannot send in state {self.state.value}")
        if delivery_tag is not None and len(delivery_tag) > limits.MAX_DELIVERY_TAG_BYTES:
            raise EncodeError(f"a delivery tag has at most {limits.MAX_DELIVERY_TAG_BYTES} bytes: {delivery_tag!r}")
        if state is not None and len(state.encoded()) > MAX_STATE_BYTES:
            # A delivery state cannot be split over frames (part 2.8.9, frame-size-too-small).
            raise EncodeError(f"a transfer's state has at most {MAX_STATE_BYTES} bytes, so as to fit any frame")
        if not 0 <= message_format <= MAX_UINT:
            raise EncodeError(f"a message-format is from 0 to {MAX_UINT}, not {message_format}")
        self.flow_state.take()
        session = self.session
        delivery_id = session.take_delivery_id()
        if delivery_tag is None:
            delivery_tag = _pack_tag(delivery_id)
        delivery = OutgoingDelivery(self, delivery_id, delivery_tag, is_settled, context)
        if not is_settled:
            session.outgoing_unsettled[delivery_id] = delivery
            self.unsettled.add(delivery_id)
        session.outbox.send(delivery, prefix, payload, message_format, state)
        return delivery

    def settle(self, delivery: OutgoingDelivery, state: DeliveryState | None) -> None:
        """Settle what we sent, usually as the echo of the receiver's outcome. Settling twice does nothing."""
        session = self.session
        delivery_id = delivery.delivery_id
        if delivery.link is not self or session.outgoing_unsettled.get(delivery_id) is not delivery:
            return
        if state is not None and state is not ACCEPTED and state is not RELEASED:
            state = session.fitting(state)
        self.unsettled.remove(delivery_id)
        del session.outgoing_unsettled[delivery_id]
        delivery.is_settled = True
        session.dispose(session.sender_dispositions, delivery_id, state, True)

    def drained(self) -> None:
        """Give the credit left back: there is nothing more to send for this drain. A link that is gone has none."""
        if self.state is ATTACHED:
            self.flow_state.drained()
            self.write_flow()

    def write_flow(self) -> None:
        """Write a flow with our count, credit and what is available."""
        self.require_attached("write a flow")
        state = self.flow_state
        self.session.outbox.send_flow(self, state.delivery_count, state.credit, self.available, state.is_draining)

    def on_flow(self, flow: Flow, events: list[Event]) -> None:
        """Take the receiver's credit. It counts even before its attach is answered: SDKs write both at once."""
        self.flow_state.on_flow(flow.delivery_count, flow.link_credit, flow.drain)
        if flow.echo:
            self.echo_flow()
        events.append(CreditReceived(self))

    def forget_deliveries(self) -> None:
        self.session.outbox.drop(self)
        # Nobody should be tempted to send.
        self.flow_state.credit = 0
        for delivery_id in self.unsettled:
            del self.session.outgoing_unsettled[delivery_id]
        self.unsettled.clear()


class _Partial:
    """A delivery of which more transfers are to come. Once over the limit only its size is kept.

    The bytes are gathered in one buffer: a list of chunks would let a peer that sends them one by one, or empty,
    make us hold many times what it sent.
    """

    __slots__ = ("buffer", "delivery_id", "delivery_tag", "is_settled", "message_format", "size_bytes", "state")

    def __init__(self, delivery_id: int, delivery_tag: bytes, transfer: Transfer) -> None:
        self.delivery_id = delivery_id
        self.delivery_tag = delivery_tag
        self.message_format = transfer.message_format or 0
        self.is_settled = False
        self.state: DeliveryState | None = None
        self.buffer = bytearray()
        self.size_bytes = 0


class ReceiverLink(Link):
    """The peer sends, we grant credit."""

    __slots__ = ("flow_state", "max_message_size", "partial", "unsettled", "work_per_delivery")

    def __init__(self, session: Session, name: str, handle: int) -> None:
        super().__init__(session, name, handle, RECEIVER)
        self.flow_state = ReceiverCredit()
        self.max_message_size = session.connection.settings.max_message_size
        self.partial: _Partial | None = None
        self.unsettled: set[int] = set()
        # What the application needs for a delivery beside the cost of its frames, in `Connection.receive`'s units.
        self.work_per_delivery = 0

    @property
    def credit(self) -> int:
        """How many deliveries the peer may still send."""
        return self.flow_state.credit

    def grant(self, credit: int, *, drain: bool = False) -> None:
        """Let the peer have `credit` deliveries from now on, in place of what it had."""
        if self.is_gone:
            return
        self.require_attached("grant credit")
        if not 0 <= credit <= MAX_UINT:
            raise EncodeError(f"credit is from 0 to {MAX_UINT}, not {credit}")
        self.flow_state.grant(credit, drain)
        self.write_flow()

    def write_flow(self) -> None:
        """Write a flow with our count and credit."""
        self.require_attached("write a flow")
        state = self.flow_state
        self.session.write_flow(self.handle, state.delivery_count, state.credit, 0, state.is_draining)

    def settle(
        self, delivery: IncomingDelivery, state: DeliveryState | None = ACCEPTED, *, is_settled: bool = True
    ) -> None:
        """Send the outcome. With `is_settled` false, wait for the sender to settle (mode second).

        Nothing happens if the delivery is settled already or its link is gone: no peer is left to read it.
        """
        session = self.session
        delivery_id = delivery.delivery_id
        # By identity: once the sender has settled it, it may use the id for another delivery.
        if delivery.link is not self or session.incoming_unsettled.get(delivery_id) is not delivery:
            if session.shared_ids.undecided_count:
                self._settle_shared(delivery, state)
            return
        if state is not None and state is not ACCEPTED and state is not RELEASED:
            state = session.fitting(state)
        session.connection.undecided_bytes -= delivery.undecided_bytes
        delivery.undecided_bytes = 0
        if is_settled:
            self.unsettled.remove(delivery_id)
            del session.incoming_unsettled[delivery_id]
            delivery.is_settled = True
        session.dispose(session.receiver_dispositions, delivery_id, state, is_settled)

    def _settle_shared(self, delivery: IncomingDelivery, state: DeliveryState | None) -> None:
        """Decide a delivery that shares its id. The last one to be decided settles them all, in mode second too."""
        session = self.session
        if delivery.link is not self or not session.shared_ids.has_undecided(delivery):
            return
        if state is not None:
            state = session.fitting(state)
        session.connection.undecided_bytes -= delivery.undecided_bytes
        delivery.undecided_bytes = 0
        delivery.is_settled = True
        shared = session.shared_ids.decide(delivery, state)
        if shared is not None:
            session.dispose(session.receiver_dispositions, shared.delivery_id, shared.outcome, True)

    def on_accept(self, reply: Attach) -> None:
        self._learn_limit(reply)

    def _learn_limit(self, ours: Attach) -> None:
        # What we announce is what we enforce; 0 and null both mean that the connection's own limit holds.
        if ours.max_message_size:
            self.max_message_size = min(ours.max_message_size, self.max_message_size)

    def on_attach(self, attach: Attach) -> None:
        super().on_attach(attach)
        if attach.initial_delivery_count is not None:
            self.flow_state.delivery_count = attach.initial_delivery_count

    def on_flow(self, flow: Flow, events: list[Event]) -> None:
        if self.flow_state.on_flow(flow.delivery_count):
            events.append(CreditDrained(self))
        if flow.echo:
            self.echo_flow()

    def on_transfer(self, transfer: Transfer, payload: bytes, events: list[Event]) -> None:
        """One frame of a delivery; most deliveries have just one, and those never touch `partial`."""
        partial = self.partial
        if partial is not None:
            self._continue(partial, transfer, payload, events)
            return
        delivery_id = transfer.delivery_id
        delivery_tag = transfer.delivery_tag
        if delivery_id is None or delivery_tag is None:
            raise InvalidField("the first transfer of a delivery must have delivery-id and delivery-tag", Scope.LINK)
        if len(delivery_tag) > limits.MAX_DELIVERY_TAG_BYTES:
            raise InvalidField(
                f"transfer.delivery-tag has {len(delivery_tag)} bytes, the limit is {limits.MAX_DELIVERY_TAG_BYTES}",
                Scope.LINK,
            )
        flow_state = self.flow_state
        flow_state.on_delivery()
        session = self.session
        session.connection.work_left -= self.work_per_delivery
        if flow_state.overrun or len(session.incoming_unsettled) >= session.max_unsettled:
            self._judge(flow_state.overrun)
        if transfer.more or transfer.aborted or len(payload) > self.max_message_size:
            partial = _Partial(delivery_id, delivery_tag, transfer)
            self._continue(partial, transfer, payload, events)
            return
        is_settled = transfer.settled is True
        delivery = IncomingDelivery(
            self, delivery_id, delivery_tag, transfer.message_format or 0, is_settled, transfer.state, payload
        )
        if not is_settled:
            self._remember(delivery)
        events.append(delivery)

    def _judge(self, overrun: int) -> None:
        """More deliveries than there was credit, or as many unsettled ones as we hold: is it too much?"""
        settings = self.session.connection.settings
        if overrun > settings.max_credit_overrun:
            raise TransferLimitExceeded(
                f"{overrun} deliveries came beyond the credit of link '{self.name:.80}', "
                f"the limit is {settings.max_credit_overrun}"
            )
        unsettled = len(self.session.incoming_unsettled)
        if unsettled >= settings.max_unsettled:
            raise ResourceLimitExceeded(
                f"the session holds {unsettled} unsettled deliveries, the limit is {settings.max_unsettled}",
                Scope.SESSION,
            )

    def _remember(self, delivery: IncomingDelivery) -> None:
        session = self.session
        delivery_id = delivery.delivery_id
        unsettled = session.incoming_unsettled
        shared_ids = session.shared_ids
        # Checked here and not with the first transfer: another link may have used the id since.
        if delivery_id in unsettled or (shared_ids.undecided_count and delivery_id in shared_ids):
            self._share_id(delivery)
        else:
            unsettled[delivery_id] = delivery
            self.unsettled.add(delivery_id)
        delivery.undecided_bytes = len(delivery.payload)
        session.connection.undecided_bytes += delivery.undecided_bytes

    def _share_id(self, delivery: IncomingDelivery) -> None:
        """Keep a delivery whose id is in use, and move the earlier one that has the id beside it."""
        session = self.session
        count = session.shared_ids.undecided_count
        if count >= session.max_unsettled:
            raise ResourceLimitExceeded(
                f"{count} unsettled deliveries of the session share their delivery-ids with others, "
                f"the limit is {session.max_unsettled}",
                Scope.SESSION,
            )
        earlier = session.incoming_unsettled.pop(delivery.delivery_id, None)
        if earlier is not None:
            earlier.link.unsettled.remove(delivery.delivery_id)
            session.shared_ids.add(earlier)
        session.shared_ids.add(delivery)

    def _continue(self, partial: _Partial, transfer: Transfer, payload: bytes, events: list[Event]) -> None:
        """Add one frame to a delivery of several."""
        if transfer.delivery_id is not None and transfer.delivery_id != partial.delivery_id:
            raise InvalidField(
                f"transfer.delivery-id {transfer.delivery_id} came before delivery {partial.delivery_id} was complete",
                Scope.LINK,
            )
        if transfer.aborted:
            self._drop_partial(partial)
            events.append(DeliveryAborted(self, partial.delivery_id))
            return
        partial.size_bytes += len(payload)
        self._gather(partial, payload)
        if transfer.settled:
            partial.is_settled = True
        if transfer.state is not None:
            partial.state = transfer.state
        if transfer.more:
            self.partial = partial
        else:
            self._complete(partial, events)
            self._drop_partial(partial)

    def _gather(self, partial: _Partial, payload: bytes) -> None:
        """Keep a piece, or nothing at all once the delivery is over its limit, within the connection's own."""
        connection = self.session.connection
        if partial.size_bytes > self.max_message_size:
            connection.incomplete_bytes -= len(partial.buffer)
            partial.buffer.clear()
            return
        partial.buffer += payload
        connection.incomplete_bytes += len(payload)
        # One message of the largest size that the link takes is never too much.
        limit = max(connection.settings.max_incomplete, self.max_message_size)
        if connection.incomplete_bytes > limit:
            raise ResourceLimitExceeded(
                f"incomplete deliveries hold {connection.incomplete_bytes} bytes on this connection, limit {limit}"
            )

    def _drop_partial(self, partial: _Partial) -> None:
        self.partial = None
        self.session.connection.incomplete_bytes -= len(partial.buffer)
        partial.buffer.clear()

    def _complete(self, partial: _Partial, events: list[Event]) -> None:
        if partial.size_bytes > self.max_message_size:
            self._refuse(partial, events)
            return
        payload = bytes(partial.buffer)
        delivery = IncomingDelivery(
            self,
            partial.delivery_id,
            partial.delivery_tag,
            partial.message_format,
            partial.is_settled,
            partial.state,
            payload,
        )
        if not partial.is_settled:
            self._remember(delivery)
        events.append(delivery)

    def _refuse(self, partial: _Partial, events: list[Event]) -> None:
        """Reject a message over the limit. One sent settled takes no answer: then only a detach can tell."""
        error = MessageSizeExceeded(
            f"The received message (delivery-id:{partial.delivery_id}, size:{partial.size_bytes} bytes) exceeds the "
            f"limit ({self.max_message_size} bytes) currently allowed on the link."
        )
        if partial.is_settled:
            raise error
        session = self.session
        state = Rejected(AmqpError.of(error))
        session.dispose(session.receiver_dispositions, partial.delivery_id, state, True)
        events.append(DeliveryRefused(self, partial.delivery_id, partial.size_bytes))

    def forget_deliveries(self) -> None:
        if self.partial is not None:
            self._drop_partial(self.partial)
        session = self.session
        for delivery_id in self.unsettled:
            session.connection.undecided_bytes -= session.incoming_unsettled.pop(delivery_id).undecided_bytes
        self.unsettled.clear()
        forgotten, answerable = session.shared_ids.forget_link(self)
        for delivery in forgotten:
            session.connection.undecided_bytes -= delivery.undecided_bytes
        for shared in answerable:
            session.dispose(session.receiver_dispositions, shared.delivery_id, shared.outcome, True)
