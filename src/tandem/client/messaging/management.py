"""What the `$management` node of an entity can do, operation by operation, with its types as the service wants them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, cast

from tandem.amqp import TransactionalState
from tandem.amqp.types import LONG_TYPE, UUID_TYPE, Array, Int, Timestamp, UInt
from tandem.client.errors import MessagingError
from tandem.client.messaging.message import BrokeredMessage, Settlement
from tandem.client.messaging.transaction import Transaction
from tandem.client.wire.connection import ServiceConnection
from tandem.client.wire.requests import Answer
from tandem.client.wire.retry import Retrier
from tandem.wire_names import DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON, OPERATION_PREFIX

__all__ = ["ManagementNode"]

# As the service counts them: settled by the sender as it hands out, or by the receiver afterwards.
_RECEIVE_AND_DELETE: Final = 0
_PEEK_LOCK: Final = 1

# "List the sessions with messages or state": the first moment of the year 10000, in milliseconds.
_ALL_SESSIONS_MS: Final = 253_402_300_800_000


class ManagementNode:
    """The node of one entity, through the retrier of whoever uses it."""

    def __init__(self, connection: ServiceConnection, path: str, retrier: Retrier) -> None:
        self._connection = connection
        self._path = path
        self._retrier = retrier

    async def _request(self, operation: str, body: dict[str, object], transaction: Transaction | None = None) -> Answer:
        async def attempt() -> Answer:
            wire = await self._connection.wire()
            node = await wire.management(self._path)
            state: TransactionalState | None = None if transaction is None else await transaction.state(wire)
            return await node.request({"operation": OPERATION_PREFIX + operation}, body, state)

        return await self._retrier.perform(attempt, f"{operation} on '{self._path}'")

    # --- messages -------------------------------------------------------------------------------------------

    async def schedule(self, messages: Sequence[BrokeredMessage], transaction: Transaction | None) -> list[int]:
        entries: list[object] = []
        for message in messages:
            entry: dict[str, object] = {"message-id": str(message.message_id), "message": message.to_payload()}
            optional = {
                "session-id": message.session_id,
                "partition-key": message.partition_key,
                "via-partition-key": message.via_partition_key,
            }
            entry.update({key: value for key, value in optional.items() if value is not None})
            entries.append(entry)
        answer = await self._request("schedule-message", {"messages": entries}, transaction)
        return [cast("int", number) for number in _array(answer, "sequence-numbers")]

    async def cancel_scheduled(self, sequence_numbers: Sequence[int], transaction: Transaction | None) -> None:
        body: dict[str, object] = {"sequence-numbers": Array(LONG_TYPE, sequence_numbers)}
        await self._request("cancel-scheduled-message", body, transaction)

    async def peek(
        self, from_sequence_number: int, message_count: int, session_id: str | None = None
    ) -> list[BrokeredMessage]:
        body: dict[str, object] = {
            "from-sequence-number": from_sequence_number,
            "message-count": Int(message_count),
        }
        if session_id is not None:
            body["session-id"] = session_id
        answer = await self._request("peek-message", body)
        return [BrokeredMessage.from_payload(payload) for _, payload in _messages(answer)]

    async def receive_deferred(
        self, sequence_numbers: Sequence[int], is_peek_lock: bool, session_id: str | None = None
    ) -> list[tuple[uuid.UUID | None, bytes]]:
        """The messages encoded, each with the token of its lock."""
        body: dict[str, object] = {
            "sequence-numbers": Array(LONG_TYPE, sequence_numbers),
            "receiver-settle-mode": UInt(_PEEK_LOCK if is_peek_lock else _RECEIVE_AND_DELETE),
        }
        if session_id is not None:
            body["session-id"] = session_id
        return _messages(await self._request("receive-by-sequence-number", body))

    async def settle(
        self,
        lock_token: uuid.UUID,
        settlement: Settlement,
        properties: Mapping[str, object] | None,
        transaction: Transaction | None,
        session_id: str | None = None,
    ) -> None:
        changes = dict(properties or {})
        body: dict[str, object] = {
            "disposition-status": settlement.value,
            "lock-tokens": Array(UUID_TYPE, [lock_token]),
        }
        if settlement is Settlement.DEAD_LETTER:
            reason = changes.pop(DEAD_LETTER_REASON, None)
            description = changes.pop(DEAD_LETTER_ERROR_DESCRIPTION, None)
            body["deadletter-reason"] = reason
            body["deadletter-description"] = description
        if changes:
            body["properties-to-modify"] = changes
        if session_id is not None:
            body["session-id"] = session_id
        await self._request("update-disposition", body, transaction)

    async def renew_lock(self, lock_token: uuid.UUID) -> datetime:
        answer = await self._request("renew-lock", {"lock-tokens": Array(UUID_TYPE, [lock_token])})
        return _moment(_array(answer, "expirations")[0])

    # --- sessions -------------------------------------------------------------------------------------------

    async def renew_session_lock(self, session_id: str) -> datetime:
        answer = await self._request("renew-session-lock", {"session-id": session_id})
        return _moment(answer.body.get("expiration"))

    async def get_session_state(self, session_id: str, transaction: Transaction | None) -> bytes | None:
        answer = await self._request("get-session-state", {"session-id": session_id}, transaction)
        state = answer.body.get("session-state")
        return state if isinstance(state, bytes) else None

    async def set_session_state(self, session_id: str, state: bytes | None, transaction: Transaction | None) -> None:
        await self._request("set-session-state", {"session-id": session_id, "session-state": state}, transaction)

    async def session_ids(self, skip: int, top: int) -> list[str]:
        body: dict[str, object] = {
            "last-updated-time": Timestamp(_ALL_SESSIONS_MS),
            "skip": Int(skip),
            "top": Int(top),
        }
        answer = await self._request("get-message-sessions", body)
        return [str(item) for item in _array(answer, "sessions-ids")] if answer.body else []


def _array(answer: Answer, field: str) -> list[object]:
    value = answer.body.get(field)
    items = list(value) if isinstance(value, Array | list) else None
    if items is None:
        raise MessagingError(f"the answer has no array '{field}': {answer.body!r:.200}")
    return items


def _messages(answer: Answer) -> list[tuple[uuid.UUID | None, bytes]]:
    """Nothing found is answered with a status of 204 and no body."""
    if "messages" not in answer.body:
        return []
    found: list[tuple[uuid.UUID | None, bytes]] = []
    for entry in _array(answer, "messages"):
        payload = entry.get("message") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(payload, bytes):
            raise MessagingError(f"the answer holds something that is no message: {entry!r:.200}")
        token = entry.get("lock-token")
        found.append((token if isinstance(token, uuid.UUID) else None, payload))
    return found


def _moment(value: object) -> datetime:
    if not isinstance(value, Timestamp):
        raise MessagingError(f"the answer has {value!r:.80} where a time should be")
    return value.to_datetime()
