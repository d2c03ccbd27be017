"""Every error Tandem raises or puts on the wire.

    TandemError
    ├── UsageError                      the caller of this library broke its rules; nothing was sent
    │   ├── EncodeError                 a value does not fit the AMQP type it was given
    │   └── StateError                  the call is not possible in this state (no credit, link detached, ...)
    ├── RemoteError                     what the peer told us: its condition and description
    ├── ConfigurationError              a setting that cannot be: names the setting, its value and what is allowed
    ├── StoreError                      the data directory cannot be used
    │   ├── StoreFailed                 a write or an fsync failed: the process must stop, nothing more is acknowledged
    │   │   └── StoreDamaged            stored data is damaged: opening the store again salvages what is intact
    │   └── StoreCorrupt                what is on disk contradicts itself: `tandem check` says where
    ├── BrokerStalled                   the broker cannot go on by itself: the process must end and be started again
    └── ProtocolError                   goes onto the wire: condition, HTTP status and scope in the first line of each

A class carries its wire form, so no table elsewhere has to be kept in step with this one. The scope says what dies of
the error: the smallest thing that cannot go on, never more (AMQP 1.0 part 2.8.14 to 2.8.18 name the conditions).
"""

from __future__ import annotations

import enum
from typing import ClassVar, Self

from tandem.arguments import JSON_WORDS, Argument

__all__ = [
    "ArgumentError",
    "ArgumentOutOfRange",
    "ArrowUnavailable",
    "BrokerStalled",
    "ConfigurationError",
    "ConnectionForced",
    "DecodeError",
    "DetachForced",
    "EncodeError",
    "EntityAlreadyExists",
    "EntityDisabled",
    "FrameSizeTooSmall",
    "FramingError",
    "HandleInUse",
    "HubRecreated",
    "IdleTimeoutExpired",
    "InternalError",
    "InvalidField",
    "InvalidToken",
    "LinkStolen",
    "MessageLockLost",
    "MessageNotFound",
    "MessageSizeExceeded",
    "NotAllowed",
    "NotFound",
    "OperationNotImplemented",
    "OperationTimeout",
    "OutOfOrderSequence",
    "ProducerEpochStolen",
    "ProtocolError",
    "QuotaExceeded",
    "RemoteError",
    "ResourceLimitExceeded",
    "Scope",
    "ServerBusy",
    "SessionCannotBeLocked",
    "SessionLockLost",
    "SessionNotFound",
    "StateError",
    "StoreCorrupt",
    "StoreDamaged",
    "StoreError",
    "StoreFailed",
    "TandemError",
    "TransactionRollback",
    "TransactionTimeout",
    "TransactionUnknownId",
    "TransferLimitExceeded",
    "UnattachedHandle",
    "UnauthorizedAccess",
    "UsageError",
    "WindowViolation",
]


class Scope(enum.Enum):
    """What an error ends."""

    DELIVERY = "delivery"
    LINK = "link"
    SESSION = "session"
    CONNECTION = "connection"


class TandemError(Exception):
    """Base of everything raised on purpose."""


class UsageError(TandemError):
    """The library was called in a way its contract does not allow. Nothing was sent; fix the call."""


class EncodeError(UsageError):
    """A Python value cannot be written as the AMQP type asked for. Use a wrapper type or a value in its range."""


class StateError(UsageError):
    """The call is not possible in the present state. Look at the state, or wait for the event that allows it."""


class RemoteError(TandemError):
    """The peer detached, ended or closed, or rejected a message; the condition is the one it gave."""

    def __init__(self, condition: str, description: str, argument: Argument | None = None) -> None:
        super().__init__(f"{condition}: {description}")
        self.condition = condition
        self.description = description
        # The field at fault, if the peer said so as data.
        self.argument = argument


class ConfigurationError(TandemError):
    """A setting that cannot be. The message names the setting, its value and what is allowed."""


class StoreError(TandemError):
    """The data directory cannot be used as it is. The message says why, and what to do."""


class StoreFailed(StoreError):
    """A write or an fsync failed. Nothing more may be acknowledged: the process must stop, and be started again."""


class StoreDamaged(StoreFailed):
    """Stored data has a wrong checksum or is not readable. Opening the store again salvages what is intact."""


class StoreCorrupt(StoreError):
    """What is on disk contradicts itself. `tandem check` says where."""


class BrokerStalled(TandemError):
    """The broker cannot go on, and no restart inside the process helps. It ends with exit code 75: start it again."""


class ProtocolError(TandemError):
    """An error with a wire form. The message is the description that the peer sees."""

    condition: ClassVar[str] = "amqp:internal-error"
    http_status: ClassVar[int] = 500
    scope: Scope = Scope.CONNECTION
    is_transient: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        *,
        condition: str | None = None,
        http_status: int | None = None,
        scope: Scope | None = None,
        is_transient: bool | None = None,
    ) -> None:
        """Take the wire form of a kind of error; what is left out is that of its base."""
        cls.condition = cls.condition if condition is None else condition
        cls.http_status = cls.http_status if http_status is None else http_status
        cls.scope = cls.scope if scope is None else scope
        cls.is_transient = cls.is_transient if is_transient is None else is_transient

    def __init__(self, description: str, scope: Scope | None = None) -> None:
        super().__init__(description)
        # The same mistake can have a smaller reach than its class says: a bad field of a transfer ends its link only.
        if scope is not None:
            self.scope = scope

    @property
    def description(self) -> str:
        return str(self)


class InternalError(ProtocolError, is_transient=True):
    """The service failed, and the request is not to blame. Try again."""


class DecodeError(ProtocolError, condition="amqp:decode-error", http_status=400):
    """Bytes that are not valid AMQP, or a field of the wrong type. The peer's encoder is at fault."""


class FramingError(ProtocolError, condition="amqp:connection:framing-error", http_status=400):
    """A frame that cannot be delimited or is larger than agreed. Nothing after it can be trusted."""


class ConnectionForced(ProtocolError, condition="amqp:connection:forced", http_status=503, is_transient=True):
    """The connection is closed by an operator or a shutdown. Connect again."""


class IdleTimeoutExpired(ProtocolError, condition="amqp:resource-limit-exceeded", http_status=408, is_transient=True):
    """Nothing was heard for longer than the advertised idle time-out. Connect again, and send empty frames."""


class ResourceLimitExceeded(ProtocolError, condition="amqp:resource-limit-exceeded", http_status=403):
    """A count or size grew past its limit. The description names the limit."""


class UnauthorizedAccess(ProtocolError, condition="amqp:unauthorized-access", http_status=401):
    """The peer may not do this. Check credentials and rights."""


class NotAllowed(ProtocolError, condition="amqp:not-allowed", http_status=400):
    """A valid frame at a moment or place where the specification forbids it."""


class InvalidField(ProtocolError, condition="amqp:invalid-field", http_status=400):
    """A field has a value outside what the specification allows. The description names the field and the value."""


class FrameSizeTooSmall(ProtocolError, condition="amqp:frame-size-too-small", http_status=400, scope=Scope.SESSION):
    """What has to be said does not fit into one frame of the peer's max-frame-size. Open with a larger one."""


class WindowViolation(ProtocolError, condition="amqp:session:window-violation", http_status=400, scope=Scope.SESSION):
    """More transfers than the session's incoming window allowed."""


class HandleInUse(ProtocolError, condition="amqp:session:handle-in-use", http_status=400, scope=Scope.SESSION):
    """An attach on a handle that is still attached."""


class UnattachedHandle(ProtocolError, condition="amqp:session:unattached-handle", http_status=400, scope=Scope.SESSION):
    """A frame for a handle that is not attached."""


class DetachForced(
    ProtocolError, condition="amqp:link:detach-forced", http_status=503, scope=Scope.LINK, is_transient=True
):
    """The link is detached by an operator, for being idle, or because its entity was restarted. Attach again."""


class TransferLimitExceeded(
    ProtocolError, condition="amqp:link:transfer-limit-exceeded", http_status=403, scope=Scope.LINK
):
    """More deliveries than the credit granted, by more than the tolerated overrun."""


class MessageSizeExceeded(
    ProtocolError, condition="amqp:link:message-size-exceeded", http_status=403, scope=Scope.LINK
):
    """A message larger than the link's max-message-size. The description names both sizes."""


class LinkStolen(ProtocolError, condition="amqp:link:stolen", http_status=410, scope=Scope.LINK):
    """The link was attached again elsewhere under the same name."""


class NotFound(ProtocolError, condition="amqp:not-found", http_status=404, scope=Scope.LINK):
    """The node that the link names does not exist."""


class EntityDisabled(ProtocolError, condition="com.microsoft:entity-disabled", http_status=400, scope=Scope.LINK):
    """The entity's status forbids this. Set its status to Active, or use another entity."""


class EntityAlreadyExists(
    ProtocolError, condition="com.microsoft:entity-already-exists", http_status=409, scope=Scope.LINK
):
    """An entity of that name exists. Update it, or choose another name."""


class HubRecreated(ProtocolError, condition="tandem:hub-recreated", http_status=410, scope=Scope.LINK):
    """The event hub was deleted and made again: positions in the old one mean nothing in the new one. Begin anew."""


class ArrowUnavailable(ProtocolError, condition="amqp:not-implemented", http_status=501, scope=Scope.LINK):
    """Event hubs need pyarrow, which is missing or broken. Install it for the Python that runs the broker."""


class SessionCannotBeLocked(
    ProtocolError, condition="com.microsoft:session-cannot-be-locked", http_status=410, scope=Scope.LINK
):
    """Another receiver holds the session. Accept another one, or wait until its lock ends."""


class SessionLockLost(ProtocolError, condition="com.microsoft:session-lock-lost", http_status=410, scope=Scope.LINK):
    """The lock on the session ended before this. Accept the session again; its messages will come again."""


class OperationTimeout(
    ProtocolError, condition="com.microsoft:timeout", http_status=408, scope=Scope.LINK, is_transient=True
):
    """What was asked for did not come about in the time given. Ask again."""


class InvalidToken(ProtocolError, condition="com.microsoft:auth-failed", http_status=401, scope=Scope.DELIVERY):
    """A token that proves nothing: a wrong signature, an unknown rule, or an expiry in the past. Make a new one."""


class ServerBusy(
    ProtocolError, condition="com.microsoft:server-busy", http_status=503, scope=Scope.DELIVERY, is_transient=True
):
    """Too much is asked of the broker at once. Wait at least ten seconds before the same message is sent again."""


class QuotaExceeded(ProtocolError, condition="amqp:resource-limit-exceeded", http_status=403, scope=Scope.DELIVERY):
    """The entity is at its largest size, or the disk is full. Receive from it, or raise its size."""


class MessageLockLost(
    ProtocolError, condition="com.microsoft:message-lock-lost", http_status=410, scope=Scope.DELIVERY
):
    """The lock on the message ended before this. The message comes again, to this receiver or to another."""


class MessageNotFound(
    ProtocolError, condition="com.microsoft:message-not-found", http_status=404, scope=Scope.DELIVERY
):
    """No message has the sequence number, or none that is deferred or scheduled as the operation needs."""


class SessionNotFound(
    ProtocolError, condition="com.microsoft:session-not-found", http_status=404, scope=Scope.DELIVERY
):
    """No session fits the question."""


class ArgumentError(ProtocolError, condition="com.microsoft:argument-error", http_status=400, scope=Scope.DELIVERY):
    """A value that the operation cannot use. The description names it and says what is allowed."""

    argument: Argument | None = None

    @classmethod
    def of(cls, template: str, field: str, **values: object) -> Self:
        """Return an error whose field, value and bounds are data. The description has them in the words of JSON."""
        argument = Argument(template, field, values)
        error = cls(JSON_WORDS.sentence(argument))
        error.argument = argument
        return error


class ArgumentOutOfRange(ArgumentError, condition="com.microsoft:argument-out-of-range"):
    """A value outside its range. The description names it and the range."""


class OutOfOrderSequence(
    ProtocolError, condition="com.microsoft:out-of-order-sequence", http_status=400, scope=Scope.DELIVERY
):
    """An idempotent producer left out a number or used an old one. Send again from the one that was expected."""


class ProducerEpochStolen(
    ProtocolError, condition="com.microsoft:producer-epoch-stolen", http_status=410, scope=Scope.DELIVERY
):
    """Another idempotent producer with the same id has a higher epoch. Open with a higher one to take over."""


class OperationNotImplemented(ProtocolError, condition="amqp:not-implemented", http_status=501, scope=Scope.DELIVERY):
    """An operation that the node does not have."""


class TransactionTimeout(ProtocolError, condition="amqp:transaction:timeout", http_status=408, scope=Scope.DELIVERY):
    """The transaction was open for too long, and was rolled back."""


class TransactionRollback(ProtocolError, condition="amqp:transaction:rollback", http_status=400, scope=Scope.DELIVERY):
    """The transaction could not be committed as a whole, and nothing of it was done. Declare a new one."""


class TransactionUnknownId(
    ProtocolError, condition="amqp:transaction:unknown-id", http_status=400, scope=Scope.DELIVERY
):
    """The transaction was never declared here, or is already discharged."""
