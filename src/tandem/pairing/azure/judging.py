"""What an error of the official SDK says: about the entity that a message was sent to, or about the message itself.

The same judgements as `tandem.pairing.judging`, in the SDK's own errors.
"""

from __future__ import annotations

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

from tandem.pairing.detour import Judgement

__all__ = ["ERRORS", "is_unanswered", "judge_backlog", "judge_ping", "judge_primary"]

# What a call of the SDK may raise. ValueError and TypeError are mistakes of the caller.
ERRORS: Final = (AzureError, ValueError, TypeError, OSError)

_LOST: Final = (ServiceBusConnectionError, ServiceBusCommunicationError, OSError)
_SETTINGS: Final = (
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    MessagingEntityNotFoundError,
    MessagingEntityDisabledError,
)

# The SDK has no class for these, and tells the condition in the text.
_INVALID: Final = (
    "amqp:not-allowed",
    "amqp:invalid-field",
    "amqp:not-implemented",
    "amqp:decode-error",
    "com.microsoft:argument-error",
    "com.microsoft:argument-out-of-range",
)


# What the SDK says when a connection is lost while it shows its token: by its class it would be the token's fault.
_LOST_WITH_THE_TOKEN: Final = (
    "Failed to open CBS authentication link",
    "CBS authentication link is in broken status",
)

# What the SDK says when there was nothing to send by yet.
_UNREACHED: Final = ("Failed to initiate the connection", "Timed out waiting for the AMQP link to open")


def is_unanswered(error: Exception) -> bool:
    """Whether the message of a send may have been taken although nobody said so. When in doubt it may."""
    if not isinstance(error, (*_LOST, OperationTimeoutError)):
        return False
    return not any(words in str(error) for words in _UNREACHED)


def judge_primary(error: Exception) -> Judgement:
    """A send to an entity of the primary."""
    if isinstance(error, ServiceBusServerBusyError):
        return Judgement.BUSY
    if _is_lost(error):
        return Judgement.LOST
    if isinstance(error, OperationTimeoutError):
        return Judgement.TIMED_OUT
    if isinstance(error, ServiceBusQuotaExceededError):
        return Judgement.UNAVAILABLE
    if isinstance(error, _SETTINGS) or _is_of_the_message(error):
        return Judgement.REFUSED
    return Judgement.UNAVAILABLE if isinstance(error, ServiceBusError) else Judgement.REFUSED


def judge_backlog(error: Exception) -> Judgement:
    """A send to a backlog queue: whatever it is, another queue may take the message, unless that is to blame."""
    if _is_of_the_message(error) or not isinstance(error, (*_LOST, AzureError)):
        return Judgement.REFUSED
    return Judgement.LOST if _is_lost(error) else Judgement.UNAVAILABLE


def judge_ping(error: Exception) -> Judgement:
    """A ping. An entity that finds fault with it, since it wants a session id, has answered: it is there."""
    return Judgement.SENT if _is_invalid(error) else judge_primary(error)


def _is_lost(error: Exception) -> bool:
    if isinstance(error, ServiceBusAuthenticationError):
        return any(words in str(error) for words in _LOST_WITH_THE_TOKEN)
    return isinstance(error, _LOST)


def _is_of_the_message(error: Exception) -> bool:
    return isinstance(error, MessageSizeExceededError) or _is_invalid(error)


def _is_invalid(error: Exception) -> bool:
    return type(error) is ServiceBusError and any(condition in str(error) for condition in _INVALID)
