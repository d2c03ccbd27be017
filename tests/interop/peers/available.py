"""The foreign stacks that this machine has. A test that needs another one is skipped, with the reason.

`make peers` builds them and leaves one sentence about each in build/peers/.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

import pytest

ROOT: Final = Path(__file__).resolve().parents[3]

PEERS_FOLDER: Final = Path(__file__).resolve().parent
PROTON_PYTHON: Final = ROOT / ".venv-peers" / "bin" / "python"
NODE_MODULES: Final = PEERS_FOLDER / "node_modules"
# The official JavaScript SDK, for the tests in tests/compat.
NODE_SDK_FOLDER: Final = ROOT / "tests" / "compat" / "node"
# The programs on the official Java and Go SDKs, on JMS and on frameworks, for the same tests.
JAVA_FOLDER: Final = ROOT / "build" / "compat"
GO_SDK_PROGRAM: Final = ROOT / "build" / "compat" / "go" / "program"
# The script of the broker itself: the one in /usr/sbin insists on the user rabbitmq and on the folders of the system.
RABBITMQ_SERVER: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
AMQP_LOAD: Final = ROOT / "build" / "amqp_load"


class Node(NamedTuple):
    """Node.js, and the folder of the modules that `require` has to find."""

    executable: Path
    modules: Path


def require_proton() -> Path:
    """The Python that can import proton."""
    if not _is_ready("proton") or not PROTON_PYTHON.exists():
        _skip("proton")
    return PROTON_PYTHON


def require_node() -> Node:
    """Node.js with rhea."""
    executable = shutil.which("node")
    if executable is None or not _is_ready("rhea") or not (NODE_MODULES / "rhea").is_dir():
        _skip("rhea")
    return Node(Path(executable), NODE_MODULES)


def require_node_sdk() -> Path:
    """Node.js with the official JavaScript SDK."""
    executable = shutil.which("node")
    if executable is None or not (NODE_SDK_FOLDER / "node_modules" / "@azure" / "service-bus").is_dir():
        _skip("azure-service-bus")
    return Path(executable)


def require_java_sdk() -> list[str | Path]:
    """Return the command of the program on the official Java SDKs."""
    return _require_java("azure-java", "java", "Tour")


def require_framework(name: str, program: str, *options: str) -> list[str | Path]:
    """Return the command of a program on a framework in Java, `spring` or `camel`, with options of the machine."""
    return _require_java(name, name, program, *options)


def require_jms(program: str) -> list[str | Path]:
    """Return the command of a program on Qpid JMS."""
    return _require_java("jms", "jms", program)


def _require_java(peer: str, folder: str, program: str, *options: str) -> list[str | Path]:
    executable = shutil.which("java")
    built = JAVA_FOLDER / folder
    if executable is None or not _is_ready(peer) or not (built / "classes").is_dir():
        _skip(peer)
    # The quick compiler and the simplest collector: the program lives for a minute, and mostly waits.
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
    path = os.pathsep.join([str(built / "classes"), str(built / "lib" / "*")])
    return [executable, *quick, *options, "-cp", path, program]


def require_go_sdk() -> list[str | Path]:
    """Return the command of the program on the official Go SDKs."""
    if not _is_ready("azure-go") or not os.access(GO_SDK_PROGRAM, os.X_OK):
        _skip("azure-go")
    return [GO_SDK_PROGRAM]


def require_proton_client() -> list[str | Path]:
    """The command of the client program on Proton, to be given to `features.run_client`."""
    return [require_proton(), "-m", "tests.interop.peers.proton_client"]


def require_rhea_client() -> list[str | Path]:
    """The command of the client program on rhea, to be given to `features.run_client`."""
    return [require_node().executable, PEERS_FOLDER / "rhea_client" / "main.js"]


def require_rabbitmq() -> Path:
    """The script that starts RabbitMQ."""
    if not os.access(RABBITMQ_SERVER, os.X_OK):
        _skip("rabbitmq")
    return RABBITMQ_SERVER


def require_amqp_load() -> Path:
    """The load generator on Qpid Proton C++."""
    if not os.access(AMQP_LOAD, os.X_OK):
        _skip("amqp-load")
    return AMQP_LOAD


def _status(peer: str) -> str:
    try:
        return (ROOT / "build" / "peers" / f"{peer}.status").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return "not available: not installed"


def _is_ready(peer: str) -> bool:
    return _status(peer) == "ready"


def _skip(peer: str) -> NoReturn:
    status = _status(peer)
    # Ready when it was built, and gone since.
    reason = "not available: removed since it was built" if status == "ready" else status
    pytest.skip(f"{peer}: {reason}; `make peers` installs it")
