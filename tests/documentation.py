"""Documentation pages whose code runs: a test follows a page as a reader would.

    ```python                 Runs in one namespace for the whole page. A block that begins with a comment such as
                              `# send.py` is saved under that name instead.
    ```toml                   Saved under the name in the comment that it begins with, such as `# tariff.toml`.
    ```sh                     Runs in one shell for the whole page; every command has to end with exit code 0.
    ```text                   The output of the block before it; `…` stands for text that varies.

`replacements` put what the test has in the place of what a reader has, such as the port of a broker.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from tools.readme_page import Block, Page, matches

__all__ = ["DOCS", "follow"]

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"

_FILE_NAME: Final = re.compile(r"# (\w+\.(?:py|toml))")
_END: Final = "end of block"


def follow(
    path: Path,
    folder: Path,
    replacements: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    *,
    names: Mapping[str, object] | None = None,
    skipped: Collection[str] = (),
    shows_everything: bool = True,
) -> int:
    """Run every block of a page, and compare what it prints. Return how many blocks were run.

    The Python of the page finds `names`. Blocks of the languages in `skipped` are only read by people. Without
    `shows_everything`, blocks whose output the page does not show may print what they like.
    """
    page = Page.parse(path.read_text(encoding="utf-8"))
    own_names = dict(names or {})
    count = 0
    with contextlib.ExitStack() as stack:
        shell: _Shell | None = None
        for block in page.blocks:
            if block.language == "text" or block.language in skipped:
                continue
            source = _replaced(block.text, replacements)
            if block.language == "toml":
                printed = _save(source, folder, f"{path.name}, line {block.line}")
            elif block.language == "python":
                printed = _run_python(source, own_names, folder, f"{path.name}, line {block.line}")
            else:
                assert block.language == "sh", f"{path.name}, line {block.line}: nothing runs {block.language!r}"
                shell = shell or stack.enter_context(_Shell(folder, environment or {}))
                printed = shell.run(source)
            if shows_everything or page.output_of(block) is not None:
                _compare(path, page, block, printed, replacements)
            count += 1
    return count


def _compare(path: Path, page: Page, block: Block, printed: str, replacements: Mapping[str, str]) -> None:
    expected = _replaced(page.output_of(block) or "", replacements)
    where = f"{path.name}, line {block.line}"
    assert matches(expected, printed), f"{where}:\n{block.text}prints\n{printed}instead of\n{expected}"


def _replaced(text: str, replacements: Mapping[str, str]) -> str:
    for old, new in replacements.items():
        text = text.replace(old, new)
    return text


def _run_python(source: str, names: dict[str, object], folder: Path, where: str) -> str:
    if _FILE_NAME.match(source):
        return _save(source, folder, where)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(folder):
        exec(compile(source, where, "exec"), names)
    return printed.getvalue()


def _save(source: str, folder: Path, where: str) -> str:
    file_name = _FILE_NAME.match(source)
    assert file_name is not None, f"{where}: it does not begin with the name of a file"
    (folder / file_name[1]).write_text(source, encoding="utf-8")
    return ""


class _Shell:
    """A shell that keeps its variables from block to block. What it has started in the background ends with it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        self._process = subprocess.Popen(
            ["bash", "-e", "-o", "pipefail"],
            cwd=folder,
            env={**os.environ, "PATH": programs, "NO_COLOR": "1", "COLUMNS": "100", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> _Shell:
        return self

    def __exit__(self, *_: object) -> None:
        # Its own group of processes: those in the background hold its output open.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.communicate()

    def run(self, source: str) -> str:
        """Run a block and return what it printed."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        # A newline before the mark: output may end without one.
        stdin.write(f"{source}\nprintf '\\n{_END}\\n'\n")
        stdin.flush()
        printed = ""
        for line in stdout:
            if line == f"{_END}\n":
                return printed.removesuffix("\n")
            printed += line
        # `-e` ends the shell at the first command that fails.
        raise AssertionError(f"a command failed in\n{source}which printed\n{printed}")
