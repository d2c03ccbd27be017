"""A broker of its own for a test: a real `tandem serve` in a child process, on free loopback ports.

    with Broker(tmp_path) as broker:
        broker.create_queue("orders", lock_duration_ms=2_000)
        client = ServiceBusClient.from_connection_string(broker.connection_string)

The child is what users run, so that it can be killed and started again over the same data, and on the same ports.
Neither a failing test nor a forgotten `stop` leaves one behind.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from tandem.auth.sas import make_token
from tandem.errors import RemoteError, StateError, TandemError

__all__ = ["Broker", "BrokerFailed"]

HOST: Final = "127.0.0.1"

# Seconds. A start takes well under one; the rest is for a machine that is busy, and for a recovery.
START_LIMIT_S: Final = 120.0
# Seconds. A stop finishes what was accepted: one commit, and the farewell to each client.
STOP_LIMIT_S: Final = 120.0
# Seconds. How often the output of a starting child is looked at.
POLL_INTERVAL_S: Final = 0.02
# Seconds. One request of the JSON API on loopback.
REQUEST_LIMIT_S: Final = 60.0
# Seconds. How long a token for the JSON API is good: it is made anew for each request.
TOKEN_LIFETIME_S: Final = 300

# Entities. One page of a list: what the broker gives at most.
PAGE_ENTITIES: Final = 1_000

# Ports below those that the system gives to outgoing connections (32768 and up on Linux). A client that tries to reach
# a dead broker on such a port can be given that very port for its own end: it is then connected to itself, and the
# broker cannot come back to its port.
FIRST_PORT: Final = 20_000
LAST_PORT: Final = 32_767

_READY: Final = "ready amqp://"
# The console script may not be on the path of a test; the package is.
_PROGRAM: Final = "from tandem.cli import main; main()"
# With the key of the official emulator, which `--dev` takes over.
_DEVELOPMENT: Final = (
    "Endpoint=sb://{host}:{port};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
    "UseDevelopmentEmulator=true;"
)


class BrokerFailed(TandemError):
    """The child process did not get ready or did not end. The message has what it wrote."""


class Broker:
    """A `tandem serve` child process. As a context manager it starts on the way in and is gone on the way out."""

    def __init__(self, data_dir: Path, *, arguments: Sequence[str] = ("--dev",)) -> None:
        """`arguments` go to `tandem serve` behind the data directory, the host and the ports."""
        self.data_dir = data_dir
        self.arguments = tuple(arguments)
        self.port, self.http_port = _free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        # Files and not pipes: nobody reads along, and a full pipe would stop the child.
        outputs = contextlib.ExitStack()
        self._stdout: IO[bytes] = outputs.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - see the finalizer below
        self._stderr: IO[bytes] = outputs.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - see the finalizer below
        self._close_outputs = weakref.finalize(self, outputs.close)
        self._reaper: weakref.finalize[..., Broker] | None = None
        self._connection_string: str | None = None
        self._asking = threading.Lock()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the child, by SIGKILL if it does not heed SIGTERM, and let go of everything. Safe to call twice."""
        if self.is_running:
            with contextlib.suppress(BrokerFailed):
                self.stop()
        self.kill()
        self._close_outputs()

    # --- process --------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise StateError("the broker was not started")
        return self._process.pid

    def start(self) -> None:
        """Start the child over the data directory, and return when it serves."""
        if self.is_running:
            raise StateError(f"the broker runs already, as process {self.pid}")
        # One that ended by itself may not have been waited for.
        self.kill()
        for output in (self._stdout, self._stderr):
            output.seek(0)
            output.truncate()
        self._process = subprocess.Popen(  # noqa: S603 - our own program, with the arguments of the test
            [sys.executable, "-c", _PROGRAM, "serve", *self._serve_arguments()],
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stderr,
        )
        # Also when nobody calls close: with this object, or with the interpreter.
        self._reaper = weakref.finalize(self, _kill, self._process)
        self._wait_until_ready()

    def stop(self) -> int:
        """Ask the child to end as an operator would, with SIGTERM, and return its exit code."""
        if self._process is None:
            raise StateError("the broker was not started")
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(self._failure(f"did not end within {STOP_LIMIT_S:.0f} s of SIGTERM")) from None

    def kill(self) -> None:
        """End the child at once, with SIGKILL: it can neither finish nor say anything."""
        if self._reaper is not None:
            self._reaper()

    def restart(self) -> None:
        """Stop the child if it runs, and start another one on the same ports."""
        if self.is_running:
            self.stop()
        self.start()

    @property
    def stdout(self) -> str:
        """What the child has written to its standard output since it was started last."""
        return _text(self._stdout)

    @property
    def stderr(self) -> str:
        """What the child has written to its standard error since it was started last."""
        return _text(self._stderr)

    def _serve_arguments(self) -> list[str]:
        ports = ["--port", str(self.port), "--http-port", str(self.http_port)]
        return ["--data-dir", str(self.data_dir), "--host", HOST, *ports, *self.arguments]

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_LIMIT_S
        # A whole line: its end may come in a write of its own.
        while not any(line.startswith(_READY) and line.endswith("\n") for line in self.stdout.splitlines(True)):
            if self._process.poll() is not None:
                raise BrokerFailed(
                    self._failure(f"ended with exit code {self._process.returncode} before it was ready")
                )
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(self._failure(f"was not ready within {START_LIMIT_S:.0f} s"))
            time.sleep(POLL_INTERVAL_S)

    def _failure(self, what: str) -> str:
        command = " ".join(["tandem", "serve", *self._serve_arguments()])
        return f"`{command}` {what}.\n--- stderr ---\n{self.stderr}\n--- stdout ---\n{self.stdout}"

    # --- what clients need ----------------------------------------------------------------------------------

    @property
    def connection_string(self) -> str:
        """For the official SDKs: AMQP over plain TCP, with the rule that may do everything."""
        # Tests may ask from many threads, and it takes a process to find out.
        with self._asking:
            if self._connection_string is None:
                self._connection_string = self._print_connection_string()
            return self._connection_string

    @property
    def ca_path(self) -> Path:
        """The certificate authority that signed the certificate of the TLS side of each port."""
        return self.data_dir / "tls" / "ca.pem"

    def _print_connection_string(self) -> str:
        if "--dev" in self.arguments:
            return _DEVELOPMENT.format(host=HOST, port=self.port)
        # Only the command knows where the keys are kept.
        command = ["connection-string", "--data-dir", str(self.data_dir), "--host", HOST, "--port", str(self.port)]
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-c", _PROGRAM, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerFailed(f"`tandem {' '.join(command)}` ended with exit code {done.returncode}: {done.stderr}")
        return done.stdout.strip()

    # --- queues, by the JSON API ----------------------------------------------------------------------------

    def create_queue(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create a queue with these settings, such as `lock_duration_ms`, and return it."""
        return self.request("PUT", _path("queues", name), fields)

    def update_queue(self, name: str, **fields: Any) -> dict[str, Any]:
        """Change these settings of a queue, and return it."""
        return self.request("PATCH", _path("queues", name), fields)

    def queue(self, name: str) -> dict[str, Any]:
        """The settings and the counts of a queue."""
        return self.request("GET", _path("queues", name))

    def delete_queue(self, name: str) -> None:
        self.request("DELETE", _path("queues", name))

    def queues(self) -> list[dict[str, Any]]:
        return self._list("queues")

    # --- topics, subscriptions and rules, by the JSON API ---------------------------------------------------

    def create_topic(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create a topic with these settings, such as `requires_duplicate_detection`, and return it."""
        return self.request("PUT", _path("topics", name), fields)

    def update_topic(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.request("PATCH", _path("topics", name), fields)

    def topic(self, name: str) -> dict[str, Any]:
        """The settings and the counts of a topic."""
        return self.request("GET", _path("topics", name))

    def delete_topic(self, name: str) -> None:
        """With its subscriptions."""
        self.request("DELETE", _path("topics", name))

    def topics(self) -> list[dict[str, Any]]:
        return self._list("topics")

    def create_subscription(
        self, topic: str, name: str, rules: list[dict[str, Any]] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Create a subscription and return it.

        Each rule has `name`, `filter` and perhaps `action`, as for `add_rule`. Without rules the subscription gets
        every message, with an empty list none.
        """
        body = fields if rules is None else {**fields, "rules": rules}
        return self.request("PUT", _path("topics", topic, "subscriptions", name), body)

    def update_subscription(self, topic: str, name: str, **fields: Any) -> dict[str, Any]:
        return self.request("PATCH", _path("topics", topic, "subscriptions", name), fields)

    def subscription(self, topic: str, name: str) -> dict[str, Any]:
        """The settings and the counts of a subscription."""
        return self.request("GET", _path("topics", topic, "subscriptions", name))

    def delete_subscription(self, topic: str, name: str) -> None:
        self.request("DELETE", _path("topics", topic, "subscriptions", name))

    def subscriptions(self, topic: str) -> list[dict[str, Any]]:
        return self._list("topics", topic, "subscriptions")

    def add_rule(
        self,
        topic: str,
        subscription: str,
        name: str,
        filter: dict[str, Any] | None = None,
        action: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Add a rule and return it: `filter={"kind": "sql", "expression": "n > 3"}`, `action={"expression": ...}`.

        Without a filter the rule selects every message.
        """
        body = {"filter": filter, "action": action}
        return self.request("PUT", _path("topics", topic, "subscriptions", subscription, "rules", name), body)

    def update_rule(self, topic: str, subscription: str, name: str, **fields: Any) -> dict[str, Any]:
        """Give a rule another `filter` or `action`, or both; None takes one back."""
        return self.request("PATCH", _path("topics", topic, "subscriptions", subscription, "rules", name), fields)

    def rule(self, topic: str, subscription: str, name: str) -> dict[str, Any]:
        return self.request("GET", _path("topics", topic, "subscriptions", subscription, "rules", name))

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        self.request("DELETE", _path("topics", topic, "subscriptions", subscription, "rules", name))

    def rules(self, topic: str, subscription: str) -> list[dict[str, Any]]:
        return self._list("topics", topic, "subscriptions", subscription, "rules")

    def explain(
        self, topic: str, properties: dict[str, Any] | None = None, system: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Which of the first hundred subscriptions would get a message with these properties, and why."""
        body = {"properties": properties, "system": system}
        subscriptions: list[dict[str, Any]] = self.request("POST", _path("topics", topic, "explain"), body)[
            "subscriptions"
        ]
        return subscriptions

    # --- event hubs, by the JSON API ------------------------------------------------------------------------

    def create_hub(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create an event hub with these settings, such as `partition_count`, and return it."""
        return self.request("PUT", _path("hubs", name), fields)

    def update_hub(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.request("PATCH", _path("hubs", name), fields)

    def hub(self, name: str) -> dict[str, Any]:
        """The settings and the counts of an event hub."""
        return self.request("GET", _path("hubs", name))

    def partitions(self, hub: str) -> list[dict[str, Any]]:
        """How far the partitions of an event hub have come."""
        partitions: list[dict[str, Any]] = self.request("GET", _path("hubs", hub, "partitions"))["partitions"]
        return partitions

    def delete_hub(self, name: str) -> None:
        """With its events."""
        self.request("DELETE", _path("hubs", name))

    def hubs(self) -> list[dict[str, Any]]:
        return self._list("hubs")

    # --- requests of the JSON API ---------------------------------------------------------------------------

    def _list(self, *parts: str) -> list[dict[str, Any]]:
        """All there are, a page at a time."""
        entities: list[dict[str, Any]] = []
        while True:
            query = f"?skip={len(entities)}&top={PAGE_ENTITIES}"
            page: list[dict[str, Any]] = self.request("GET", _path(*parts) + query)[parts[-1]]
            entities += page
            if len(page) < PAGE_ENTITIES:
                return entities

    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request of the JSON API. What the broker refuses is raised as a `RemoteError` with its condition."""
        headers = {"Authorization": self._token()}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=REQUEST_LIMIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            answer = response.read()
        if response.status >= 300:
            raise _refusal(method, path, response.status, answer)
        return json.loads(answer) if answer else {}

    def _token(self) -> str:
        pairs = dict(pair.split("=", 1) for pair in self.connection_string.strip(";").split(";"))
        rule, key = pairs["SharedAccessKeyName"], pairs["SharedAccessKey"]
        return make_token(f"http://{HOST}:{self.http_port}/", rule, key, int(time.time()) + TOKEN_LIFETIME_S)


def _path(*parts: str) -> str:
    return "/$api/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


def _refusal(method: str, path: str, status: int, answer: bytes) -> RemoteError:
    try:
        error = json.loads(answer)["error"]
        condition, message = str(error["condition"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        # Not an answer of the JSON API: show it as it is.
        condition, message = f"http:{status}", answer.decode(errors="replace")
    return RemoteError(condition, f"{method} {path}: {status} {message}")


def _free_ports(count: int) -> list[int]:
    """Ports that are free now. All are held until all are chosen, so that they differ."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            # Not drawn from the seeded generator: two test processes with one seed would want the same ports.
            port = random.SystemRandom().randint(FIRST_PORT, LAST_PORT)
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server((HOST, port)))
                ports.append(port)
        return ports


def _text(output: IO[bytes]) -> str:
    if output.closed:
        return ""
    # The child shares the position of the file: reading must not move it.
    descriptor = output.fileno()
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode(errors="replace")


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
