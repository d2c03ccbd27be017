"""What a broker has metered, read from its hub of operations."""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Self

from tandem.errors import RemoteError
from tandem.testing.json_api import JsonApi
from tandem.wire_names import JSON_API

__all__ = ["Metered", "read_metered"]

_EVENTS: Final = f"{JSON_API}/hubs/$operations/partitions/0/events?format=json"
_PAGE_EVENTS: Final = 1_000

# Seconds between two looks. The broker writes its records once a second.
_INTERVAL_S: Final = 0.1
# Seconds. Far more than that: a machine may be busy.
_PATIENCE_S: Final = 60.0

OK: Final = "ok"


@dataclass(frozen=True)
class Metered:
    """Counts by entity, operation, stage and outcome."""

    counts: Counter[tuple[str, str, str, str]]

    @classmethod
    def of(cls, records: Iterable[dict[str, Any]]) -> Self:
        counts: Counter[tuple[str, str, str, str]] = Counter()
        for record in records:
            counts[record["entity"], record["operation"], record["stage"], record["outcome"]] += record["count"]
        return cls(counts)

    def count(
        self, operation: str, stage: str | None = None, outcome: str | None = OK, prefix: str | None = None
    ) -> int:
        """How often, over all entities whose names start with `prefix`. None stands for any."""
        return sum(
            count
            for (entity, *counted), count in self.counts.items()
            if (prefix is None or entity.startswith(prefix))
            and all(wanted in {None, given} for wanted, given in zip((operation, stage, outcome), counted, strict=True))
        )


def read_metered(broker: JsonApi) -> Metered:
    """All that was metered until now. Blocks until the broker has written it, a second or two."""
    # A request that nobody else makes: when it is in the hub, so is everything before it.
    last = f"read-{uuid.uuid4().hex}"
    with contextlib.suppress(RemoteError):
        broker.queue(last)
    records: list[dict[str, Any]] = []
    start, deadline_s = 0, time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s:
        events = broker.request("GET", f"{_EVENTS}&from={start}&max={_PAGE_EVENTS}")["events"]
        if not events:
            time.sleep(_INTERVAL_S)
            continue
        start = events[-1]["sequence_number"] + 1
        records += (json.loads(event["body"]) for event in events)
        if any(record["entity"] == last for record in records[-len(events) :]):
            return Metered.of(record for record in records if record["entity"] != last)
    raise TimeoutError(f"the broker did not write what it metered within {_PATIENCE_S:.0f} s")
