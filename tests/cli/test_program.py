"""The program around the commands: how it starts, what it lists, and what shells complete."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

from tests.cli.program import PROGRAM, TIME_LIMIT_S, environment, one_line, tandem_here

# What only some commands need, and takes long to import.
_HEAVY: Final = ("rich", "aiohttp", "asyncio", "tandem.amqp", "tandem.engine", "tandem.config", "tandem.bench")


def test_every_command_is_listed_with_what_it_does() -> None:
    text = tandem_here("--help").stdout
    commands = text.partition("Commands:")[2].splitlines()
    listed = {line.split()[0]: line.split()[1:] for line in commands if line.startswith("  ") and line[2] != " "}
    for command in ("serve", "queue", "rule", "send", "receive", "dead-letter", "key", "import", "completion"):
        assert listed[command], command


def test_the_program_starts_without_what_most_commands_do_not_need() -> None:
    code = f"import sys, tandem.cli; print([name for name in {_HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=TIME_LIMIT_S
    )
    assert done.stdout.strip() == "[]"


def test_a_slip_of_the_finger_is_answered_with_the_command_that_was_meant() -> None:
    assert one_line(tandem_here("queu")).endswith("Did you mean 'queue'? See `tandem --help`.")


def test_the_version_says_which_form_runs() -> None:
    assert tandem_here("--version").stdout.split()[0] == "tandem"


@pytest.mark.parametrize("shell, sign", [("bash", "complete -o"), ("zsh", "#compdef tandem"), ("fish", "complete --")])
def test_a_script_for_completion_is_printed_for_each_shell(shell: str, sign: str) -> None:
    script = tandem_here("completion", shell).stdout
    assert sign in script
    assert "_TANDEM_COMPLETE" in script


def completions(words: str) -> list[str]:
    """What bash is offered behind these words."""
    asked = {"_TANDEM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = subprocess.run(
        PROGRAM,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
        env=environment(**asked),
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_is_offered_commands_options_and_choices() -> None:
    assert completions("tandem dead") == ["dead-letter"]
    assert completions("tandem receive --sub") == ["--sub-queue"]


def test_the_package_can_be_run_as_the_command() -> None:
    finished = subprocess.run([sys.executable, "-m", "tandem", "--version"], capture_output=True, text=True, check=True)
    assert finished.stdout.startswith("tandem ")
