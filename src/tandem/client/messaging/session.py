"""Messages that belong together, for one receiver at a time: `MessageSession`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from tandem.amqp import Source
from tandem.amqp.types import Symbol, UInt
from tandem.client.errors import (
    MessagingCommunicationError,
    OperationTimeoutError,
    SessionLockLostError,
    messaging_error,
)
from tandem.client.messaging.message import BrokeredMessage, Settlement
from tandem.client.messaging.receiver import MessageReceiver, ReceiveMode
from tandem.client.messaging.transaction import Transaction
from tandem.client.settings import seconds
from tandem.client.wire.connection import ServiceConnection
from tandem.client.wire.inbox import Inbox
from tandem.errors import RemoteError, UsageError
from tandem.wire_names import LOCKED_UNTIL_UTC, SESSION_FILTER, TICKS_OF_1970, TICKS_PER_MS, TIMEOUT

__all__ = ["MessageSession"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Seconds. What is left for the answer itself, when the service waits for a session as long as it was told to.
_ANSWER_S: Final = 5.0


class MessageSession(MessageReceiver):
    """A session that is locked for this receiver. Its lock ends with `close`, with its time, or with the connection.

    Its messages come in order, and are locked as long as the session is. State is any bytes that belong to it.
    """

    def __init__(
        self, connection: ServiceConnection, path: str, receive_mode: ReceiveMode, prefetch_count: int
    ) -> None:
        super().__init__(connection, path, receive_mode, prefetch_count)
        self._identifier: str | None = None
        self._locked_until_utc = _EPOCH
        self._wanted: str | None = None
        self._properties: dict[object, object] | None = None
        self._link: Inbox | None = None

    async def accept(
        self,
        session_id: str | None,
        timeout: timedelta | float | None,  # noqa: ASYNC109 - the service's own name; that it passes is no error
    ) -> None:
        """Lock a session, or with None the next one that has messages. For the inside of this library."""
        timeout_s = seconds(timeout, self._connection.settings.operation_timeout.total_seconds())
        self._wanted = session_id
        self._properties = {Symbol(TIMEOUT): UInt(int(timeout_s * 1000))}
        what = "the next session" if session_id is None else f"the session '{session_id}'"
        try:
            link = await self._retrier.perform(self._lock, f"accepting {what} of '{self._path}'", timeout_s + _ANSWER_S)
            if link is None:
                raise OperationTimeoutError(f"{what} of '{self._path}' could not be accepted within {timeout_s:g} s")
        except BaseException:
            # Nobody waits for the session any more: the service must not lock one for us.
            await self.close()
            raise
        self._link = link
        attach = link.link.attach
        filters = attach.source.filter if attach is not None and attach.source is not None else None
        accepted = (filters or {}).get(SESSION_FILTER)
        self._identifier = str(accepted) if isinstance(accepted, str) else session_id
        ticks = (attach.properties or {}).get(LOCKED_UNTIL_UTC) if attach is not None else None
        if isinstance(ticks, int):
            since_1970 = timedelta(milliseconds=(ticks - TICKS_OF_1970) / TICKS_PER_MS)
            self._locked_until_utc = _EPOCH + since_1970

    async def _lock(self) -> Inbox | None:
        """None when the service has waited as long as it was told to: that is an answer, and no reason to ask again."""
        try:
            return await self._inbox.get()
        except RemoteError as error:
            if error.condition != OperationTimeoutError.default_condition:
                raise
            return None

    @property
    def session_id(self) -> str:
        """The id that its messages share."""
        if self._identifier is None:
            raise UsageError("the session was not accepted")
        return self._identifier

    @property
    def locked_until_utc(self) -> datetime:
        """When the lock ends unless it is renewed."""
        return self._locked_until_utc

    async def renew(self) -> datetime:
        """Keep the session for another lock duration from now. Returns when the lock will end."""
        self._require_lock()
        self._locked_until_utc = await self._node.renew_session_lock(self.session_id)
        return self._locked_until_utc

    async def get_state(self, *, transaction: Transaction | None = None) -> bytes | None:
        """Return what the last `set_state` has set, by whoever held the session then. With a transaction, also what was
        set inside of it."""
        self._require_lock()
        return await self._node.get_session_state(self.session_id, transaction)

    async def set_state(self, state: bytes | None, *, transaction: Transaction | None = None) -> None:
        """Keep some bytes with the session; None removes them."""
        self._require_lock()
        await self._node.set_session_state(self.session_id, state, transaction)

    async def renew_lock(self, message: BrokeredMessage) -> datetime:
        """A message of a session is locked as long as the session is."""
        return await self.renew()

    async def _settle_by_token(
        self,
        message: BrokeredMessage,
        settlement: Settlement,
        properties: Mapping[str, object] | None,
        transaction: Transaction | None,
    ) -> None:
        self._require_lock()
        await super()._settle_by_token(message, settlement, properties, transaction)

    @property
    def _session_id(self) -> str | None:
        return self._identifier

    async def _get_inbox(self) -> Inbox:
        self._require_lock()
        assert self._link is not None
        return self._link

    def _require_lock(self) -> None:
        """The lock ended with its link: what the session's receiver asks for now would be asked in vain."""
        link = self._link
        if link is None:
            raise UsageError("the session was not accepted")
        if link.error is None:
            return
        error = messaging_error(link.error)
        if isinstance(error, MessagingCommunicationError):
            error = SessionLockLostError(f"the lock of the session '{self._identifier}' ended with its link: {error}")
        raise error

    async def _open(self) -> Inbox:
        return await self._attach(Source(self._path, filter={Symbol(SESSION_FILTER): self._wanted}), self._properties)
