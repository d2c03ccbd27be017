"""A ready SparkSession: Java found or brought along, the workers' Python chosen, the log quiet.

The only place that builds a session. Local by default; with a `master`, under spark-submit or with SPARK_REMOTE the
same program runs on a cluster.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark.sql import SparkSession

from tandem.spark.java import Java, cache_folder, find_java
from tandem.spark.spark_home import light_home

__all__ = ["DEFAULT_MASTER", "SMALL_DATA_SETTINGS", "activate", "chosen_java", "session"]

DEFAULT_MASTER: Final = "local[*]"

# What Spark would take for itself: options of data sources with keys in them are not shown by its pages and logs.
_REDACTION: Final = r"(?i)secret|password|token|access[.]?key|connectionstring$"

_SETTINGS: Final = {
    "spark.redaction.regex": _REDACTION,
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Of what a sink is handed at once. With Spark's own 64 MB, a task that captures takes three times as much memory.
    "spark.sql.execution.arrow.maxBytesPerBatch": "16m",
    "spark.ui.enabled": "false",
}

# Of a program that spark-submit has started: its Java does not have our configuration of logging.
_SUBMITTED_SETTINGS: Final = {"spark.log.level": "ERROR"}

# Of a session on this machine alone: nothing listens to the network, nothing is spread over 200 tasks, and workers are
# forked with their modules imported.
_LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "8",
    "spark.python.daemon.module": "tandem.spark.worker_daemon",
}

# For a session that reads a few thousand records and ends. Its time is spent on starting: on processes, on classes, on
# generating and compiling code, on stages and tasks. Hardly any is spent on the records.
SMALL_DATA_SETTINGS: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    # Recording the Python line of every expression takes several calls to the driver each.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# Spark's own logging begins before its settings are read, and would say so.
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")

_java: Java | None = None


def session(
    name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    shows_progress: bool | None = None,
) -> SparkSession:
    """The session of this process: made at the first call, the same one afterwards.

    `settings` go to Spark, over those that are chosen here. Progress bars are shown where somebody sees them.
    """
    if "SPARK_REMOTE" in os.environ and master is None:
        # A Spark Connect server has its own Java, Python and settings.
        return SparkSession.builder.appName(name).getOrCreate()
    chosen_java()
    builder = SparkSession.builder.appName(name)
    # A program that spark-submit has started was told its master there.
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    chosen = master if master is not None or is_submitted else DEFAULT_MASTER
    every = _SETTINGS | (_SUBMITTED_SETTINGS if is_submitted else {})
    if chosen is not None:
        builder = builder.master(chosen)
        if chosen.startswith("local"):
            every |= _LOCAL_SETTINGS
            _choose_home(chosen)
            # Executors elsewhere could not reach a driver that listens here only.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    is_shown = sys.stderr.isatty() if shows_progress is None else shows_progress
    every["spark.ui.showConsoleProgress"] = str(is_shown).lower()
    every |= dict(settings or {})
    # The last one counts: a configuration of the user's own takes its place.
    every[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {every.get(_JAVA_OPTIONS, '')}".strip()
    for key, value in every.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    if any(character.isspace() for character in os.environ["PYSPARK_PYTHON"]):
        _register_formats(made)
    return made


def activate(spark: SparkSession) -> None:
    """Make the session the active one of this thread.

    Spark looks up the format of a `writeStream` in the active session of the thread that starts it. A thread other than
    the one that made the session has none, and would not find formats that are written in Python.
    """
    # Any: Java, by py4j. A client of Spark Connect has none, and needs none.
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is not None:
        jvm.SparkSession.setActiveSession(spark._jsparkSession)


def _register_formats(spark: SparkSession) -> None:
    """Register the formats that Spark finds by itself where the path of Python has no space.

    It looks for data sources only if `sh -c "command -v PYTHON"` succeeds, with a path that it does not quote.
    """
    from pyspark_capture import DefaultSource as Capture
    from pyspark_deltalake import DefaultSource as DeltaLake
    from pyspark_eventhubs import DefaultSource as EventHubs
    from pyspark_servicebus import DefaultSource as ServiceBus

    for source in (Capture, DeltaLake, EventHubs, ServiceBus):
        spark.dataSource.register(source)


def _choose_home(master: str) -> None:
    """What is read by the launcher of Spark, once. The executors of a cluster have homes of their own."""
    if "SPARK_HOME" in os.environ:
        return
    cache = cache_folder("spark", os.environ)
    if master.startswith("local-cluster"):
        # Its workers keep what they are sent in the home of Spark, whatever one sets: not among installed packages.
        cache = Path(tempfile.mkdtemp(prefix="tandem-spark-"))
        atexit.register(shutil.rmtree, cache, ignore_errors=True)
    home = light_home(Path(pyspark.__file__).parent, cache)
    if home is not None:
        os.environ["SPARK_HOME"] = str(home)


def chosen_java() -> Java:
    """What the session runs on. Sets what the launcher of Spark and its workers read from the environment."""
    global _java  # noqa: PLW0603 - there is one Java for a process, and to look for it starts it twice
    if _java is None:
        _java = find_java()
    os.environ["JAVA_HOME"] = str(_java.home)
    # Workers are started by name: without this, by the first python3 of the path, which knows nothing of us.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return _java
