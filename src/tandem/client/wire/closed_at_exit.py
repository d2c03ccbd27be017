"""What senders, receivers, clients and factories have in common: `async with` closes them."""

from __future__ import annotations

import abc
from types import TracebackType
from typing import Self

__all__ = ["ClosedAtExit"]


class ClosedAtExit(abc.ABC):
    """An async context manager that is closed at its end."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @abc.abstractmethod
    async def close(self) -> None:
        """Let go of what it holds."""
