"""A command imports what it needs and nothing else: most of the time that a short command takes is spent importing.

These tests look at sets of modules, not at times, so that a busy machine cannot fail them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
import typer.main

from tandem.cli import app
from tandem.connection_string import ConnectionString
from tests.cli.program import MAIN, TIME_LIMIT_S, environment, serving, tandem_here

# Writes the names of all modules that were imported to the file that the first argument names.
RECORDING: Final = """
import atexit, json, pathlib, sys
path = pathlib.Path(sys.argv.pop(1))
atexit.register(lambda: path.write_text(json.dumps(sorted(sys.modules))))
"""

# Each takes more time to import than a short command has.
HEAVY: Final = frozenset(
    {"aiohttp", "apsw", "cryptography", "jwt", "msgspec", "numpy", "pandas", "pyarrow", "pyspark", "uvloop"}
)


def imported_by(tmp_path: Path, *arguments: str, **variables: str) -> frozenset[str]:
    """The modules that a command has imported when it ends, in a process of its own with these variables."""
    record = tmp_path / "modules.json"
    subprocess.run(
        [sys.executable, "-c", RECORDING + MAIN, str(record), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=TIME_LIMIT_S,
        cwd=tmp_path,
        env=environment(**variables),
    )
    return frozenset(json.loads(record.read_text()))


def test_a_module_that_a_command_imports_is_seen(tmp_path: Path) -> None:
    assert "tandem.cli.entities.queue" in imported_by(tmp_path, "queue", "--help")


def test_the_overview_imports_no_command(tmp_path: Path) -> None:
    imported = imported_by(tmp_path, "--help")
    assert not imported & HEAVY
    assert not imported & {"asyncio", "rich", "ssl"}
    assert {name for name in imported if name.startswith("tandem.cli.")} == set()


def test_the_overview_shows_the_first_sentence_of_the_help_of_each_command() -> None:
    group = typer.main.get_group(app)
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        assert group.commands[name].help == command.get_short_help_str(limit=200), name


@pytest.mark.parametrize(
    "command",
    [
        "--version",
        "connection-string --dev",
        "dead-letter --help",
        "export --help",
        "fault --help",
        "hub list --help",
        "key list --help",
        "peek --help",
        "queue list --help",
        "receive --help",
        "send --help",
        "serve --help",
        "subscription list --help",
        "topic list --help",
    ],
)
def test_a_command_that_needs_no_broker_imports_nothing_heavy(tmp_path: Path, command: str) -> None:
    imported = imported_by(tmp_path, *command.split())
    assert not imported & HEAVY
    assert "rich" not in imported


@pytest.mark.parametrize(
    "command", ["queue list", "topic list", "hub list", "key list", "queue create startup", "purge startup --yes"]
)
def test_a_command_that_manages_a_broker_imports_nothing_heavy(
    tmp_path: Path, command: str, connection_string: ConnectionString
) -> None:
    if command.startswith("purge"):
        tandem_here("queue", "create", "startup", connection_string=str(connection_string))
    else:
        tandem_here("queue", "delete", "startup", connection_string=str(connection_string))
    imported = imported_by(tmp_path, *command.split(), TANDEM_CONNECTION_STRING=str(connection_string))
    assert not imported & HEAVY


def test_a_shell_that_completes_the_name_of_a_command_imports_no_command(tmp_path: Path) -> None:
    asked = {"_TANDEM_COMPLETE": "complete_bash", "COMP_WORDS": "tandem qu", "COMP_CWORD": "1"}
    imported = imported_by(tmp_path, **asked)
    assert {name for name in imported if name.startswith("tandem.cli.")} == set()


def test_a_broker_that_is_spoken_amqp_to_imports_neither_http_nor_anything_for_hubs_and_tables(tmp_path: Path) -> None:
    record = tmp_path / "modules.json"
    config = tmp_path / "bus.toml"
    config.write_text('[[queues]]\nname = "orders"\n')
    prelude = f"import sys; sys.argv.insert(1, {str(record)!r})\n{RECORDING}"
    with serving(tmp_path / "data", "--dev", "--config", config, prelude=prelude) as broker:
        address = str(ConnectionString("127.0.0.1", broker.port))
        for command in (["send", "orders", "a table"], ["receive", "orders"]):
            assert tandem_here(*command, connection_string=address).returncode == 0
        assert broker.stop()[0] == 0
    imported = frozenset(json.loads(record.read_text()))
    assert "tandem.server.broker" in imported
    assert not imported & {"aiohttp", "jwt", "numpy", "pandas", "pyarrow", "pyspark", "rich", "tandem.management.api"}


def test_a_broker_that_is_managed_imports_nothing_for_hubs_and_tables(tmp_path: Path) -> None:
    record = tmp_path / "modules.json"
    prelude = f"import sys; sys.argv.insert(1, {str(record)!r})\n{RECORDING}"
    with serving(tmp_path / "data", "--dev", prelude=prelude) as broker:
        address = str(ConnectionString("127.0.0.1", broker.port))
        for command in (["queue", "create", "orders"], ["queue", "list"], ["hub", "list"], ["export"]):
            assert tandem_here(*command, connection_string=address).returncode == 0
        assert broker.stop()[0] == 0
    imported = frozenset(json.loads(record.read_text()))
    assert "tandem.management.api" in imported
    assert not imported & {"numpy", "pandas", "pyarrow", "pyspark", "rich"}
