"""What a command raises when it cannot be carried out."""

from __future__ import annotations

from tandem.errors import TandemError

__all__ = ["CommandFailed"]


class CommandFailed(TandemError):
    """A command could not be carried out. The message says why, and what to do next."""
