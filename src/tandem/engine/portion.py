"""What one step of a long task did.

A task over all messages of a queue goes by portions, each of which is one question to the store and a bounded number of
changes, so that nobody else waits long. The task is whoever asks for the next portion; nothing of it is kept here.
"""

from __future__ import annotations

__all__ = ["Mention", "Portion"]


class Mention:
    """One message of a portion, for people to read: which, where it goes to, and if it cannot go there, why."""

    __slots__ = ("message_id", "reason", "sequence_number", "target")

    def __init__(self, sequence_number: int, message_id: str | None, target: str | None, reason: str | None) -> None:
        self.sequence_number = sequence_number
        self.message_id = message_id
        self.target = target
        self.reason = reason


class Portion:
    """How many messages were dealt with, passed over, or refused; and up to which number all of them were looked at."""

    __slots__ = ("done_count", "failed_count", "mentions", "skipped_count", "up_to")

    def __init__(self, up_to: int) -> None:
        self.up_to = up_to
        self.done_count = 0
        self.skipped_count = 0
        self.failed_count = 0
        self.mentions: list[Mention] = []
