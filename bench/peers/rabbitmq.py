"""A RabbitMQ of our own to be measured beside: free ports, a temporary folder, nothing left behind.

The broker of the system, if one runs, is neither used nor disturbed: this one has its own node name, cookie, port
mapper (epmd), database, log and configuration. Its queues are declared by a definitions file while it starts, because
its AMQP 1.0 plugin can declare classic queues only.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.bench.load.job import Peer
from tandem.bench.measuring.process import HOST, end_process, free_ports
from tandem.errors import TandemError

__all__ = [
    "CLASSIC",
    "QUORUM",
    "RabbitMq",
    "RabbitMqFailed",
    "RabbitMqQueues",
    "installed_rabbitmq",
    "running_rabbitmq",
    "started_queues",
]

USER: Final = "guest"
PASSWORD: Final = "guest"

# The types of queue, in RabbitMQ's own words (the argument x-queue-type).
CLASSIC: Final = "classic"
QUORUM: Final = "quorum"

# The script of the broker itself, in Debian's package: the one in /usr/sbin insists on the user rabbitmq and on the
# folders of the system.
SERVER_SCRIPT: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")

# Seconds. A start takes seven to eleven on two cores; the rest is for a machine that is busy.
START_LIMIT_S: Final = 200.0
ANSWER_LIMIT_S: Final = 60.0

_SASL_HEADER: Final = b"AMQP\x03\x01\x00\x00"
# What the broker prints when its listeners are open: "... completed with 3 plugins."
_STARTED: Final = b"completed with"

_CONFIGURATION: Final = """\
listeners.tcp.1 = {host}:{amqp_port}
loopback_users = none
log.console = false
log.file.level = info
load_definitions = {definitions}
# SASL ANONYMOUS and clients without SASL are this user.
amqp1_0.default_user = guest
# A small temporary file system is no reason to block the senders.
disk_free_limit.absolute = 1MB
"""


class RabbitMqFailed(TandemError):
    """RabbitMQ did not start or does not speak AMQP 1.0. The message has its output."""


@dataclass(frozen=True)
class RabbitMq:
    """A running broker."""

    port: int
    pid: int
    start_seconds: float
    host: str = HOST
    user: str = USER
    password: str = PASSWORD

    def address(self, queue: str) -> str:
        """The AMQP 1.0 address of a queue that exists."""
        return f"/amq/queue/{queue}"


def installed_rabbitmq() -> Path | None:
    """The script that starts RabbitMQ, where Debian's package is installed."""
    return SERVER_SCRIPT if os.access(SERVER_SCRIPT, os.X_OK) else None


@contextlib.contextmanager
def running_rabbitmq(server_script: Path, queues: Mapping[str, str]) -> Iterator[RabbitMq]:
    """Start a broker with these durable queues (name to type), hand it out when it accepts AMQP 1.0 connections, and
    end all its processes afterwards."""
    started = time.monotonic()
    amqp_port, epmd_port, distribution_port = free_ports(3)
    # Not below a folder of the caller: Erlang's paths are long and the cookie wants a folder nobody else can read.
    with contextlib.ExitStack() as cleanup:
        folder = Path(tempfile.mkdtemp(prefix="tandem-rabbitmq-"))
        cleanup.callback(shutil.rmtree, folder, ignore_errors=True)
        environment = _prepare(folder, queues, amqp_port, epmd_port, distribution_port)

        # The runtime would start an epmd that detaches itself and outlives the broker. Ours is a child like any other.
        epmd = subprocess.Popen(
            ["epmd", "-address", HOST, "-port", str(epmd_port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        cleanup.callback(end_process, epmd)
        broker = subprocess.Popen(
            [server_script],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        cleanup.callback(end_process, broker)
        _wait_until_started(broker, folder, started + START_LIMIT_S)
        _require_amqp_1_0(amqp_port)
        yield RabbitMq(amqp_port, broker.pid, start_seconds=time.monotonic() - started)


class RabbitMqQueues:
    """Durable queues of one type of a RabbitMQ."""

    def __init__(self, broker: RabbitMq, queue_type: str) -> None:
        self.name = f"rabbitmq {queue_type}"
        self._broker = broker
        self._queue_type = queue_type

    @property
    def peer(self) -> Peer:
        return Peer(self._broker.host, self._broker.port, self._broker.user, self._broker.password)

    def address(self, queue: str) -> str:
        return self._broker.address(_queue_name(self._queue_type, queue))

    def require_empty(self, queue: str) -> None:
        """Its word is taken for it: AMQP 1.0 has no way to ask."""


def _queue_name(queue_type: str, queue: str) -> str:
    return f"{queue_type}-{queue}"


@contextlib.contextmanager
def started_queues(
    queue_types: Sequence[str], queues: Sequence[str], say: Callable[[str], None]
) -> Iterator[list[RabbitMqQueues]]:
    """Start a RabbitMQ with queues of these types, if one is installed."""
    script = installed_rabbitmq()
    if script is None:
        say("RabbitMQ is not installed here (Debian package rabbitmq-server), so there are no ratios.")
        yield []
        return
    names = {_queue_name(queue_type, queue): queue_type for queue_type in queue_types for queue in queues}
    with running_rabbitmq(script, names) as broker:
        yield [RabbitMqQueues(broker, queue_type) for queue_type in queue_types]


def _prepare(
    folder: Path, queues: Mapping[str, str], amqp_port: int, epmd_port: int, distribution_port: int
) -> dict[str, str]:
    """Write the configuration and return the environment that leads the broker to it and away from the system's."""
    definitions = folder / "definitions.json"
    definitions.write_text(json.dumps(_definitions(queues)), encoding="utf-8")
    configuration = folder / "rabbitmq.conf"
    configuration.write_text(
        _CONFIGURATION.format(host=HOST, amqp_port=amqp_port, definitions=definitions), encoding="utf-8"
    )
    plugins = folder / "enabled_plugins"
    plugins.write_text("[rabbitmq_amqp1_0].\n", encoding="utf-8")
    nothing = folder / "none"
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "HOME": str(folder),  # where the runtime makes its cookie
        "ERL_EPMD_ADDRESS": HOST,
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_NODENAME": f"tandem-{uuid.uuid4().hex[:12]}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution_port),
        "RABBITMQ_CONFIG_FILE": str(configuration),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(nothing),
        "RABBITMQ_CONF_ENV_FILE": str(nothing),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "config"),
    }


def _definitions(queues: Mapping[str, str]) -> dict[str, object]:
    """A broker that is given definitions makes no user and no virtual host by itself."""
    rights = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{"name": USER, "password": PASSWORD, "tags": "administrator"}],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": USER, "vhost": "/", **rights}],
        "queues": [
            {
                "name": name,
                "vhost": "/",
                "durable": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": queue_type},
            }
            for name, queue_type in queues.items()
        ],
    }


def _wait_until_started(broker: subprocess.Popen[bytes], folder: Path, deadline: float) -> None:
    assert broker.stdout is not None
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(broker.stdout, selectors.EVENT_READ)
        while _STARTED not in output:
            chunk = b""
            if selector.select(max(0.0, deadline - time.monotonic())):
                chunk = os.read(broker.stdout.fileno(), 65536)
            if not chunk:
                logs = [path.read_text(errors="replace")[-4000:] for path in sorted(folder.glob("log/*.log"))]
                raise RabbitMqFailed("\n".join(["RabbitMQ did not start:", output.decode(errors="replace"), *logs]))
            output += chunk


def _require_amqp_1_0(port: int) -> None:
    """The plugin answers the header of AMQP 1.0's SASL layer with the same; a broker without it offers AMQP 0-9-1."""
    with socket.create_connection((HOST, port), timeout=ANSWER_LIMIT_S) as connection:
        connection.sendall(_SASL_HEADER)
        answer = connection.recv(len(_SASL_HEADER), socket.MSG_WAITALL)
    if answer != _SASL_HEADER:
        raise RabbitMqFailed(f"RabbitMQ does not speak AMQP 1.0, it answered {answer!r}")
