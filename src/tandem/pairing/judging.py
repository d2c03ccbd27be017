"""Which errors of `tandem.client` lead to a failover, by one of two rules.

`FailoverRule.AVAILABILITY`, the default, asks whether the error says that the entity cannot take messages now. A lost
connection and an error inside the service do. No right, no such entity, an entity that is disabled, a certificate that
is not trusted: these are settings, the same error comes back tomorrow, and a detour would hide it from the people who
can correct it. `FailoverRule.DOCUMENTED` is the sentence of the service's documents, word for word: a messaging error
whose `is_transient` is false, or a timeout.

By both rules ServerBusy is an answer of a service that works, and is waited out. `docs/reference/pairing.md` has both
as a table that is generated from this module.
"""

from __future__ import annotations

import enum
from typing import Final

from tandem.client.errors import (
    CertificateNotTrustedError,
    InvalidOperationError,
    MessageSizeExceededError,
    MessagingCommunicationError,
    MessagingEntityNotFoundError,
    MessagingError,
    OperationTimeoutError,
    QuotaExceededError,
    ServerBusyError,
    UnauthorizedAccessError,
)
from tandem.errors import UsageError
from tandem.pairing.detour import Judgement

__all__ = ["FailoverRule", "is_refused_for_good", "judge_backlog", "judge_ping", "judge_primary"]

# The message is to blame: no other queue would take it, and no other time.
_OF_THE_MESSAGE: Final = (InvalidOperationError, MessageSizeExceededError, UsageError)


# The client is configured incorrectly. In .NET these are not messaging exceptions at all.
_OF_THE_CLIENT: Final = (UnauthorizedAccessError, CertificateNotTrustedError)


class FailoverRule(enum.Enum):
    """Decides which errors start the failover interval of an entity."""

    # Errors that say that the entity cannot take messages now.
    AVAILABILITY = "availability"
    # A messaging error whose `is_transient` is false, or a timeout.
    DOCUMENTED = "documented"


def judge_primary(error: Exception, rule: FailoverRule = FailoverRule.AVAILABILITY) -> Judgement:
    """A send to an entity of the primary."""
    if isinstance(error, ServerBusyError):
        return Judgement.BUSY
    if rule is FailoverRule.DOCUMENTED:
        return _judge_as_documented(error)
    if isinstance(error, MessagingCommunicationError):
        return Judgement.LOST
    if isinstance(error, OperationTimeoutError):
        return Judgement.TIMED_OUT
    # A full entity takes no messages either. What has no class of its own is an error inside the service.
    if isinstance(error, QuotaExceededError) or type(error) is MessagingError:
        return Judgement.UNAVAILABLE
    return Judgement.REFUSED


def _judge_as_documented(error: Exception) -> Judgement:
    if not isinstance(error, MessagingError) or isinstance(error, _OF_THE_CLIENT):
        return Judgement.REFUSED
    if isinstance(error, OperationTimeoutError):
        return Judgement.TIMED_OUT
    return Judgement.TRANSIENT if error.is_transient else Judgement.UNAVAILABLE


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
