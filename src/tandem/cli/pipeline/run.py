"""`tandem pipeline run`: captures and results for as long as it runs."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tandem.cli.pipeline.spark_session import open_spark
from tandem.cli.shared.options import AsJson

__all__ = ["run_pipeline"]


def run_pipeline(
    configuration: Annotated[Path, typer.Argument(metavar="FILE", help="What to run, as TOML.")],
    once: Annotated[
        bool, typer.Option("--once", help="Bring everything up to date and end, for a scheduler to repeat.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Where Spark runs.", show_default="this machine")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Capture hubs, and keep cost, availability, latency and a live report, until it is stopped.

    Each hub and each result is a streaming query with its own checkpoint, in one Spark session. A query that fails is
    started again. Every record counts once, through crashes as well, and in its own window however late it comes.
    SIGTERM and Ctrl-C stop the service between two batches.

    \b
    Example of a file:
      out = "pipeline"
      trigger = "10s"
      [namespaces.primary]
      connection_string_variable = "TANDEM_CONNECTION_STRING"
      [[capture]]
      hub = "telemetry"
      format = "delta"

    \b
    Examples:
      tandem pipeline run pipeline.toml
      tandem pipeline run pipeline.toml --once
    """
    from tandem.spark.service.configuration import read_service_settings

    settings = read_service_settings(configuration)
    stop = threading.Event()

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    def say(sentence: str) -> None:
        typer.echo(f"run: {sentence}", err=True)

    def show(addresses: dict[str, str]) -> None:
        typer.echo(json.dumps(addresses))

    from tandem.spark.service.run import SERVICE_SPARK_SETTINGS, run_once, run_service

    with open_spark("run", master, settings={**SERVICE_SPARK_SETTINGS, **settings.spark}) as spark:
        if once:
            records = run_once(spark, settings, say)
            if as_json:
                typer.echo(json.dumps({"records": records}))
            return
        # After Spark, which has a handler of its own.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, ask_to_stop)
        run_service(spark, settings, stop, say, show if as_json else None)
    say("stopped")
