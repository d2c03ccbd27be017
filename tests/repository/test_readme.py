"""The README: what it names exists, and its example runs. The same for CONTRIBUTING.md and the AMQP library's page."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from tandem.testing import Broker
from tools.readme_page import Page, broken_links, limit_s, matches, static_errors, targets_of_make

ROOT: Final = Path(__file__).resolve().parents[2]
README: Final = Page.parse((ROOT / "README.md").read_text(encoding="utf-8"))
PAGES: Final = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "packaging/*.md", "examples/**/*.md") for path in ROOT.glob(pattern)
)
LIBRARY: Final = Page.parse((ROOT / "docs" / "howto" / "use-the-amqp-library.md").read_text(encoding="utf-8"))


def python_blocks(page: Page) -> list[str]:
    return [block.text for block in page.blocks if block.language == "python"]


@functools.cache
def help_of(path: tuple[str, ...]) -> str:
    """What `tandem PATH --help` prints, without a child process."""
    from tandem.cli import app

    return CliRunner().invoke(app, [*path, "--help"], prog_name="tandem").output


def errors_of(text: str) -> list[str]:
    return static_errors(ROOT, Page.parse(text), {"demo", "test"}, help_of)


# --- the README -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_everything_that_the_page_names_exists(name: str) -> None:
    page = Page.parse((ROOT / name).read_text(encoding="utf-8"))
    assert static_errors(ROOT, page, targets_of_make(ROOT), help_of) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_links_of_every_page_lead_somewhere(path: Path) -> None:
    assert list(broken_links(path.parent, Page.parse(path.read_text(encoding="utf-8")))) == []


def test_the_readme_states_how_long_its_commands_take() -> None:
    limits = {command.partition("#")[0].strip(): limit_s(command) for _, command in README.commands()}
    assert (limits["make demo"], limits["make test"]) == (180, 600)
    assert (limits["make setup"], limits["make test-quick"]) == (90, 90)


def test_the_first_message_of_the_readme_goes_through_a_queue(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = python_blocks(README)
    assert len(program.splitlines()) <= 10
    (block,) = (block for block in README.blocks if block.language == "python")
    with Broker(tmp_path) as broker:
        broker.create_queue("orders")
        exec(re.sub(r'"Endpoint=.*"', repr(broker.connection_string), program), {})
    assert capsys.readouterr().out == README.output_of(block)


def test_the_connection_string_of_the_readme_is_that_of_a_broker_for_development() -> None:
    from tandem.cli import app

    printed = CliRunner().invoke(app, ["connection-string", "--dev"]).output.strip()
    (program,) = python_blocks(README)
    assert f'"{printed}"' in program


# --- the checks themselves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, error",
    [
        ("[a page](docs/nowhere.md)", "line 1: the link to docs/nowhere.md leads nowhere"),
        ("# Here\n[there](#there)", "line 2: this page has no heading #there"),
        ("[install](README.md#no-such-heading)", "line 1: README.md has no heading #no-such-heading"),
        ("[a link\nover two lines](docs/nowhere.md)", "line 2: the link to docs/nowhere.md leads nowhere"),
        ("`make\n", "line 1: inline code is broken across lines"),
        ("`tools/nothing.py`", "line 1: there is no tools/nothing.py"),
        ("`make demo` and `make coffee`", "line 1: make has no target coffee"),
        ("```sh\nTANDEM_PURE=1 make demo && make coffee N=3\n```", "line 2: make has no target coffee"),
        ("`tandem brew`", "line 1: tandem has no command brew"),
        ("`tandem queue brew orders`", "line 1: tandem has no command queue brew"),
        ("```sh\n.venv/bin/tandem serve --prod &\n```", "line 2: tandem serve has no option --prod"),
        ("`tandem serve --dev` and `--prod`", "line 1: no tandem command on this page has the option --prod"),
        ("It takes at most 3 minutes.", "line 1: a duration outside the comment of a command is not measured"),
        ("```python\nprint(\n```", "line 2: '(' was never closed"),
    ],
)
def test_what_does_not_exist_is_reported_with_its_line(text: str, error: str) -> None:
    assert errors_of(text) == [error]


@pytest.mark.parametrize(
    "text",
    [
        "# Two words, and `code`\n[here](#two-words-and-code) [docs](docs/README.md) [site](https://example.com/x)",
        "`make demo`, `tandem serve --dev`, `--dev`, `tandem.amqp`, `docs/README.md`, `it's`, `kill -9`",
        "```sh\nmake test    # at most 10 minutes\n.venv/bin/tandem queue create orders --lock-duration 30s\n```",
    ],
)
def test_what_exists_is_not_reported(text: str) -> None:
    assert errors_of(text) == []


def test_a_block_knows_its_section_its_introduction_and_its_output() -> None:
    page = Page.parse("# One\nfirst\n```sh\na\n```\n## Two\nthen:\n```sh\nb\nc\n```\n```text\nd\n```\n")
    first, second, output = page.blocks
    assert (first.section, first.introduction, first.lines) == ("One", "# One\nfirst\n", ("a",))
    assert (second.section, second.line, second.lines) == ("Two", 8, ("b", "c"))
    assert page.output_of(first) is None
    assert page.output_of(second) == output.text == "d\n"


@pytest.mark.parametrize(
    "command, limit",
    [("make a  # at most 3 minutes", 180), ("make a  # at most 90 seconds after make setup", 90), ("make a", None)],
)
def test_the_comment_of_a_command_may_state_its_limit(command: str, limit: int | None) -> None:
    assert limit_s(command) == limit


def test_an_ellipsis_stands_for_text_that_varies() -> None:
    assert matches("sent … at …\nready\n", "sent 3 (a.b) at 09:00  \nready")
    assert not matches("sent …\n", "sent 3\nand more\n")
    assert not matches("a.b\n", "axb\n")


# --- the AMQP library -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(2))
def test_an_example_of_the_library_runs(number: int) -> None:
    program = python_blocks(LIBRARY)[number]
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert run.returncode == 0


def test_the_server_of_the_library_can_be_sent_to_by_a_client(capsys: pytest.CaptureFixture[str]) -> None:
    from tandem.amqp import ACCEPTED, Connection, DispositionReceived, Event, Role, Settings, Target

    names: dict[str, object] = {}
    exec(python_blocks(LIBRARY)[0], names)
    on_data = names["on_data"]
    assert callable(on_data)
    client = Connection(Role.CLIENT, Settings("client"))
    client.open()

    def exchange() -> list[Event]:
        events: list[Event] = []
        while data := client.data_to_send():
            events += client.receive(on_data(data))
        return events

    exchange()
    session = client.begin()
    exchange()
    link = session.attach_sender("link", Target("queue"))
    exchange()
    link.send(b"\x00\x53\x75\xa0\x02hi")
    (event,) = exchange()
    assert isinstance(event, DispositionReceived)
    assert event.state is ACCEPTED
    assert capsys.readouterr().out == "7 bytes\n"
