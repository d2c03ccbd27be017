"""tools/newcomer.py: a page is run word for word, and whatever is not true is reported."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tools.newcomer import Visit, failure_of, run_page
from tools.readme_page import Page

MAKEFILE: Final = "help: ## list the targets\n\t@echo '  help  list the targets'\n"

# Prints a line, and ends with exit status 0 at SIGTERM, as a broker does.
SERVE: Final = (
    "import os, pathlib, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); "
    "pathlib.Path('pid').write_text(str(os.getpid())); print('ready', flush=True); signal.pause()"
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-C", str(folder)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "Begin"], check=True)
    return folder


def visit(repository: Path, tmp_path: Path, page: str, *, skipped: frozenset[str] = frozenset()) -> Visit:
    visitor = Visit(str(repository), tmp_path / "visit")
    visitor.fresh_clone()
    run_page(visitor, Page.parse(page), [], set(skipped))
    return visitor


def test_a_page_that_is_true_has_no_failures(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = "# A page\n```sh\nmake help  # at most 3 minutes\n```\n```text\n  help  …\n```\n"
    assert visit(repository, tmp_path, page).failures == []
    assert "line 3: make help" in capsys.readouterr().out


def test_a_command_that_fails_is_reported_with_its_line_and_the_end_of_its_log(
    repository: Path, tmp_path: Path
) -> None:
    (failure,) = visit(repository, tmp_path, "```sh\necho why >&2; exit 3\n```\n").failures
    assert failure == "line 2: echo why >&2; exit 3: exit status 3\nwhy"


def test_output_other_than_that_on_the_page_is_reported(repository: Path, tmp_path: Path) -> None:
    (failure,) = visit(repository, tmp_path, "```sh\necho one\necho two\n```\n```text\none\n```\n").failures
    assert "the page shows\none\n\nand this was printed:\none\ntwo\n" in failure


def test_a_name_that_does_not_exist_is_reported(repository: Path, tmp_path: Path) -> None:
    (failure,) = visit(repository, tmp_path, "Run `make coffee`.\n").failures
    assert failure.endswith("line 1: make has no target coffee")


def test_a_command_in_the_background_runs_to_the_end_of_the_page(repository: Path, tmp_path: Path) -> None:
    python = shlex.quote(sys.executable)
    page = f"""```sh\n{python} -c "{SERVE}" &\n```\n```text\nready\n```\n```sh\nkill -0 $(cat pid)\n```\n"""
    visitor = visit(repository, tmp_path, page)
    assert visitor.failures == []
    # It has ended with the page, and is not our child any more.
    with pytest.raises(ProcessLookupError):
        os.kill(int((visitor.clone / "pid").read_text()), 0)


def test_a_command_in_the_background_that_ends_early_is_reported(repository: Path, tmp_path: Path) -> None:
    failures = visit(repository, tmp_path, "```sh\nfalse &\n```\n").failures
    assert failures == ["line 2: false &: was not ready: ", "the end of false &: exit status 1"]


def test_each_command_of_a_block_about_a_fresh_clone_starts_in_one(repository: Path, tmp_path: Path) -> None:
    page = "In a fresh clone:\n```sh\ntouch used\ntest ! -e used\n```\nAnd then:\n```sh\ntest -e Makefile\n```\n"
    assert visit(repository, tmp_path, page).failures == []
    (failure,) = visit(repository, tmp_path / "again", page.replace("fresh", "used")).failures
    assert failure.startswith("line 4: test ! -e used")


def test_a_command_that_is_skipped_does_not_run(repository: Path, tmp_path: Path) -> None:
    page = "```sh\nmake test  # at most 10 minutes\nmake help\n```\n"
    assert (
        visit(repository, tmp_path, page.replace("make test", "exit 1"), skipped=frozenset({"exit 1"})).failures == []
    )


def test_a_command_that_takes_longer_than_its_limit_is_reported() -> None:
    assert failure_of(0, 179.0, 180, "") is None
    assert failure_of(0, 181.0, 180, "") == "took 181 s, at most 180 s are allowed"
    assert failure_of(None, 540.0, 180, "") == "took 540 s, at most 180 s are allowed"
