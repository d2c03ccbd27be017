"""A Spark for queries of a few rows, and programs that run one of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "SETTINGS", "SHORT_LIVED_JAVA", "program", "run_program"]

ROOT: Final = Path(__file__).resolve().parents[2]

# What would be compiled for speed would be thrown away at once.
SHORT_LIVED_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    # Spark takes a process that is silent for dead and starts another in its place, which makes a busy machine busier.
    # No test depends on these limits: a process that is killed closes its connections.
    "spark.network.timeout": "600s",
    "spark.executor.heartbeatInterval": "60s",
    "spark.python.authenticate.socketTimeout": "300s",
    "spark.sql.streaming.stopTimeout": "300s",
    "spark.driver.extraJavaOptions": SHORT_LIVED_JAVA,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


def program(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a module of the tests, or of Tandem, as a program. Its workers find the tests too."""
    base = dict(os.environ) if environment is None else dict(environment)
    path = os.pathsep.join([str(ROOT), *filter(None, [base.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**base, "PYTHONPATH": path, "SPARK_SUBMIT_OPTS": SHORT_LIVED_JAVA},
    )


def run_program(
    *arguments: str | Path, timeout_s: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The same to its end."""
    with program(*arguments, environment=environment) as running:
        try:
            output, errors = running.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            running.kill()
            raise
    return subprocess.CompletedProcess(running.args, running.returncode, output, errors)
