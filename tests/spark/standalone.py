"""A standalone cluster of a master and two workers, from what pip has installed: docs/howto/spark-cluster.md."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pyspark

from tandem.spark.java import find_java
from tandem.testing.ports import PortReservation
from tests.spark.small_spark import ROOT, SHORT_LIVED_JAVA

__all__ = ["standalone_cluster"]

HOST: Final = "127.0.0.1"
WORKERS: Final = 2

# Seconds. Three Javas start in ten; the rest is for a machine that is busy.
START_LIMIT_S: Final = 200.0


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Its address, as `--master` wants it, when both workers have come."""
    with ExitStack() as stack:
        port, page_port, *worker_ports = stack.enter_context(PortReservation(2 + WORKERS)).ports
        address = f"spark://{HOST}:{port}"

        def start(name: str, *arguments: str) -> None:
            log = stack.enter_context((folder / f"{name}.log").open("w"))
            stack.callback(_end, _started(arguments, log.fileno()))

        start("master", "master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(page_port))
        for number, worker_port in enumerate(worker_ports):
            name = f"worker-{number}"
            where = ("-d", str(folder / name), "--host", HOST, "--webui-port", str(worker_port))
            start(name, "worker.Worker", "-c", "1", "-m", "1g", *where, address)
        _wait_for_workers(page_port, folder)
        yield address


def _started(arguments: tuple[str, ...], log: int) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JAVA,
        # For the tasks that kill their executor. The jobs need nothing but the installed Tandem.
        "PYTHONPATH": str(ROOT),
    }
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for_workers(page_port: int, folder: Path) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    count = 0
    while count < WORKERS:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{count} workers came: {(folder / 'master.log').read_text()[-2_000:]}")
        time.sleep(0.2)
        try:
            with urllib.request.urlopen(f"http://{HOST}:{page_port}/json/", timeout=5) as answer:
                count = json.load(answer)["aliveworkers"]
        except OSError:
            continue
