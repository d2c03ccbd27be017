"""What can go wrong for a client, as one tree, and which AMQP condition or HTTP status means what.

    MessagingError                          base; `is_transient` says whether the same call may succeed a little later
    ├── MessagingCommunicationError         transient   the service cannot be reached, or the connection was lost
    │   └── HostNotFoundError               transient   the resolver says that there is no such host
    ├── CertificateNotTrustedError                      the certificate is not that of a host that we trust
    ├── OperationTimeoutError               transient   no answer in the time given
    ├── ServerBusyError                     transient   wait at least ten seconds
    ├── UnauthorizedAccessError                         no rights, or a token that proves nothing
    ├── MessagingEntityNotFoundError                    no such queue, topic, subscription, rule or event hub
    ├── MessagingEntityAlreadyExistsError
    ├── MessagingEntityDisabledError
    ├── QuotaExceededError                              the entity is full, or there are too many of something
    ├── MessageSizeExceededError
    ├── MessageLockLostError
    ├── SessionLockLostError
    ├── SessionCannotBeLockedError
    ├── MessageNotFoundError                            no deferred or scheduled message has that sequence number
    ├── TransactionError                                nothing of the transaction was done
    ├── InvalidOperationError                           the entity does not do that, or not with these values
    └── ReceiverDisconnectedError                       another receiver of the partition took its place

`reaching_error` turns what a socket raises into these; the other functions turn what a service answers.

They are `RemoteError`s: each has the `condition` that was on the wire, and code that handles what a peer said handles
these. They are not the classes of `tandem.errors` with the same conditions, because those say what a broker does (which
scope dies, which status is answered) and several of them are one thing to a client: eleven ways to lose a connection
are one MessagingCommunicationError.
"""

from __future__ import annotations

import socket
import ssl
from typing import ClassVar, Final

from tandem import errors
from tandem.errors import ProtocolError, RemoteError, TandemError, UsageError

__all__ = [
    "CertificateNotTrustedError",
    "HostNotFoundError",
    "InvalidOperationError",
    "MessageLockLostError",
    "MessageNotFoundError",
    "MessageSizeExceededError",
    "MessagingCommunicationError",
    "MessagingEntityAlreadyExistsError",
    "MessagingEntityDisabledError",
    "MessagingEntityNotFoundError",
    "MessagingError",
    "OperationTimeoutError",
    "QuotaExceededError",
    "ReceiverDisconnectedError",
    "ServerBusyError",
    "SessionCannotBeLockedError",
    "SessionLockLostError",
    "TransactionError",
    "UnauthorizedAccessError",
    "error_of_condition",
    "error_of_http_status",
    "messaging_error",
    "reaching_error",
]


class MessagingError(RemoteError):
    """Something went wrong between the client and the service, for which there is no class of its own."""

    is_transient: bool = False
    # What the class stands for when no peer has said anything.
    default_condition: ClassVar[str] = errors.InternalError.condition

    def __init__(self, description: str, condition: str | None = None) -> None:
        super().__init__(condition or self.default_condition, description)

    def __str__(self) -> str:
        return f"{self.description} ({self.condition})"


class MessagingCommunicationError(MessagingError):
    """The service cannot be reached, or the connection to it was lost. Whether it did what was asked is not known."""

    is_transient = True
    default_condition = errors.ConnectionForced.condition


class HostNotFoundError(MessagingCommunicationError):
    """The resolver says that there is no such host. Look at the spelling of the address. If the resolver itself cannot
    be asked, that is a plain MessagingCommunicationError."""

    default_condition = "tandem:host-not-found"


class CertificateNotTrustedError(MessagingError):
    """The certificate of the service is not trusted, is out of date or is that of another host. Trust its issuer, with
    SSL_CERT_FILE or with the ssl_context of the settings, or correct the address."""

    default_condition = "tandem:certificate-not-trusted"


class OperationTimeoutError(MessagingError):
    """There was no answer in the time given. Whether the service did what was asked is not known."""

    is_transient = True
    default_condition = errors.OperationTimeout.condition


class ServerBusyError(MessagingError):
    """The service has too much to do. Wait at least ten seconds before you send again; this library does."""

    is_transient = True
    default_condition = errors.ServerBusy.condition


class UnauthorizedAccessError(MessagingError):
    """The token proves nothing, or not this right. Look at the name of the rule, its key and its rights."""

    default_condition = errors.UnauthorizedAccess.condition


class MessagingEntityNotFoundError(MessagingError):
    """There is no such entity. Create it, or look at the spelling of its path."""

    default_condition = errors.NotFound.condition


class MessagingEntityAlreadyExistsError(MessagingError):
    """An entity of that name exists. Update it, or choose another name."""

    default_condition = errors.EntityAlreadyExists.condition


class MessagingEntityDisabledError(MessagingError):
    """The status of the entity forbids this. Set it to Active."""

    default_condition = errors.EntityDisabled.condition


class QuotaExceededError(MessagingError):
    """The entity is full, or there are as many of something as there may be. Receive from it, or raise its size."""

    default_condition = errors.QuotaExceeded.condition


class MessageSizeExceededError(MessagingError):
    """The message is larger than the entity takes. Make it smaller, or send a reference to its body."""

    default_condition = errors.MessageSizeExceeded.condition


class MessageLockLostError(MessagingError):
    """The lock on the message has ended: it comes again, or was settled already. Renew locks in time."""

    default_condition = errors.MessageLockLost.condition


class SessionLockLostError(MessagingError):
    """The lock on the session has ended: accept it again. Messages that were not completed come again."""

    default_condition = errors.SessionLockLost.condition


class SessionCannotBeLockedError(MessagingError):
    """Another receiver holds the session. Wait until it lets go, or accept another session."""

    default_condition = errors.SessionCannotBeLocked.condition


class MessageNotFoundError(MessagingError):
    """No deferred or scheduled message has that sequence number."""

    default_condition = errors.MessageNotFound.condition


class TransactionError(MessagingError):
    """The transaction was rolled back: nothing of it was done. Begin a new one."""

    default_condition = errors.TransactionRollback.condition


class InvalidOperationError(MessagingError):
    """The entity does not do that, or not with these values. The message says which."""

    default_condition = errors.NotAllowed.condition


class ReceiverDisconnectedError(MessagingError):
    """Another receiver with the same or a higher owner level reads the partition now."""

    default_condition = errors.LinkStolen.condition


_INVALID: Final = (
    errors.NotAllowed.condition,
    errors.InvalidField.condition,
    errors.DecodeError.condition,
    errors.ArgumentError.condition,
    errors.ArgumentOutOfRange.condition,
    errors.OperationNotImplemented.condition,
    "amqp:precondition-failed",
    "amqp:illegal-state",
)
_LOST: Final = (
    errors.ConnectionForced.condition,
    errors.DetachForced.condition,
    errors.FramingError.condition,
    errors.TransferLimitExceeded.condition,
    errors.WindowViolation.condition,
    errors.HandleInUse.condition,
    errors.UnattachedHandle.condition,
    "com.microsoft:operation-cancelled",
    "com.microsoft:entity-updated",
)

_CLASSES: Final[dict[str, type[MessagingError]]] = {
    **{
        kind.default_condition: kind
        for kind in (
            MessagingCommunicationError,
            OperationTimeoutError,
            ServerBusyError,
            UnauthorizedAccessError,
            MessagingEntityNotFoundError,
            MessagingEntityAlreadyExistsError,
            MessagingEntityDisabledError,
            QuotaExceededError,
            MessageSizeExceededError,
            MessageLockLostError,
            SessionLockLostError,
            SessionCannotBeLockedError,
            MessageNotFoundError,
            TransactionError,
            ReceiverDisconnectedError,
        )
    },
    **dict.fromkeys(_INVALID, InvalidOperationError),
    **dict.fromkeys(_LOST, MessagingCommunicationError),
    errors.InvalidToken.condition: UnauthorizedAccessError,
    "com.microsoft:publisher-revoked": UnauthorizedAccessError,
    "amqp:resource-deleted": MessagingEntityNotFoundError,
    errors.TransactionUnknownId.condition: TransactionError,
    errors.TransactionTimeout.condition: TransactionError,
}

# A status says less than a condition: it decides where there is no condition.
_STATUS_CLASSES: Final[dict[int, type[MessagingError]]] = {
    400: InvalidOperationError,
    401: UnauthorizedAccessError,
    403: QuotaExceededError,
    404: MessagingEntityNotFoundError,
    408: OperationTimeoutError,
    409: MessagingEntityAlreadyExistsError,
    410: MessagingEntityNotFoundError,
    412: InvalidOperationError,
    413: MessageSizeExceededError,
    429: ServerBusyError,
    501: InvalidOperationError,
    503: ServerBusyError,
    504: OperationTimeoutError,
}

# What a resolver answers for a name that does not exist, or that has no address. EAI_AGAIN and EAI_FAIL say that the
# resolver itself is in trouble.
_NO_SUCH_HOST: Final = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


def error_of_condition(condition: str, description: str) -> MessagingError:
    """The error that a condition on the wire stands for."""
    kind = _CLASSES.get(condition, MessagingError)
    error = kind(description, condition)
    if condition == errors.InternalError.condition:
        error.is_transient = errors.InternalError.is_transient
    return error


def error_of_http_status(status: int, description: str) -> MessagingError:
    """The error that an answer of the management API stands for."""
    kind = _STATUS_CLASSES.get(status, MessagingError)
    error = kind(description)
    if kind is MessagingError:
        error.is_transient = status >= 500
    return error


def messaging_error(error: BaseException) -> BaseException:
    """What the layers below raised, as a client should see it. Mistakes of the caller stay what they are."""
    if isinstance(error, MessagingError | UsageError):
        return error
    if isinstance(error, RemoteError):
        return error_of_condition(error.condition, error.description)
    if isinstance(error, ProtocolError):
        return error_of_condition(error.condition, error.description)
    if isinstance(error, OSError):
        return reaching_error("the service", error)
    if isinstance(error, TandemError):
        return MessagingError(str(error))
    return error


def reaching_error(where: str, error: OSError) -> MessagingError:
    """The error for a connection that could not be made or was lost: `where` names the service."""
    if isinstance(error, ssl.SSLCertVerificationError):
        # One of aiohttp's own is of that class too, and lacks the attribute.
        reason = getattr(error, "verify_message", None) or error
        return CertificateNotTrustedError(
            f"the certificate of {where} is not trusted: {reason}; trust its issuer with SSL_CERT_FILE "
            "or the ssl_context of the settings, or correct the address"
        )
    if isinstance(error, ssl.SSLError):
        return MessagingCommunicationError(f"no TLS with {where}: {error}; is it the right port?")
    if isinstance(error, socket.gaierror) and error.errno in _NO_SUCH_HOST:
        return HostNotFoundError(f"{where} cannot be reached: there is no host of that name ({error.strerror})")
    return MessagingCommunicationError(f"{where} cannot be reached: {error}")
