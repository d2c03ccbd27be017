"""`tandem bench amqp`: codec rates, and a relay in memory next to one on python-qpid-proton, in one run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final

from tandem.bench.measuring.peers import BenchmarkFailed, checkout
from tandem.bench.measuring.process import free_ports

__all__ = [
    "MODES",
    "Contender",
    "Measurement",
    "contenders",
    "load_generator",
    "measure",
    "measure_codec",
]

MODES: Final = ("send", "recv", "both")

# A relay of the same kind on Proton needs this much longer per message, so it is given fewer of them.
PEER_SHARE: Final = 10

# Seconds. More than the slowest program here needs for its messages; what takes longer hangs.
LOAD_LIMIT_S: Final = 300


class Contender:
    """A relay to be started as a process that prints `ready PORT`."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], is_peer: bool) -> None:
        self.name = name
        self.command = command
        self.environment = environment
        self.is_peer = is_peer


class Measurement:
    """Messages per second of one contender, per mode, a figure per round."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rates: dict[str, list[float]] = {mode: [] for mode in MODES}

    def rate(self, mode: str) -> float:
        return median(self.rates[mode])


def contenders() -> list[Contender]:
    """What can be run here: Tandem in its forms, and Proton where `make peers` has built it."""
    found: list[Contender] = []
    proton_python = checkout() / ".venv-peers/bin/python"
    proton_relay = checkout() / "bench/peers/proton_relay.py"
    if proton_python.exists() and proton_relay.exists():
        found.append(Contender("python-qpid-proton", [str(proton_python), str(proton_relay), _free_port()], {}, True))
    relay = [sys.executable, "-m", "tandem.bench.amqp.relay_server"]
    found.append(Contender("tandem interpreted", relay, {"TANDEM_PURE": "1"}, False))
    if _is_compiled():
        found.append(Contender("tandem compiled", relay, {"TANDEM_PURE": ""}, False))
    return found


def _free_port() -> str:
    """Return a port for Proton, which cannot report the one that it took."""
    (port,) = free_ports(1)
    return str(port)


def _is_compiled() -> bool:
    """Whether a compiled form exists, whichever one this process runs in."""
    command = [sys.executable, "-c", "import tandem; print(tandem.form())"]
    environment = {**os.environ, "TANDEM_PURE": ""}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == "compiled\n"


def load_generator(chosen: str | None) -> list[str]:
    """The command that makes the load: the one asked for, the C++ one if it is built, else our own."""
    if chosen is not None:
        return [chosen]
    built = checkout() / "build/amqp_load"
    return [str(built)] if built.exists() else [sys.executable, "-m", "tandem.bench.load.generator"]


@contextmanager
def _started(contender: Contender) -> Iterator[int]:
    process = subprocess.Popen(
        contender.command, env={**os.environ, **contender.environment}, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if len(words) < 2 or words[0] != "ready":
            raise BenchmarkFailed(f"{contender.name} did not start: it printed {words!r}")
        yield int(words[1])
    finally:
        process.terminate()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _rate(generator: list[str], mode: str, port: int, address: str, count: int, body_bytes: int) -> float:
    """One run of the load generator. The rate is the first number before `msg/s`, or in its line of JSON."""
    command = [*generator, mode, f"amqp://127.0.0.1:{port}", address, str(count), str(body_bytes)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LOAD_LIMIT_S)
    found = re.search(r"([\d.]+) msg/s|\"messages_per_second\": ([\d.]+)", finished.stdout)
    if finished.returncode or found is None:
        said = (finished.stderr or finished.stdout).strip()
        raise BenchmarkFailed(f"the load generator failed: {' '.join(command)}: {said}")
    return float(found.group(1) or found.group(2))


def measure(
    generator: list[str],
    runners: list[Contender],
    count: int,
    body_bytes: int,
    rounds: int,
    progress: Callable[[str], None],
) -> list[Measurement]:
    """Contenders take turns within a round, so that a busy moment of the machine hits all of them."""
    results = {runner.name: Measurement(runner.name) for runner in runners}
    for round_number in range(rounds):
        for runner in runners:
            messages = count // PEER_SHARE if runner.is_peer else count
            with _started(runner) as port:
                for mode in MODES:
                    progress(f"round {round_number + 1}: {runner.name}, {mode}")
                    # Sent and received are one queue's messages; both at once get one of their own.
                    address = "both" if mode == "both" else "queue"
                    rate = _rate(generator, mode, port, address, messages, body_bytes)
                    results[runner.name].rates[mode].append(rate)
    return list(results.values())


def measure_codec(runners: list[Contender]) -> dict[str, dict[str, float]]:
    """Codec rates per form, each in a process of its own."""
    rates: dict[str, dict[str, float]] = {}
    for runner in runners:
        if not runner.is_peer:
            command = [sys.executable, "-m", "tandem.bench.amqp.codec"]
            environment = {**os.environ, **runner.environment}
            output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
            rates[runner.name] = json.loads(output)["rates"]
    return rates
