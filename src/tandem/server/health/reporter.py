"""Describes a broker for an operator: on request, and in a diagnosis that is written when it is in trouble."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import tandem
from tandem.server.health.diagnosis import Diagnosis, newest_diagnosis, stacks, write_diagnosis
from tandem.server.health.gauge import Gauge
from tandem.server.health.ladder import Level
from tandem.server.health.vital_signs import VitalSigns, now_text

if TYPE_CHECKING:
    from tandem.server.hosted_namespace import HostedNamespace

__all__ = ["Reporter"]

logger = logging.getLogger(__name__)

# Entities and restarts that are shown.
_MAX_SHOWN: Final = 20

# Findings of damage that are shown. `tandem check` lists more.
_MAX_DAMAGES: Final = 100

# Seconds. How long writing a diagnosis may hold up the end of the process: the disk may be what is broken.
_WRITING_LIMIT_S: Final = 2.0


class Reporter:
    """What is known of one broker. Any thread may use it."""

    def __init__(self, data_dir: Path, hosts: Callable[[], Iterable[HostedNamespace]], vital_signs: VitalSigns) -> None:
        self._data_dir = data_dir
        self._hosts = hosts
        self._vital_signs = vital_signs
        self._restarts: deque[Diagnosis] = deque(maxlen=_MAX_SHOWN)
        self.restart_counts: Final = {Level.ENTITY: 0, Level.HOST: 0}
        # Perhaps that of the process before this one.
        self.last_diagnosis = newest_diagnosis(data_dir)

    @property
    def restarts(self) -> list[Diagnosis]:
        """The last restarts, the oldest first."""
        return list(self._restarts)

    def note_restart(self, level: Level, namespace: str, entity: str, reason: str) -> None:
        self.restart_counts[level] += 1
        subject = entity if level is Level.ENTITY else namespace
        self._restarts.append(
            {"time": now_text(), "level": level.value, "namespace": namespace, "subject": subject, "reason": reason}
        )

    # --- writing --------------------------------------------------------------------------------------------

    def write(self, reason: str, summary: str, level: Level) -> None:
        """Write a diagnosis here and now."""
        self._write(self.describe(reason, summary, level))

    def write_soon(self, reason: str, summary: str, level: Level) -> None:
        """Describe the broker now and write that in a thread: the disk may be what is slow."""
        diagnosis = self.describe(reason, summary, level)
        threading.Thread(target=self._write, args=(diagnosis,), name="diagnosis", daemon=True).start()

    def write_before_the_end(self, reason: str, summary: str) -> str:
        """Write a diagnosis, unless the disk does not take it in time. Returns a sentence that says where it is."""
        writing = threading.Thread(target=self.write, args=(reason, summary, Level.PROCESS), daemon=True)
        writing.start()
        writing.join(_WRITING_LIMIT_S)
        if writing.is_alive() or self.last_diagnosis is None:
            return "No diagnosis could be written."
        return f"The diagnosis is in {self.last_diagnosis['text_path']}"

    def _write(self, diagnosis: Diagnosis) -> None:
        try:
            path = write_diagnosis(self._data_dir, diagnosis)
        except OSError as error:
            logger.warning("the diagnosis could not be written: %s", error)
            return
        self.last_diagnosis = {**diagnosis, "text_path": str(path)}
        logger.info("a diagnosis was written to %s", path)

    # --- describing -----------------------------------------------------------------------------------------

    def describe(self, reason: str, summary: str, level: Level) -> Diagnosis:
        """Return everything that an operator may want to know."""
        signs = self._vital_signs
        now_s = time.monotonic()
        hosts = list(self._hosts())
        return {
            "time": now_text(),
            "reason": reason,
            "summary": summary,
            "level": level.value,
            "version": tandem.__version__,
            "process_id": os.getpid(),
            "uptime_s": round(now_s - signs.started_at_s),
            "facets": self.describe_facets(),
            "event_loop": {
                "last_beat_ms": signs.beat_age_ms,
                "connection_count": sum(len(host.services.peers) for host in hosts),
            },
            "namespaces": [self.describe_host(host) for host in hosts],
            "restarts": self.restarts,
            "threads": stacks(),
            "history": list(signs.history),
        }

    def describe_facets(self) -> list[Diagnosis]:
        now_s = time.monotonic()
        return [_gauge_fields(gauge, now_s) for gauge in self._vital_signs.gauges.values()]

    def describe_host(self, host: HostedNamespace) -> Diagnosis:
        watch = host.runner.commit_watch
        in_progress_s = watch.in_progress_s
        heaviest = sorted(host.services.loads.rates.items(), key=lambda one: one[1], reverse=True)[:_MAX_SHOWN]
        refusals = host.services.refusals
        return {
            "name": host.name,
            "commit_in_progress_ms": None if in_progress_s is None else round(in_progress_s * 1_000),
            "commit_count": watch.count,
            "errors": list(watch.errors),
            "damages": [one.to_dict() for one in [*host.damages, *host.store.log.damages][:_MAX_DAMAGES]],
            "has_page_checksums": host.store.has_page_checksums,
            "loads": [{"entity": entity, "rate": round(rate, 2)} for entity, rate in heaviest],
            "refused": ["everything"] if refusals.is_everything_refused else sorted(refusals.refused_entities),
            "refused_count": refusals.refused_count,
        }


def _gauge_fields(gauge: Gauge, now_s: float) -> Diagnosis:
    return {
        "name": gauge.facet.value,
        "value": round(gauge.value, 1),
        "unit": gauge.facet.unit,
        "limit": None if gauge.limit is None else gauge.limit.bound,
        "condition": gauge.condition.value,
        "since_s": round(now_s - gauge.since_s),
        "sentence": gauge.sentence(now_s),
        "advice": gauge.facet.advice if gauge.is_overloaded else None,
    }
