"""One finding of damage in stored data, as the log, the health report and `tandem check` show it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Damage"]


@dataclass(frozen=True)
class Damage:
    """Damage to the smallest unit that it affects.

    unit    what is affected, in an operator's words: "queue 'orders', messages 17 to 23", "hub 'h' partition 0"
    what    what was found: "page 12 of messages.db has a wrong checksum"
    lost    what cannot be served any more because of it; empty if nothing is lost
    """

    unit: str
    what: str
    lost: str = ""

    @property
    def sentence(self) -> str:
        """The finding as one line of a log."""
        return f"{self.unit}: {self.what}; lost: {self.lost}" if self.lost else f"{self.unit}: {self.what}"

    def to_dict(self) -> dict[str, str]:
        return {"unit": self.unit, "what": self.what, "lost": self.lost}
