"""Deliveries on their way out of a session: written at once, or held back until the peer's incoming window opens
(AMQP 1.0 part 2.5.6)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from tandem.amqp.deliveries import OutgoingDelivery
from tandem.amqp.delivery_states import DeliveryState
from tandem.amqp.hot_paths import TRANSFER_HEAD_BYTES, frame, transfer_frame_head
from tandem.amqp.performatives import Transfer
from tandem.amqp.windows import OutgoingWindow

if TYPE_CHECKING:
    from tandem.amqp.connection import Connection
    from tandem.amqp.link import SenderLink
    from tandem.amqp.session import Session

__all__ = ["Outbox", "PendingFlow"]


class Pending:
    """What waits for the peer's incoming window, or behind something that does."""

    __slots__ = ("link",)

    def __init__(self, link: SenderLink) -> None:
        self.link = link


class PendingFlow(Pending):
    """A flow that must not overtake the deliveries of its link that it counts.

    A link has one at most behind its last waiting delivery, and a newer flow changes it: a peer that asks for flows
    while its window is shut cannot make us hold more of them.
    """

    __slots__ = ("available", "delivery_count", "drain", "link_credit")

    def __init__(self, link: SenderLink) -> None:
        super().__init__(link)
        self.delivery_count = 0
        self.link_credit = 0
        self.available = 0
        self.drain = False

    def update(self, delivery_count: int, link_credit: int, available: int, drain: bool) -> None:
        self.delivery_count = delivery_count
        self.link_credit = link_credit
        self.available = available
        self.drain = drain


class PendingTransfer(Pending):
    """A delivery, whole or what is left of it."""

    __slots__ = ("delivery", "message_format", "offset", "payload", "state")

    def __init__(
        self, delivery: OutgoingDelivery, payload: bytes, message_format: int, state: DeliveryState | None
    ) -> None:
        super().__init__(delivery.link)
        self.delivery = delivery
        self.payload = payload
        self.message_format = message_format
        self.state = state
        self.offset = 0


class Outbox:
    """What one session sends, in the order in which it was sent."""

    __slots__ = ("_channel", "_connection", "_session", "_window", "pending")

    def __init__(self, session: Session, window: OutgoingWindow) -> None:
        self._session = session
        self._channel = session.channel
        self._connection: Connection = session.connection
        self._window = window
        self.pending: deque[Pending] = deque()

    def send(
        self,
        delivery: OutgoingDelivery,
        prefix: bytes,
        payload: bytes,
        message_format: int,
        state: DeliveryState | None,
    ) -> None:
        """Write a delivery now, as far as the peer's window and frame size let us."""
        window = self._window
        connection = self._connection
        length = len(prefix) + len(payload)
        head_length = TRANSFER_HEAD_BYTES + len(delivery.delivery_tag)
        fits = head_length + length <= connection.peer_max_frame_size
        if fits and state is None and window.remote_window > 0 and not self.pending:
            window.on_transfer()
            connection.output_bytes += length
            output = connection.output
            output.append(
                transfer_frame_head(
                    self._channel,
                    delivery.link.handle,
                    delivery.delivery_id,
                    delivery.delivery_tag,
                    message_format,
                    delivery.is_settled,
                    False,
                    length,
                )
            )
            output.append(prefix)
            output.append(payload)
            return
        self.pending.append(PendingTransfer(delivery, prefix + payload, message_format, state))
        connection.pending_bytes += length
        delivery.link.waiting_flow = None
        self.send_pending()

    def send_pending(self) -> None:
        """Write what waited for the window, in the order it was sent."""
        pending = self.pending
        while pending:
            first = pending[0]
            if isinstance(first, PendingTransfer):
                if self._window.remote_window <= 0:
                    break
                if self._send_part(first):
                    pending.popleft()
            else:
                assert isinstance(first, PendingFlow)
                self._session.write_flow(
                    first.link.handle, first.delivery_count, first.link_credit, first.available, first.drain
                )
                first.link.waiting_flow = None
                pending.popleft()

    def _send_part(self, waiting: PendingTransfer) -> bool:
        """One transfer frame; true when the delivery is complete."""
        offset = waiting.offset
        room = self._connection.peer_max_frame_size - len(self._head(waiting, True, 0))
        chunk = waiting.payload[offset : offset + room]
        waiting.offset = offset + len(chunk)
        more = waiting.offset < len(waiting.payload)
        self._window.on_transfer()
        connection = self._connection
        connection.pending_bytes -= len(chunk)
        connection.output_bytes += len(chunk)
        connection.output.append(self._head(waiting, more, len(chunk)))
        connection.output.append(chunk)
        waiting.state = None
        return not more

    def _head(self, waiting: PendingTransfer, more: bool, payload_length: int) -> bytes:
        delivery = waiting.delivery
        link = delivery.link
        if waiting.state is None:
            return transfer_frame_head(
                self._channel,
                link.handle,
                delivery.delivery_id,
                delivery.delivery_tag,
                waiting.message_format,
                delivery.is_settled,
                more,
                payload_length,
            )
        transfer = Transfer(
            link.handle,
            delivery.delivery_id,
            delivery.delivery_tag,
            waiting.message_format,
            delivery.is_settled,
            more,
            state=waiting.state,
        )
        body = transfer.encode()
        return frame(self._channel, body, payload_length=payload_length)

    def drop(self, link: SenderLink) -> None:
        """Forget what a detached link still had waiting."""
        if not self.pending:
            return
        kept: deque[Pending] = deque()
        for waiting in self.pending:
            if waiting.link is not link:
                kept.append(waiting)
            elif isinstance(waiting, PendingTransfer):
                self._connection.pending_bytes -= len(waiting.payload) - waiting.offset
        self.pending = kept

    def send_flow(self, link: SenderLink, delivery_count: int, link_credit: int, available: int, drain: bool) -> None:
        """A sender's flow, behind the deliveries of the session that wait for the window: it counts them."""
        if not self.pending:
            self._session.write_flow(link.handle, delivery_count, link_credit, available, drain)
            return
        waiting = link.waiting_flow
        if waiting is None:
            waiting = link.waiting_flow = PendingFlow(link)
            self.pending.append(waiting)
        waiting.update(delivery_count, link_credit, available, drain)
