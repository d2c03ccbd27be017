"""Kafka and Redpanda to be measured beside: started from a program that is given, on free ports, nothing left behind.

Both keep what they acknowledge as Tandem does: Kafka is told to sync each batch, Redpanda does so by itself.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.peers.kafka_load import KafkaJob
from tandem.bench.hub.streams import PARTITIONS, Case, HubPeer
from tandem.bench.measuring.contender import run_program
from tandem.bench.measuring.peers import BenchmarkFailed, peer_program
from tandem.bench.measuring.process import HOST, end_process, free_ports
from tandem.errors import ConfigurationError

__all__ = ["Kafka", "Redpanda", "hub_peers"]

START_LIMIT_S: Final = 200.0
POLL_S: Final = 0.1

# Bytes of the output that are shown when a server does not start: its end says why.
OUTPUT_BYTES: Final = 4_000

_KAFKA: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
# A sync for every batch, before it is acknowledged.
log.flush.interval.messages=1
"""

_REDPANDA: Final = """\
redpanda:
  data_directory: {folder}/data
  node_id: 0
  seed_servers: []
  empty_seed_starts_cluster: true
  developer_mode: true
  rpc_server: {{address: {host}, port: {controller_port}}}
  kafka_api: [{{address: {host}, port: {port}}}]
  admin: [{{address: {host}, port: {admin_port}}}]
"""


class _KafkaPeer(HubPeer):
    """A server that speaks Kafka's protocol, up from the first `with` to its end; a topic for each figure."""

    def __init__(self, program: Path) -> None:
        self.program = program.absolute()
        self._cleanup = contextlib.ExitStack()
        self._port = 0

    def prepare(self, folder: Path, port: int) -> list[str | Path]:
        """Write what the server needs to know into a folder, and return the command that starts it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with self._cleanup as cleanup:
            # What is left of a server that was ended must not hide why it did not start.
            name = tempfile.TemporaryDirectory(prefix=f"tandem-{self.name}-", ignore_cleanup_errors=True)
            folder = Path(cleanup.enter_context(name))
            (self._port,) = free_ports(1)
            command = self.prepare(folder, self._port)
            output = cleanup.enter_context((folder / "output").open("w+b"))
            server = subprocess.Popen(
                command,
                cwd=folder,
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            cleanup.callback(end_process, server)
            self._wait_until_started(server, folder / "output")
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def events_per_second(self, case: Case, events: int) -> float:
        job = KafkaJob(
            host=HOST,
            port=self._port,
            topic=f"events-{uuid.uuid4().hex}",
            partitions=PARTITIONS,
            events=events,
            body_bytes=case.body_bytes,
            batch_events=case.batch_events,
        )
        return run_program(peer_program("kafka_load"), job)["events_per_second"]

    def _wait_until_started(self, server: subprocess.Popen[bytes], output: Path) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self._port), timeout=POLL_S):
                return
            if server.poll() is not None or time.monotonic() > deadline:
                said = output.read_bytes()[-OUTPUT_BYTES:].decode(errors="replace")
                raise BenchmarkFailed(f"{self.program} did not start:\n{said}")
            time.sleep(POLL_S)


class Kafka(_KafkaPeer):
    """Apache Kafka without ZooKeeper, from its `bin/kafka-server-start.sh`."""

    name = "kafka"

    def prepare(self, folder: Path, port: int) -> list[str | Path]:
        (controller_port,) = free_ports(1)
        properties = folder / "server.properties"
        properties.write_text(
            _KAFKA.format(host=HOST, port=port, controller_port=controller_port, folder=folder), encoding="ascii"
        )
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        storage = self.program.with_name("kafka-storage.sh")
        if not os.access(storage, os.X_OK):
            raise BenchmarkFailed(f"{storage} is missing: --kafka wants the bin/kafka-server-start.sh of a whole Kafka")
        formatted = subprocess.run(
            [storage, "format", "--cluster-id", cluster, "--config", properties],
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=START_LIMIT_S,
        )
        if formatted.returncode:
            raise BenchmarkFailed(f"{storage} failed: {(formatted.stderr or formatted.stdout).strip()}")
        return [self.program, properties]


class Redpanda(_KafkaPeer):
    """Redpanda, from its program."""

    name = "redpanda"

    def prepare(self, folder: Path, port: int) -> list[str | Path]:
        controller_port, admin_port = free_ports(2)
        configuration = folder / "redpanda.yaml"
        text = _REDPANDA.format(
            host=HOST, port=port, controller_port=controller_port, admin_port=admin_port, folder=folder
        )
        configuration.write_text(text, encoding="ascii")
        (folder / "data").mkdir()
        # It takes every core and all memory for itself unless it is told that others live here, too.
        modest = ["--overprovisioned", "--memory", "1G", "--reserve-memory", "0M", "--lock-memory", "false"]
        return [self.program, "--redpanda-cfg", configuration, *modest]


def _environment(folder: Path) -> dict[str, str]:
    """Kafka's scripts write logs beside themselves unless they are told where."""
    return {**os.environ, "LOG_DIR": str(folder / "log")}


def hub_peers(kafka: Path | None, redpanda: Path | None) -> tuple[HubPeer, ...]:
    """Those of which a program is given."""
    given: list[HubPeer] = []
    for option, program, kind in (("--kafka", kafka, Kafka), ("--redpanda", redpanda, Redpanda)):
        if program is None:
            continue
        if not os.access(program, os.X_OK) or program.is_dir():
            raise ConfigurationError(f"{option} {program} is not a program that can be started")
        given.append(kind(program))
    return tuple(given)
