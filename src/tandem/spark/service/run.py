"""The service as a whole: a session, its queries, and what it shows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from pyspark.sql import SparkSession

from tandem.errors import ConfigurationError
from tandem.spark.lag import LagMetrics
from tandem.spark.report.page import render
from tandem.spark.report.results import Results, read_results
from tandem.spark.service.configuration import ServiceSettings
from tandem.spark.service.pages import Page, kept_for, serving
from tandem.spark.service.queries import planned_queries
from tandem.spark.service.supervisor import Supervisor

__all__ = ["SERVICE_SPARK_SETTINGS", "run_once", "run_service"]

# A batch has few rows after it was summed up, and the same plan as the last one.
SERVICE_SPARK_SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "5",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A worker that starts on a machine that is busy with recovering takes longer than Spark's own 15 s.
    "spark.python.authenticate.socketTimeout": "120s",
}

_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"


def run_service(
    spark: SparkSession,
    settings: ServiceSettings,
    stop: threading.Event,
    say: Callable[[str], object] = lambda _: None,
    show: Callable[[dict[str, str]], object] | None = None,
) -> None:
    """Run until `stop` is set. A mistake in the configuration ends it; anything else is tried again.

    `show` gets the addresses of the pages by their names. Without it they are said.
    """
    metrics = LagMetrics()
    spark.streams.addListener(metrics)
    supervisor = Supervisor(planned_queries(spark, settings), metrics, say)
    refresh_s = max(1, round(settings.trigger_s))
    pages = {
        "/": kept_for(refresh_s, lambda: Page(_report(settings, refresh_s), _HTML)),
        "/health": lambda: Page(
            supervisor.health(),
            _JSON,
            HTTPStatus.OK if supervisor.is_healthy else HTTPStatus.SERVICE_UNAVAILABLE,
        ),
        "/metrics": lambda: Page(supervisor.metrics()),
    }
    try:
        with serving(settings.host, settings.port, pages) as address:
            addresses = {"report": f"{address}/", "health": f"{address}/health", "metrics": f"{address}/metrics"}
            if show is None:
                say("  ".join(f"{name} {place}" for name, place in addresses.items()))
            else:
                show(addresses)
            supervisor.run(stop)
    finally:
        spark.streams.removeListener(metrics)


def run_once(
    spark: SparkSession, settings: ServiceSettings, say: Callable[[str], object] = lambda _: None
) -> dict[str, int]:
    """Bring every capture and result up to date, one after the other, and return how many records each has read.

    The next run, of either kind, goes on there.
    """
    records: dict[str, int] = {}
    for plan in planned_queries(spark, settings, is_once=True):
        query = plan.start()
        query.awaitTermination()
        records[plan.name] = sum(progress.numInputRows for progress in query.recentProgress)
        say(f"{plan.name}: {records[plan.name]:,} records")
    return records


def _report(settings: ServiceSettings, refresh_s: int) -> str:
    try:
        results = read_results(str(settings.out), settings.out.options, until=datetime.now(UTC))
    except ConfigurationError:
        # There are none yet.
        results = Results()
    return render(results, title=settings.title, refresh_s=refresh_s)
