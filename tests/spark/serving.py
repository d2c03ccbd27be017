"""The service of `tandem pipeline run` in this process, with the Spark session of the tests."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tandem.errors import ConfigurationError
from tandem.spark.report.results import Results, read_results
from tandem.spark.service.configuration import read_service_settings
from tandem.spark.service.run import run_service
from tandem.testing import Broker
from tests.patience import wait_until

__all__ = ["Service", "configured", "metered", "running"]


class Service:
    """One that runs in this process."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.said: list[str] = []

    @property
    def address(self) -> str:
        return next(line for line in self.said if line.startswith("report ")).split()[1]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.address}{path}") as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def results(self) -> Results:
        try:
            return read_results(self.out)
        except ConfigurationError:
            return Results()


def configured(folder: Path, broker: Broker, **more: object) -> Path:
    """Write a configuration file; JSON is TOML enough for its values."""
    (folder / "bus.txt").write_text(broker.connection_string)
    settings = {"out": "out", "trigger": "500ms", "listen": "127.0.0.1:0", "latency_window": "5 seconds", **more}
    tables = settings.pop("tables", "")
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    file = folder / "pipeline.toml"
    text = "\n".join([*lines, "[namespaces.primary]", 'connection_string_file = "bus.txt"', str(tables)])
    file.write_text(text, encoding="utf-8")
    return file


@contextmanager
def running(spark: SparkSession, file: Path) -> Iterator[Service]:
    settings = read_service_settings(file)
    service, stop = Service(settings.out.local_path), threading.Event()
    failures: list[BaseException] = []

    def run() -> None:
        try:
            run_service(spark, settings, stop, service.said.append)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        wait_until(lambda: bool(failures) or any(line.startswith("report ") for line in service.said))
        yield service
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def metered(results: Results, entity: str) -> dict[str, int]:
    """Return how many operations on an entity succeeded, by operation."""
    counted: Counter[str] = Counter()
    for row in results.costs:
        if row["entity"] == entity and row["outcome"] == "ok":
            counted[row["operation"]] += row["operations"]
    return dict(counted)
