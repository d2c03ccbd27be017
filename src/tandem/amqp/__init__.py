"""AMQP 1.0 without IO, for servers and clients: bytes in, events out.

    from tandem.amqp import Connection, Role, Settings

    connection = Connection(Role.SERVER, Settings("my-container"))
    for event in connection.receive(data):
        ...
    transport.write(connection.data_to_send())

`Connection` is the whole of the interface: everything else is reached through its events. See `docs/reference/amqp.md`.
"""

from tandem.amqp.batch import BATCH_FORMAT, make_batch, split_batch
from tandem.amqp.connection import Connection, Role
from tandem.amqp.deliveries import IncomingDelivery, OutgoingDelivery
from tandem.amqp.delivery_states import (
    ACCEPTED,
    RELEASED,
    Accepted,
    AmqpError,
    Declared,
    DeliveryState,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
    UnknownState,
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
from tandem.amqp.link import Link, ReceiverLink, SenderLink
from tandem.amqp.message import Message
from tandem.amqp.performatives import Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Transfer
from tandem.amqp.session import Session
from tandem.amqp.settings import ANONYMOUS, EXTERNAL, MSSBCBS, PLAIN, Settings
from tandem.amqp.terminus import Coordinator, Source, Target
from tandem.amqp.transactions import Declare, Discharge, decode_transaction_request

__all__ = [
    "ACCEPTED",
    "ANONYMOUS",
    "BATCH_FORMAT",
    "EXTERNAL",
    "MSSBCBS",
    "PLAIN",
    "RELEASED",
    "Accepted",
    "AmqpError",
    "Attach",
    "AuthenticationFailed",
    "AuthenticationRequested",
    "AuthenticationSucceeded",
    "Begin",
    "Close",
    "Connection",
    "ConnectionClosed",
    "ConnectionFailed",
    "ConnectionOpened",
    "Coordinator",
    "CreditDrained",
    "CreditReceived",
    "Declare",
    "Declared",
    "DeliveryAborted",
    "DeliveryRefused",
    "DeliveryState",
    "Detach",
    "Discharge",
    "Disposition",
    "DispositionReceived",
    "End",
    "Event",
    "Flow",
    "IncomingDelivery",
    "Link",
    "LinkAttached",
    "LinkDetached",
    "LinkFailed",
    "Message",
    "Modified",
    "Open",
    "OutgoingDelivery",
    "Received",
    "ReceiverLink",
    "Rejected",
    "Released",
    "Role",
    "SenderLink",
    "Session",
    "SessionBegun",
    "SessionEnded",
    "SessionFailed",
    "Settings",
    "SettlementReceived",
    "Source",
    "Target",
    "TransactionalState",
    "Transfer",
    "UnknownState",
    "decode_transaction_request",
    "make_batch",
    "split_batch",
]
