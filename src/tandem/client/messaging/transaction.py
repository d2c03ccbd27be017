"""Sends and settlements that happen together or not at all.

    async with factory.transaction() as transaction:
        await sender.send(answer, transaction=transaction)
        await question.complete(transaction=transaction)

It is committed when the block ends, and rolled back when the block raises.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from tandem.amqp import Declare, Declared, DeliveryState, Discharge, Rejected, TransactionalState
from tandem.client.errors import MessagingError, TransactionError, error_of_condition
from tandem.client.wire.connection import ServiceConnection, Wire
from tandem.client.wire.retry import Retrier
from tandem.errors import StateError

__all__ = ["Transaction"]


class Transaction:
    """One transaction. It begins with its first operation, on the connection of that, and is lost with it."""

    def __init__(self, connection: ServiceConnection) -> None:
        self._retrier: Retrier = connection.make_retrier()
        self._beginning = asyncio.Lock()
        self._wire: Wire | None = None
        self._identifier: bytes | None = None
        self._is_over = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if error is None:
            await self._discharge(fail=False)
            return
        with contextlib.suppress(MessagingError):
            # The error of the block is what its caller needs to see; the service rolls back by itself in the end.
            await self._discharge(fail=True)

    async def state(self, wire: Wire, outcome: DeliveryState | None = None) -> TransactionalState:
        """What an operation is marked with to be part of the transaction. For the inside of this library."""
        if self._is_over:
            raise StateError("the transaction has ended already")
        async with self._beginning:
            if self._identifier is None:
                self._identifier = await self._declare(wire)
                self._wire = wire
        if wire is not self._wire:
            raise TransactionError("the connection of the transaction was lost, and it was rolled back with it")
        return TransactionalState(self._identifier, outcome)

    async def _declare(self, wire: Wire) -> bytes:
        coordinator = await wire.coordinator.get()
        state = await coordinator.send(Declare().encode())
        if not isinstance(state, Declared):
            raise _refusal(state)
        return state.txn_id

    async def _discharge(self, *, fail: bool) -> None:
        wire, identifier = self._wire, self._identifier
        if wire is None or identifier is None:
            # Nothing was done in it.
            return

        async def attempt() -> None:
            coordinator = wire.coordinator.current
            if coordinator is None:
                raise TransactionError("the connection was lost before the transaction was committed")
            state = await coordinator.send(Discharge(identifier, fail).encode())
            if isinstance(state, Rejected):
                raise _refusal(state)

        try:
            await self._retrier.perform(attempt, "the end of a transaction")
        except MessagingError as error:
            if error.is_transient:
                raise TransactionError(f"whether the transaction was committed is not known: {error}") from error
            raise


def _refusal(state: DeliveryState | None) -> MessagingError:
    if isinstance(state, Rejected) and state.error is not None:
        return error_of_condition(state.error.condition, state.error.description or "the transaction was refused")
    return TransactionError(f"the transaction was refused with {state!r}")
