"""`/diagnosis`: how the broker is, and which part of it is in trouble.

Neither a fault nor an overload refuses this request: it is for the operator who looks for the reason.
"""

from __future__ import annotations

import time
from typing import Literal

from aiohttp import web
from msgspec import Struct

from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Operation, describes
from tandem.server.health.diagnosis import Diagnosis

__all__ = ["HealthHandlers"]


class ShownFacet(Struct):
    """What the broker measures of itself, and how that is. A limit of null is switched off."""

    name: str
    value: float
    unit: str
    limit: float | None
    condition: Literal["well", "strained", "overloaded", "easing"]
    # For how many seconds it has been so.
    since_s: int
    sentence: str
    # What to do about it; null while there is nothing to do.
    advice: str | None


class ShownLoad(Struct):
    """Messages that an entity takes in a second, a message of 8 KiB counting as two."""

    entity: str
    rate: float


class ShownRestart(Struct):
    """A part of the broker that was restarted since the process began."""

    time: str
    level: Literal["entity", "host"]
    # The entity, or the namespace.
    subject: str
    reason: str


class ShownRestartCounts(Struct):
    """How many parts were restarted since the process began, in all namespaces."""

    entity: int
    host: int


class ShownLastDiagnosis(Struct):
    """The last diagnosis that was written, perhaps by the process before this one."""

    time: str
    reason: str
    summary: str
    path: str


class ShownDamage(Struct):
    """Stored data that is damaged or missing."""

    # The smallest part that is affected, such as the numbers of events.
    unit: str
    what: str
    # What cannot be read any more because of it; empty if that is nothing.
    lost: str


class ShownDiagnosis(Struct):
    """How the broker is. Facets are those of the process; the rest is that of the namespace."""

    status: Literal["well", "overloaded", "damaged"]
    # What is wrong, as sentences.
    troubles: list[str]
    # Every address that the broker listens on, as `tandem serve` prints them.
    addresses: list[str]
    # Whether overload refuses requests and failed parts are restarted: not with --no-health.
    is_supervised: bool
    facets: list[ShownFacet]
    commit_in_progress_ms: int | None
    commit_count: int
    # What the store or the engine failed with.
    errors: list[str]
    # As long as the folder with the damaged files is in the data directory. Everything else is served.
    damages: list[ShownDamage]
    # False if this build of apsw cannot keep checksums of pages.
    has_page_checksums: bool
    # The heaviest first.
    loads: list[ShownLoad]
    # Entities that are refused with ServerBusy at present; `everything` stands for all.
    refused: list[str]
    refused_count: int
    restart_counts: ShownRestartCounts
    restarts: list[ShownRestart]
    last_diagnosis: ShownLastDiagnosis | None


class HealthHandlers:
    """`/diagnosis`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "GET",
            "/diagnosis",
            "diagnose",
            "Show how the broker is, and which part of it is in trouble.",
            "Manage on the namespace",
            ShownDiagnosis,
            tag="namespace",
        )
    )
    async def show(self, request: web.Request) -> web.Response:
        self._gate.admit_to_repairs(request)
        monitor = self._gate.monitor
        reporter = monitor.reporter
        overloaded = monitor.vital_signs.overloaded
        now_s = time.monotonic()
        host = reporter.describe_host(self._gate.hosted)
        name = host.pop("name")
        troubles = [f"overloaded: {gauge.sentence(now_s)}" for gauge in overloaded]
        troubles += [f"damaged: {one['unit']}: {one['what']}" for one in host["damages"]]
        return json_answer(
            {
                "status": "overloaded" if overloaded else "damaged" if host["damages"] else "well",
                "troubles": troubles,
                "addresses": self._gate.addresses,
                "is_supervised": monitor.settings.is_supervising,
                "facets": reporter.describe_facets(),
                **host,
                "restart_counts": {level.value: count for level, count in reporter.restart_counts.items()},
                "restarts": [one for one in reporter.restarts if one["namespace"] == name],
                "last_diagnosis": _last(reporter.last_diagnosis),
            }
        )


def _last(last: Diagnosis | None) -> dict[str, object] | None:
    if last is None:
        return None
    return {**{key: last[key] for key in ("time", "reason", "summary")}, "path": last["text_path"]}
