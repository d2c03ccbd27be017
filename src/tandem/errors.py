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
    └── ProtocolError                   goes onto the wire: condition, description, scope
        ├── InternalError               amqp:internal-error               connection
        ├── DecodeError                 amqp:decode-error                 connection
        ├── FramingError                amqp:connection:framing-error     connection
        ├── ConnectionForced            amqp:connection:forced            connection
        ├── IdleTimeoutExpired          amqp:resource-limit-exceeded      connection
        ├── ResourceLimitExceeded       amqp:resource-limit-exceeded      connection
        ├── UnauthorizedAccess          amqp:unauthorized-access          connection
        ├── NotAllowed                  amqp:not-allowed                  connection
        ├── InvalidField                amqp:invalid-field                connection
        ├── FrameSizeTooSmall           amqp:frame-size-too-small         session
        ├── WindowViolation             amqp:session:window-violation     session
        ├── HandleInUse                 amqp:session:handle-in-use        session
        ├── UnattachedHandle            amqp:session:unattached-handle    session
        ├── DetachForced                amqp:link:detach-forced           link
        ├── TransferLimitExceeded       amqp:link:transfer-limit-exceeded link
        ├── MessageSizeExceeded         amqp:link:message-size-exceeded   link
        ├── LinkStolen                  amqp:link:stolen                  link
        ├── NotFound                    amqp:not-found                    link
        ├── EntityDisabled              com.microsoft:entity-disabled     link
        ├── EntityAlreadyExists         com.microsoft:entity-already-exists link
        ├── HubRecreated                tandem:hub-recreated              link
        ├── ArrowUnavailable            amqp:not-implemented              link
        ├── SessionCannotBeLocked       com.microsoft:session-cannot-be-locked link
        ├── SessionLockLost             com.microsoft:session-lock-lost   link
        ├── OperationTimeout            com.microsoft:timeout             link
        ├── InvalidToken                com.microsoft:auth-failed         delivery
        ├── ServerBusy                  com.microsoft:server-busy         delivery
        ├── QuotaExceeded               amqp:resource-limit-exceeded      delivery
        ├── MessageLockLost             com.microsoft:message-lock-lost   delivery
        ├── MessageNotFound             com.microsoft:message-not-found   delivery
        ├── SessionNotFound             com.microsoft:session-not-found   delivery
        ├── ArgumentError               com.microsoft:argument-error      delivery
        │   └── ArgumentOutOfRange      com.microsoft:argument-out-of-range delivery
        ├── OutOfOrderSequence          com.microsoft:out-of-order-sequence delivery
        ├── ProducerEpochStolen         com.microsoft:producer-epoch-stolen delivery
        ├── OperationNotImplemented     amqp:not-implemented              delivery
        ├── TransactionUnknownId        amqp:transaction:unknown-id       delivery
        ├── TransactionTimeout          amqp:transaction:timeout          delivery
        └── TransactionRollback         amqp:transaction:rollback         delivery

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

    def __init__(self, description: str, scope: Scope | None = None) -> None:
        super().__init__(description)
        # The same mistake can have a smaller reach than its class says: a bad field of a transfer ends its link only.
        if scope is not None:
            self.scope = scope

    @property
    def description(self) -> str:
        return str(self)


class InternalError(ProtocolError):
    """The service failed, and the request is not to blame. Try again."""

    is_transient = True


class DecodeError(ProtocolError):
    """Bytes that are not valid AMQP, or a field of the wrong type. The peer's encoder is at fault."""

    condition = "amqp:decode-error"
    http_status = 400


class FramingError(ProtocolError):
    """A frame that cannot be delimited or is larger than agreed. Nothing after it can be trusted."""

    condition = "amqp:connection:framing-error"
    http_status = 400


class ConnectionForced(ProtocolError):
    """The connection is closed by an operator or a shutdown. Connect again."""

    condition = "amqp:connection:forced"
    http_status = 503
    is_transient = True


class IdleTimeoutExpired(ProtocolError):
    """Nothing was heard for longer than the advertised idle time-out. Connect again, and send empty frames."""

    condition = "amqp:resource-limit-exceeded"
    http_status = 408
    is_transient = True


class ResourceLimitExceeded(ProtocolError):
    """A count or size grew past its limit. The description names the limit."""

    condition = "amqp:resource-limit-exceeded"
    http_status = 403


class UnauthorizedAccess(ProtocolError):
    """The peer may not do this. Check credentials and rights."""

    condition = "amqp:unauthorized-access"
    http_status = 401


class NotAllowed(ProtocolError):
    """A valid frame at a moment or place where the specification forbids it."""

    condition = "amqp:not-allowed"
    http_status = 400


class InvalidField(ProtocolError):
    """A field has a value outside what the specification allows. The description names the field and the value."""

    condition = "amqp:invalid-field"
    http_status = 400


class FrameSizeTooSmall(ProtocolError):
    """What has to be said does not fit into one frame of the peer's max-frame-size. Open with a larger one."""

    condition = "amqp:frame-size-too-small"
    http_status = 400
    scope = Scope.SESSION


class WindowViolation(ProtocolError):
    """More transfers than the session's incoming window allowed."""

    condition = "amqp:session:window-violation"
    http_status = 400
    scope = Scope.SESSION


class HandleInUse(ProtocolError):
    """An attach on a handle that is still attached."""

    condition = "amqp:session:handle-in-use"
    http_status = 400
    scope = Scope.SESSION


class UnattachedHandle(ProtocolError):
    """A frame for a handle that is not attached."""

    condition = "amqp:session:unattached-handle"
    http_status = 400
    scope = Scope.SESSION


class DetachForced(ProtocolError):
    """The link is detached by an operator, for being idle, or because its entity was restarted. Attach again."""

    condition = "amqp:link:detach-forced"
    http_status = 503
    scope = Scope.LINK
    is_transient = True


class TransferLimitExceeded(ProtocolError):
    """More deliveries than the credit granted, by more than the tolerated overrun."""

    condition = "amqp:link:transfer-limit-exceeded"
    http_status = 403
    scope = Scope.LINK


class MessageSizeExceeded(ProtocolError):
    """A message larger than the link's max-message-size. The description names both sizes."""

    condition = "amqp:link:message-size-exceeded"
    http_status = 403
    scope = Scope.LINK


class LinkStolen(ProtocolError):
    """The link was attached again elsewhere under the same name."""

    condition = "amqp:link:stolen"
    http_status = 410
    scope = Scope.LINK


class NotFound(ProtocolError):
    """The node that the link names does not exist."""

    condition = "amqp:not-found"
    http_status = 404
    scope = Scope.LINK


class EntityDisabled(ProtocolError):
    """The entity's status forbids this. Set its status to Active, or use another entity."""

    condition = "com.microsoft:entity-disabled"
    http_status = 400
    scope = Scope.LINK


class EntityAlreadyExists(ProtocolError):
    """An entity of that name exists. Update it, or choose another name."""

    condition = "com.microsoft:entity-already-exists"
    http_status = 409
    scope = Scope.LINK


class HubRecreated(ProtocolError):
    """The event hub was deleted and made again: positions in the old one mean nothing in the new one. Begin anew."""

    condition = "tandem:hub-recreated"
    http_status = 410
    scope = Scope.LINK


class ArrowUnavailable(ProtocolError):
    """Event hubs need pyarrow, which is missing or broken. Install it for the Python that runs the broker."""

    condition = "amqp:not-implemented"
    http_status = 501
    scope = Scope.LINK


class SessionCannotBeLocked(ProtocolError):
    """Another receiver holds the session. Accept another one, or wait until its lock ends."""

    condition = "com.microsoft:session-cannot-be-locked"
    http_status = 410
    scope = Scope.LINK


class SessionLockLost(ProtocolError):
    """The lock on the session ended before this. Accept the session again; its messages will come again."""

    condition = "com.microsoft:session-lock-lost"
    http_status = 410
    scope = Scope.LINK


class OperationTimeout(ProtocolError):
    """What was asked for did not come about in the time given. Ask again."""

    condition = "com.microsoft:timeout"
    http_status = 408
    scope = Scope.LINK
    is_transient = True


class InvalidToken(ProtocolError):
    """A token that proves nothing: a wrong signature, an unknown rule, or an expiry in the past. Make a new one."""

    condition = "com.microsoft:auth-failed"
    http_status = 401
    scope = Scope.DELIVERY


class ServerBusy(ProtocolError):
    """Too much is asked of the broker at once. Wait at least ten seconds before the same message is sent again."""

    condition = "com.microsoft:server-busy"
    http_status = 503
    scope = Scope.DELIVERY
    is_transient = True


class QuotaExceeded(ProtocolError):
    """The entity is at its largest size, or the disk is full. Receive from it, or raise its size."""

    condition = "amqp:resource-limit-exceeded"
    http_status = 403
    scope = Scope.DELIVERY


class MessageLockLost(ProtocolError):
    """The lock on the message ended before this. The message comes again, to this receiver or to another."""

    condition = "com.microsoft:message-lock-lost"
    http_status = 410
    scope = Scope.DELIVERY


class MessageNotFound(ProtocolError):
    """No message has the sequence number, or none that is deferred or scheduled as the operation needs."""

    condition = "com.microsoft:message-not-found"
    http_status = 404
    scope = Scope.DELIVERY


class SessionNotFound(ProtocolError):
    """No session fits the question."""

    condition = "com.microsoft:session-not-found"
    http_status = 404
    scope = Scope.DELIVERY


class ArgumentError(ProtocolError):
    """A value that the operation cannot use. The description names it and says what is allowed."""

    condition = "com.microsoft:argument-error"
    http_status = 400
    scope = Scope.DELIVERY
    argument: Argument | None = None

    @classmethod
    def of(cls, template: str, field: str, **values: object) -> Self:
        """Return an error whose field, value and bounds are data. The description has them in the words of JSON."""
        argument = Argument(template, field, values)
        error = cls(JSON_WORDS.sentence(argument))
        error.argument = argument
        return error


class ArgumentOutOfRange(ArgumentError):
    """A value outside its range. The description names it and the range."""

    condition = "com.microsoft:argument-out-of-range"


class OutOfOrderSequence(ProtocolError):
    """An idempotent producer left out a number or used an old one. Send again from the one that was expected."""

    condition = "com.microsoft:out-of-order-sequence"
    http_status = 400
    scope = Scope.DELIVERY


class ProducerEpochStolen(ProtocolError):
    """Another idempotent producer with the same id has a higher epoch. Open with a higher one to take over."""

    condition = "com.microsoft:producer-epoch-stolen"
    http_status = 410
    scope = Scope.DELIVERY


class OperationNotImplemented(ProtocolError):
    """An operation that the node does not have."""

    condition = "amqp:not-implemented"
    http_status = 501
    scope = Scope.DELIVERY


class TransactionTimeout(ProtocolError):
    """The transaction was open for too long, and was rolled back."""

    condition = "amqp:transaction:timeout"
    http_status = 408
    scope = Scope.DELIVERY


class TransactionRollback(ProtocolError):
    """The transaction could not be committed as a whole, and nothing of it was done. Declare a new one."""

    condition = "amqp:transaction:rollback"
    http_status = 400
    scope = Scope.DELIVERY


class TransactionUnknownId(ProtocolError):
    """The transaction was never declared here, or is already discharged."""

    condition = "amqp:transaction:unknown-id"
    http_status = 400
    scope = Scope.DELIVERY
