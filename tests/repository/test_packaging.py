"""What is installed by others: the container file, the unit of systemd, and what they say about the command line."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

ROOT: Final = Path(__file__).resolve().parents[2]
CONTAINERFILE: Final = (ROOT / "Containerfile").read_text(encoding="utf-8")
README: Final = (ROOT / "packaging" / "README.md").read_text(encoding="utf-8")

# The environment that the unit and the container file install into.
PROGRAM: Final = "/opt/tandem/bin/tandem"
DATA_DIR: Final = "/var/lib/tandem"


def unit() -> configparser.RawConfigParser:
    """A unit is read like an INI file, but for settings that come twice, of which the last is kept here."""
    parser = configparser.RawConfigParser(strict=False, delimiters="=", comment_prefixes="#", interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign] # settings of systemd have capitals
    parser.read_string((ROOT / "packaging" / "tandem.service").read_text(encoding="utf-8"))
    return parser


def instructions(name: str) -> list[str]:
    """What follows an instruction of the container file, its continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", CONTAINERFILE)
    return [line.partition(" ")[2] for line in joined.splitlines() if line.startswith(f"{name} ")]


def parse_command(arguments: list[str]) -> dict[str, Any]:
    """Read the arguments as `tandem` would, without running it. What it does not know ends the test."""
    from tandem.cli import app

    command: Any = typer.main.get_command(app)
    context = command.make_context("tandem", [arguments[0], "--help"], resilient_parsing=True)
    subcommand = command.get_command(context, arguments[0])
    assert subcommand is not None, f"tandem has no command {arguments[0]}"
    parsed: dict[str, Any] = subcommand.make_context(arguments[0], arguments[1:], parent=context).params
    return parsed


def test_an_option_that_there_is_not_is_seen() -> None:
    with pytest.raises(Exception, match="--no-such-option"):
        parse_command(["serve", "--no-such-option"])


# --- systemd --------------------------------------------------------------------------------------------------------


def test_the_unit_starts_the_broker_in_its_state_directory() -> None:
    service = unit()["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program == PROGRAM
    assert arguments[0] == "serve"
    parsed = parse_command(arguments)
    assert str(parsed["data_dir"]) == "${STATE_DIRECTORY}"
    assert (parsed["host"], parsed["dev"]) == ("0.0.0.0", False)
    assert f"/var/lib/{service['StateDirectory']}" == DATA_DIR


def test_the_unit_takes_every_right_away_that_the_broker_does_not_need() -> None:
    service = unit()["Service"]
    for setting in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictNamespaces"):
        assert service[setting] == "yes"
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert unit()["Install"]["WantedBy"] == "multi-user.target"


def test_the_unit_leaves_room_for_all_connections_and_for_files() -> None:
    from tandem.limits import MAX_CONNECTIONS, MAX_RESERVED_DESCRIPTORS

    assert int(unit()["Service"]["LimitNOFILE"]) >= MAX_CONNECTIONS + MAX_RESERVED_DESCRIPTORS


# --- the container --------------------------------------------------------------------------------------------------


def test_the_container_file_copies_only_what_there_is() -> None:
    copied = [words for words in map(str.split, instructions("COPY")) if not words[0].startswith("--from")]
    paths = [path for *sources, _ in copied for path in sources]
    assert {"src", "tools", "pyproject.toml", "hatch_build.py", "requirements"} <= set(paths)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    locks = re.findall(r"requirements/\S+\.txt", CONTAINERFILE)
    assert set(locks) == {"requirements/uv.txt", "requirements/dev.txt"}


def test_the_container_file_copies_all_that_the_build_reads() -> None:
    """pyproject.toml names the files that the wheel takes its metadata and its hook from."""
    copied = " ".join(instructions("COPY"))
    for name in re.findall(r'(?:readme = |license-files = \[)"([^"]+)"', (ROOT / "pyproject.toml").read_text()):
        assert name in copied


def test_the_container_names_its_images_as_any_tool_finds_them() -> None:
    assert [image.split()[0] for image in instructions("FROM")] == ["debian:trixie-slim"] * 2
    assert "://" not in CONTAINERFILE.replace("http://127.0.0.1:5300/health", "")


def test_the_container_runs_the_broker_as_nobody_in_particular_on_its_volume() -> None:
    (user,) = instructions("USER")
    assert int(user.split(":")[0]) > 0
    assert instructions("VOLUME") == [DATA_DIR]
    assert instructions("EXPOSE") == ["5672 5300"]
    (entry,) = instructions("ENTRYPOINT")
    (command,) = instructions("CMD")
    assert json.loads(entry) == ["tandem"]
    parsed = parse_command(json.loads(command))
    assert (str(parsed["data_dir"]), parsed["host"], parsed["dev"]) == (DATA_DIR, "0.0.0.0", False)
    assert (parsed["port"], parsed["http_port"]) == (None, None)


def test_the_container_is_healthy_when_the_broker_says_so() -> None:
    (check,) = instructions("HEALTHCHECK")
    program = json.loads(check.partition("CMD ")[2])[2]
    compile(program, "HEALTHCHECK", "exec")
    assert "http://127.0.0.1:5300/health" in program


# --- the page -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", sorted(set(re.findall(r"tandem((?: (?:serve|check|connection-string)\b[^\n`]*))", README)))
)
def test_a_command_of_the_page_is_one_that_there_is(line: str) -> None:
    assert parse_command(shlex.split(line, comments=True))


def test_what_the_page_links_to_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / "packaging" / link).exists(), link
