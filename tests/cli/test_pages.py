"""The pages about the command line say what it does."""

from __future__ import annotations

import re

import typer.main

from tandem.cli import app
from tests.cli.program import tandem_here
from tools import transcript

REFERENCE = transcript.ROOT / "docs" / "reference" / "command-line.md"


def test_the_first_minutes_are_what_happens_when_they_are_done() -> None:
    assert transcript.render() == transcript.TARGET.read_text()


def test_the_reference_names_every_command_and_no_other() -> None:
    group = typer.main.get_group(app)
    context = typer.Context(group)
    known = set()
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = getattr(command, "commands", None)
        known |= {f"{name} {one}" for one in inner} if inner is not None else {name}
    named: set[str] = set()
    for row in re.findall(r"^\| `tandem .*?\|", REFERENCE.read_text(), re.MULTILINE):
        first, *others = [one.split() for one in re.findall(r"`([^`]*)`", row)]
        words = first[1:]
        is_group = any(one.startswith(f"{words[0]} ") for one in known)
        named.add(" ".join(words[:2] if is_group else words[:1]))
        named |= {f"{words[0]} {one[0]}" if is_group else one[0] for one in others}
    # The table of completion is about shells.
    assert named | {"completion"} == known


def test_every_command_has_an_option_for_json() -> None:
    group = typer.main.get_group(app)
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        for words in [[name, inner] for inner in getattr(command, "commands", [])] or [[name]]:
            if words != ["serve"]:
                assert "--json" in tandem_here(*words, "--help").stdout, words
