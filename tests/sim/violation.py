"""A promise that was broken."""

from __future__ import annotations

__all__ = ["Violation"]


class Violation(BaseException):
    """A promise of the broker was broken. Not an Exception: the broker survives those."""

    def __init__(self, invariant: str, details: str) -> None:
        super().__init__(f"{invariant}: {details}")
        self.invariant = invariant
        self.details = details
