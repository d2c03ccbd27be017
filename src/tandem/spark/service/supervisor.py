"""Keeps the queries of the service running, and knows how each of them is.

A query that fails is started again from its checkpoint, after a pause that grows to a minute: a broker that is down or
an object store that throttles is an episode, not the end. Stopping waits for batches that are under way.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from tandem.errors import ConfigurationError
from tandem.spark.causes import cause_of
from tandem.spark.lag import LagMetrics, metric_lines
from tandem.spark.service.queries import PlannedQuery

__all__ = ["QueryState", "Supervisor"]

# Seconds. The first pause before a query is started again, and the longest.
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0

# Seconds between two looks at all queries.
_LOOK_S: Final = 0.5

# Seconds that a batch may take to end when the service is stopped. It would be done again by the next run.
_STOP_LIMIT_S: Final = 60.0


@dataclass
class QueryState:
    """One query, running or waiting to be started again."""

    plan: PlannedQuery
    running: StreamingQuery | None = None
    restarts: int = 0
    # Why it does not run; None if it does.
    failure: str | None = "not started yet"
    pause_s: float = _FIRST_PAUSE_S
    next_start_s: float = 0.0
    started_s: float = field(default=0.0, repr=False)


class Supervisor:
    """The queries of a service."""

    def __init__(self, plans: Sequence[PlannedQuery], metrics: LagMetrics, say: Callable[[str], object]) -> None:
        self._states = [QueryState(plan) for plan in plans]
        self._metrics = metrics
        self._say = say

    def run(self, stop: threading.Event) -> None:
        """Start every query, keep them running until `stop` is set, and stop them."""
        try:
            while not stop.is_set():
                for state in self._states:
                    self._look_after(state)
                stop.wait(_LOOK_S)
        finally:
            self._stop()

    def _look_after(self, state: QueryState) -> None:
        now_s = time.monotonic()
        if state.running is None:
            if now_s >= state.next_start_s:
                self._start(state)
        elif not state.running.isActive:
            error = state.running.exception()
            self._note_failure(state, "it ended" if error is None else cause_of(error))
        elif now_s - state.started_s > _LONGEST_PAUSE_S:
            state.pause_s = _FIRST_PAUSE_S

    def _start(self, state: QueryState) -> None:
        try:
            state.running = state.plan.start()
        except ConfigurationError:
            # Trying again would not help.
            raise
        except Exception as error:
            self._note_failure(state, cause_of(error))
        else:
            state.failure = None
            state.started_s = time.monotonic()

    def _note_failure(self, state: QueryState, reason: str) -> None:
        state.running = None
        state.failure = reason
        state.restarts += 1
        state.next_start_s = time.monotonic() + state.pause_s
        self._say(f"{state.plan.name} failed: {reason.rstrip('.')}. It is started again in {state.pause_s:g} s")
        state.pause_s = min(2 * state.pause_s, _LONGEST_PAUSE_S)

    def _stop(self) -> None:
        """Let batches end, and stop queries between two of them."""
        until_s = time.monotonic() + _STOP_LIMIT_S
        running = [state.running for state in self._states if state.running is not None]
        while running:
            for query in list(running):
                if not query.isActive or not query.status["isTriggerActive"] or time.monotonic() > until_s:
                    try:
                        query.stop()
                    except PySparkException as error:
                        self._say(f"{query.name} did not stop: {cause_of(error)}")
                    running.remove(query)
            time.sleep(0.05 if running else 0)

    # --- how it is --------------------------------------------------------------------------------------------------

    @property
    def is_healthy(self) -> bool:
        return all(state.failure is None for state in self._states)

    def health(self) -> str:
        """Return the state of each query as JSON."""
        queries = [
            {
                "query": state.plan.name,
                "running": state.failure is None,
                "restarts": state.restarts,
                "failure": state.failure,
            }
            for state in self._states
        ]
        return json.dumps({"status": "ok" if self.is_healthy else "failing", "queries": queries}, indent=2)

    def metrics(self) -> str:
        """Return the metrics of all queries in the format of Prometheus."""
        return "".join([*self._own_metrics(), self._metrics.text()])

    def _own_metrics(self) -> Iterable[str]:
        labelled = [({"query": state.plan.name}, state) for state in self._states]
        yield from metric_lines(
            "tandem_spark_query_running", "1 if a query runs.", ((name, int(s.failure is None)) for name, s in labelled)
        )
        yield from metric_lines(
            "tandem_spark_query_restarts_total",
            "How often a query was started again after a failure.",
            ((name, s.restarts) for name, s in labelled),
            kind="counter",
        )
