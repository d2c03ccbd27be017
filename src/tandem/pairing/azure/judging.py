"""Which errors of the official SDK lead to a failover: each is translated to the error of `tandem.client` that says the
same, and judged by `tandem.pairing.judging`.

The SDK wraps whatever goes wrong during a send into a `ServiceBusError`, also a message that it cannot encode or a
credential that raises. Such an error is evidence against the service only if it comes from the network or from the
SDK's handling of what the service sent: `_EVIDENCE` and `_EVIDENT_MODULES` are the whole list. Everything else is the
caller's: the message, the arguments, the configuration.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import Final

from azure.core.exceptions import AzureError
from azure.servicebus.exceptions import (
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)

from tandem.client import errors
from tandem.client.errors import error_of_condition, reaching_error
from tandem.errors import (
    ArgumentError,
    ArgumentOutOfRange,
    DecodeError,
    InvalidField,
    NotAllowed,
    OperationNotImplemented,
    TandemError,
    UsageError,
)
from tandem.pairing import judging
from tandem.pairing.detour import Judgement
from tandem.pairing.judging import FailoverRule

__all__ = ["ERRORS", "is_of_the_caller", "is_unanswered", "judge_backlog", "judge_ping", "judge_primary", "translated"]

# What a call of the SDK may raise. What is neither an AzureError nor an OSError is a mistake of the caller.
ERRORS: Final = (Exception,)

_LOST: Final = (ServiceBusConnectionError, ServiceBusCommunicationError, OSError)

_SAME: Final[dict[type[ServiceBusError], type[errors.MessagingError]]] = {
    ServiceBusServerBusyError: errors.ServerBusyError,
    OperationTimeoutError: errors.OperationTimeoutError,
    ServiceBusQuotaExceededError: errors.QuotaExceededError,
    ServiceBusAuthenticationError: errors.UnauthorizedAccessError,
    ServiceBusAuthorizationError: errors.UnauthorizedAccessError,
    MessagingEntityNotFoundError: errors.MessagingEntityNotFoundError,
    MessagingEntityDisabledError: errors.MessagingEntityDisabledError,
    MessageSizeExceededError: errors.MessageSizeExceededError,
}

# The SDK has no class for these, and has the condition in the text.
_CONDITIONS: Final = (
    NotAllowed.condition,
    InvalidField.condition,
    OperationNotImplemented.condition,
    DecodeError.condition,
    "amqp:internal-error",
    ArgumentError.condition,
    ArgumentOutOfRange.condition,
)

# Errors inside a ServiceBusError that say something about the service or the way to it.
_EVIDENCE: Final = (OSError, EOFError)

# The packages by which the SDK speaks over WebSockets: their errors are those of a connection.
_EVIDENT_PACKAGES: Final = frozenset({"websocket", "aiohttp"})

# Modules of the SDK that read what the service sent, or keep track of a connection. An error that any of them raises
# itself, of whatever class, comes from a connection that was lost or said something unexpected.
_PROTOCOL: Final = ("azure", "servicebus", "_pyamqp")
_EVIDENT_MODULES: Final = frozenset(
    {
        "_connection",
        "_decode",
        "_transport",
        "cbs",
        "link",
        "management_link",
        "management_operation",
        "receiver",
        "sender",
        "session",
    }
)

# What the SDK says when a connection is lost while it shows its token: by its class it would be the token's fault.
_LOST_WITH_THE_TOKEN: Final = (
    "Failed to open CBS authentication link",
    "CBS authentication link is in broken status",
)

# What the SDK says when there was nothing to send by yet.
_UNREACHED: Final = ("Failed to initiate the connection", "Timed out waiting for the AMQP link to open")


def is_unanswered(error: Exception) -> bool:
    """Return whether the message of a send may have been taken although nobody said so. When in doubt it may."""
    if not isinstance(error, (*_LOST, OperationTimeoutError)):
        return False
    return not any(words in str(error) for words in _UNREACHED)


def translated(error: Exception) -> TandemError:
    """Return the error of `tandem.client` that says the same. What the SDK refuses to do at all is a UsageError."""
    text = str(error)
    if _is_lost(error):
        cause = next(_reasons(error), None)
        return errors.MessagingCommunicationError(text) if cause is None else reaching_error("the service", cause)
    for kind, same in _SAME.items():
        if isinstance(error, kind):
            return same(text)
    if is_of_the_caller(error):
        return UsageError(text)
    if isinstance(error, ServiceBusError):
        condition = next((one for one in _CONDITIONS if one in text), None)
        return errors.MessagingError(text) if condition is None else error_of_condition(condition, text)
    # Such as that of a credential which gets no token.
    return errors.UnauthorizedAccessError(text) if isinstance(error, AzureError) else UsageError(text)


def is_of_the_caller(error: Exception) -> bool:
    """Return whether the caller's message, arguments or configuration caused an error, so that it says nothing about
    the service."""
    if not isinstance(error, ServiceBusError):
        return not isinstance(error, AzureError | OSError)
    inner = error.inner_exception
    return type(error) is ServiceBusError and inner is not None and not _is_evidence(inner)


def _is_evidence(error: BaseException) -> bool:
    kind = type(error)
    if isinstance(error, _EVIDENCE) or kind.__module__.partition(".")[0] in _EVIDENT_PACKAGES:
        return True
    if kind.__module__.split(".")[:3] == list(_PROTOCOL):
        return True
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return False
    # Such as azure.servicebus._pyamqp.aio._sender_async.
    *package, module = str(frame.tb_frame.f_globals.get("__name__", "")).split(".")
    name = module.removesuffix("_async")
    return tuple(package[:3]) == _PROTOCOL and bool({name, name.removeprefix("_")} & _EVIDENT_MODULES)


def judge_primary(error: Exception, rule: FailoverRule = FailoverRule.AVAILABILITY) -> Judgement:
    """A send to an entity of the primary."""
    return judging.judge_primary(translated(error), rule)


def judge_backlog(error: Exception) -> Judgement:
    """A send to a backlog queue: whatever it is, another queue may take the message, unless that is to blame."""
    return judging.judge_backlog(translated(error))


def judge_ping(error: Exception) -> Judgement:
    """A ping. An entity that finds fault with it, since it wants a session id, has answered: it is there."""
    return judging.judge_ping(translated(error))


def _is_lost(error: Exception) -> bool:
    if isinstance(error, ServiceBusAuthenticationError):
        return any(words in str(error) for words in _LOST_WITH_THE_TOKEN)
    return isinstance(error, _LOST)


def _reasons(error: BaseException) -> Iterator[OSError]:
    """Yield the system's own errors for why there is no connection, which the SDK keeps as causes of its own."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, ssl.SSLCertVerificationError | socket.gaierror):
            yield cause
        cause = cause.__cause__ or cause.__context__
