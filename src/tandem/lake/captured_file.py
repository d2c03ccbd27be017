"""What is known of a file once it is written: the fields of the service's event `CaptureFileCreated`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["CapturedFile"]


@dataclass(frozen=True)
class CapturedFile:
    """A file of captured events. Its path is relative to the place of the capture."""

    path: str
    hub: str
    partition: str
    date: str
    hour: str
    sizeInBytes: int  # noqa: N815 - the service's own names
    eventCount: int  # noqa: N815
    firstSequenceNumber: int  # noqa: N815
    lastSequenceNumber: int  # noqa: N815
    firstEnqueueTime: str  # noqa: N815
    lastEnqueueTime: str  # noqa: N815

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> CapturedFile:
        return CapturedFile(**fields)
