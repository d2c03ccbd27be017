"""What an error of `tandem.client` says: about the entity that a message was sent to, or about the message itself.

Only what says that the entity cannot take messages leads to a failover. No right, no such entity, one that is disabled:
these are settings, the same would be met tomorrow, and a detour would hide them from the people who can mend them.
ServerBusy is an answer of a service that works: it is waited out.
"""

from __future__ import annotations

from typing import Final

from tandem.client.errors import (
    InvalidOperationError,
    MessageSizeExceededError,
    MessagingCommunicationError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    QuotaExceededError,
    ServerBusyError,
)
from tandem.errors import UsageError
from tandem.pairing.detour import Judgement

__all__ = ["is_refused_for_good", "judge_backlog", "judge_ping", "judge_primary"]

# The message is to blame: no other queue would take it, and no other time.
_OF_THE_MESSAGE: Final = (InvalidOperationError, MessageSizeExceededError, UsageError)


def judge_primary(error: Exception) -> Judgement:
    """A send to an entity of the primary."""
    if isinstance(error, ServerBusyError):
        return Judgement.BUSY
    if isinstance(error, MessagingCommunicationError):
        return Judgement.LOST
    if isinstance(error, OperationTimeoutError):
        return Judgement.TIMED_OUT
    # A full entity takes no messages either. What has no class of its own is an error inside the service.
    if isinstance(error, QuotaExceededError) or type(error) is MessagingError:
        return Judgement.UNAVAILABLE
    return Judgement.REFUSED


def judge_backlog(error: Exception) -> Judgement:
    """A send to a backlog queue: whatever it is, another queue may take the message, unless that is to blame."""
    if isinstance(error, _OF_THE_MESSAGE):
        return Judgement.REFUSED
    return Judgement.LOST if isinstance(error, MessagingCommunicationError) else Judgement.UNAVAILABLE


def judge_ping(error: Exception) -> Judgement:
    """A ping. An entity that finds fault with it, since it wants a session id, has answered: it is there."""
    return Judgement.SENT if isinstance(error, InvalidOperationError) else judge_primary(error)


def is_refused_for_good(error: Exception) -> bool:
    """Whether the primary will never take this message, so that the syphon must not try for ever."""
    return isinstance(error, (*_OF_THE_MESSAGE, MessagingEntityNotFoundError))
