"""Every block of the pages about Spark runs.

Commands of `tandem pipeline` run in the process of the tests, with the Spark of the tests: each would start one of its
own, which takes longer than all that it does.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from tandem.testing import Broker
from tests.cli.program import tandem_here
from tests.documentation import DOCS, follow
from tests.markers import mission
from tests.spark.filling import fill
from tests.spark.small_spark import SHORT_LIVED_JAVA

pytestmark = [pytest.mark.timeout(900), pytest.mark.usefixtures("commands_share")]

# Runs a command by whoever listens at the socket, or by itself.
_PROGRAM: Final = """#!{python}
import json, os, socket, sys
arguments = sys.argv[1:]
if arguments[:1] != ["pipeline"] or "--master" in arguments:
    os.execv({python!r}, [{python!r}, "-m", "tandem", *arguments])
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({socket!r})
    request = dict(arguments=arguments, folder=os.getcwd(), bus=os.environ.get("TANDEM_CONNECTION_STRING"))
    connection.sendall(json.dumps(request).encode())
    connection.shutdown(socket.SHUT_WR)
    answer = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
sys.stdout.write(answer["stdout"])
sys.stderr.write(answer["stderr"])
sys.exit(answer["code"])
"""


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Broker]:
    """A broker of its own: pages use plain names."""
    with Broker(tmp_path / "broker") as broker:
        yield broker


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Path]:
    """A folder with a `tandem` that shares the Spark of the tests."""
    folder = tmp_path / "programs"
    folder.mkdir()
    address = str(folder / "socket")
    program = folder / "tandem"
    program.write_text(_PROGRAM.format(python=sys.executable, socket=address))
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        threading.Thread(target=_serve, args=(listening,), daemon=True).start()
        yield folder


def _serve(listening: socket.socket) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            # The test is over.
            return
        with connection, connection.makefile("rb") as asked:
            request = json.loads(asked.read())
            done = tandem_here(*request["arguments"], folder=Path(request["folder"]), connection_string=request["bus"])
            answer = {"stdout": done.stdout, "stderr": done.stderr, "code": done.returncode}
            connection.sendall(json.dumps(answer).encode())


@pytest.fixture
def shared_settings(spark: SparkSession) -> Iterator[None]:
    """Pages call `session`, which sets up the Spark that there is."""
    names = ("spark.sql.shuffle.partitions",)
    before = {name: spark.conf.get(name) for name in names}
    yield
    for name, value in before.items():
        assert value is not None
        spark.conf.set(name, value)


def environment(programs: Path, bus: Broker) -> dict[str, str]:
    path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"PATH": path, "TANDEM_CONNECTION_STRING": bus.connection_string}


def paths(folder: Path, *names: str) -> dict[str, str]:
    """Spark was started in another folder."""
    return {f'"{name}"': f'"{folder / name}"' for name in names}


@mission("M30", "M31")
@pytest.mark.usefixtures("shared_settings")
def test_the_page_about_one_machine_runs(tmp_path: Path, bus: Broker, programs: Path) -> None:
    out = f"--out {tmp_path / 'results'}"
    replacements = {
        "pip install 'tandem-bus[spark]'": "true",
        "tandem serve --dev &": "true",
        "tandem connection-string --dev": 'echo "$TANDEM_CONNECTION_STRING"',
        "--out capture": f"--out {tmp_path / 'capture'}",
        "pipeline metering": f"pipeline metering {out}",
        "pipeline latency": f"pipeline latency {out}",
        "pipeline report": f"pipeline report {out}",
        **paths(tmp_path, "bus.txt", "out", "out-checkpoint"),
    }
    page = DOCS / "howto" / "spark-local.md"
    assert follow(page, tmp_path, replacements, environment(programs, bus), shows_everything=False) == 5
    assert bus.queue("orders")["message_count"] == 2
    assert "<svg" in (tmp_path / "report.html").read_text()


@mission("M30")
@pytest.mark.usefixtures("shared_settings")
def test_the_reference_runs(spark: SparkSession, tmp_path: Path, bus: Broker, programs: Path) -> None:
    (tmp_path / "bus.txt").write_text(bus.connection_string)
    for hub in ("orders", "counts", "typed"):
        bus.create_hub(hub, partition_count=2)
    fill(bus, "orders", range(10))
    replacements = {
        "'bus.txt'": f"'{tmp_path / 'bus.txt'}'",
        **paths(tmp_path, "bus.txt", "lag-checkpoint", "counts-checkpoint"),
    }
    page = DOCS / "reference" / "spark.md"
    try:
        assert follow(page, tmp_path, replacements, environment(programs, bus), shows_everything=False) >= 8
    finally:
        for statement in ("DROP VIEW IF EXISTS recent", "DROP TABLE IF EXISTS hub_events"):
            spark.sql(statement)
    # The counts of both partitions, as they were updated.
    assert bus.hub("counts")["event_count"] == 2
    assert tandem_here("cost", "estimate", "--tariff", tmp_path / "tariff.toml").returncode == 0


@mission("M30")
@pytest.mark.usefixtures("shared_settings")
def test_the_page_about_the_cloud_runs_over_the_same_protocol(tmp_path: Path, bus: Broker, programs: Path) -> None:
    bus.create_hub("telemetry", partition_count=2)
    (tmp_path / "azure.txt").write_text(bus.connection_string)
    replacements = {
        **paths(tmp_path, "azure.txt"),
        '"eventHub": "telemetry",': '"eventHub": "telemetry", "transport": "amqp",',
    }
    assert (
        follow(
            DOCS / "howto" / "spark-azure.md",
            tmp_path,
            replacements,
            environment(programs, bus),
            shows_everything=False,
        )
        == 1
    )


@mission("M30", "M32")
@pytest.mark.usefixtures("shared_settings")
def test_the_page_about_clusters_runs(tmp_path: Path, bus: Broker, programs: Path) -> None:
    """Its processes are real: a master, two workers, a driver and its executors."""
    bus.create_hub("telemetry", partition_count=2)
    fill(bus, "telemetry", range(6))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quick = {
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JAVA,
        "SPARK_DAEMON_MEMORY": "512m",
        "SPARK_SUBMIT_OPTS": SHORT_LIVED_JAVA,
        "SPARK_MASTER_WEBUI_PORT": "0",
        "SPARK_WORKER_WEBUI_PORT": "0",
    }
    replacements = {"7077": str(port), "--out capture": f"--out {tmp_path / 'capture'}"}
    page = DOCS / "howto" / "spark-cluster.md"
    assert follow(page, tmp_path, replacements, {**environment(programs, bus), **quick}, shows_everything=False) == 2
    assert list((tmp_path / "capture" / "telemetry").rglob("*.parquet"))
