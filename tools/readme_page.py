"""Parse the README, and find everything on it that does not exist. `tools.newcomer` also runs the page.

The page follows these conventions:

    ```sh                     Each line is a command that runs in the clone and exits with 0. A command that ends with
                              `&` runs in the background to the end of the page, and prints a line when it is ready.
    ```python                 A program for .venv/bin/python.
    ```text                   The output of the block before it; `…` stands for text that varies.
    # at most 3 minutes       The limit of the command on that line. Durations are stated nowhere else on the page.
    # ... after make setup    `make setup` runs first, and does not count.
    "fresh clone"             In the text before a block: each of its commands starts in a clone of its own.

Links, anchors, paths, `make` targets, and the commands and options of `tandem` must exist, in blocks and inline code.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_LIMIT: Final = re.compile(r"at most (\d+) (second|minute)s?")
_LINK: Final = re.compile(r"""(?:\]\(|\bsrc(?:set)?=")([^)"\s]+)[)"]""")
_INLINE_CODE: Final = re.compile(r"`([^`]+)`")
_REPOSITORY_PATH: Final = re.compile(r"(?:\.ci|bench|docs|examples|packaging|requirements|src|tests|tools)/[\w./-]*")
_OPTION: Final = re.compile(r"--[a-z][a-z-]*")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    line: int  # of the opening fence
    language: str
    section: str
    introduction: str  # the prose between it and the block or heading before it
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass
class Page:
    """A Markdown page, split into fenced blocks and prose."""

    blocks: list[Block] = field(default_factory=list)
    prose: list[tuple[int, str]] = field(default_factory=list)  # number and text of each line
    anchors: set[str] = field(default_factory=set)

    @classmethod
    def parse(cls, text: str) -> Page:
        page, section, introduction = cls(), "", ""
        numbered = iter(enumerate(text.splitlines(), start=1))
        for number, line in numbered:
            if line.startswith("```"):
                lines = []
                for _, inner in numbered:
                    if inner.startswith("```"):
                        break
                    lines.append(inner)
                page.blocks.append(Block(number, line[3:].strip(), section, introduction, tuple(lines)))
                introduction = ""
                continue
            if heading := re.fullmatch(r"#{1,6} (.+)", line):
                section, introduction = heading[1], ""
                page.anchors.add(_anchor(section))
            introduction += line + "\n"
            page.prose.append((number, line))
        return page

    def inline_code(self) -> Iterator[tuple[int, str]]:
        for number, line in self.prose:
            for code in _INLINE_CODE.findall(line):
                yield number, code

    def commands(self) -> Iterator[tuple[int, str]]:
        """The lines of all shell blocks."""
        for block in self.blocks:
            if block.language == "sh":
                yield from enumerate(block.lines, start=block.line + 1)

    def output_of(self, block: Block) -> str | None:
        """The output that the page shows for a block."""
        following = self.blocks.index(block) + 1
        is_shown = following < len(self.blocks) and self.blocks[following].language == "text"
        return self.blocks[following].text if is_shown else None


def _anchor(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def limit_s(command: str) -> int | None:
    """The limit that the comment of a command states."""
    match = _LIMIT.search(command.partition("#")[2])
    return None if match is None else int(match[1]) * (60 if match[2] == "minute" else 1)


def matches(expected: str, printed: str) -> bool:
    """Whether a command printed what the page shows."""
    pattern = "\n".join(re.escape(line.rstrip()).replace("…", ".*") for line in expected.splitlines())
    return re.fullmatch(pattern, "\n".join(line.rstrip() for line in printed.splitlines())) is not None


# --- what can be checked without running anything -------------------------------------------------------------------

# The text that `tandem COMMAND ... --help` prints.
HelpOf = Callable[[tuple[str, ...]], str]


def static_errors(root: Path, page: Page, targets: set[str], help_of: HelpOf) -> list[str]:
    """Everything on the page that does not exist, as `line N: ...`."""
    checks = (
        broken_links(root, page),
        _missing_paths(root, page),
        _broken_inline_code(page),
        _misplaced_limits(page),
        _broken_python(page),
    )
    named = list(named_programs(page))
    errors = [error for check in checks for error in check]
    errors += _unknown_targets(named, targets)
    errors += _unknown_tandem_commands(page, named, help_of)
    return errors


def broken_links(folder: Path, page: Page) -> Iterator[str]:
    """Find links to files and headings that do not exist. `folder` is the one that the page is in."""
    for number, line in page.prose:
        for link in _LINK.findall(line):
            path, _, anchor = link.partition("#")
            target = folder / path
            if "://" in link:
                continue
            if path and not target.exists():
                yield f"line {number}: the link to {path} leads nowhere"
            elif anchor and anchor not in (Page.parse(target.read_text()).anchors if path else page.anchors):
                yield f"line {number}: {path or 'this page'} has no heading #{anchor}"


def _missing_paths(root: Path, page: Page) -> Iterator[str]:
    for number, code in page.inline_code():
        for word in code.split():
            if _REPOSITORY_PATH.fullmatch(word) and not (root / word).exists():
                yield f"line {number}: there is no {word}"


def _broken_inline_code(page: Page) -> Iterator[str]:
    """Find inline code that goes on in the next line, where it would escape the other checks."""
    for number, line in page.prose:
        if line.count("`") % 2:
            yield f"line {number}: inline code is broken across lines"


def _misplaced_limits(page: Page) -> Iterator[str]:
    for number, line in page.prose:
        if _LIMIT.search(line):
            yield f"line {number}: a duration outside the comment of a command is not measured"


def _broken_python(page: Page) -> Iterator[str]:
    for block in page.blocks:
        if block.language == "python":
            try:
                compile(block.text, "README.md", "exec")
            except SyntaxError as error:
                yield f"line {block.line + (error.lineno or 0)}: {error.msg}"


def named_programs(page: Page) -> Iterator[tuple[int, list[str]]]:
    """Every program that the page names with its arguments, in blocks and in inline code."""
    for number, code in (*page.commands(), *page.inline_code()):
        lexer = shlex.shlex(code, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        with contextlib.suppress(ValueError):  # inline code need not be a command: it may hold one quote
            for word in (*lexer, ";"):
                if not set(word) <= set(lexer.punctuation_chars):
                    words.append(word)
                    continue
                while words and re.match(r"\w+=", words[0]):  # TANDEM_PURE=1 make setup
                    words.pop(0)
                if words:
                    yield number, words
                words = []


def _unknown_targets(named: list[tuple[int, list[str]]], targets: set[str]) -> Iterator[str]:
    for number, words in named:
        if words[0] == "make":
            for target in words[1:]:
                if "=" not in target and target not in targets:
                    yield f"line {number}: make has no target {target}"


def _unknown_tandem_commands(page: Page, named: list[tuple[int, list[str]]], help_of: HelpOf) -> Iterator[str]:
    options = set()
    for number, words in named:
        if Path(words[0]).name != "tandem":
            continue
        path: tuple[str, ...] = ()
        for word in words[1:]:
            subcommands = _subcommands(help_of(path))
            if word.startswith("-") or not subcommands:
                break
            if word not in subcommands:
                yield f"line {number}: tandem has no command {' '.join((*path, word))}"
                break
            path = (*path, word)
        known = set(_OPTION.findall(help_of(path)))
        options |= known
        for option in words[1:]:
            if option.startswith("--") and option.partition("=")[0] not in known:
                yield f"line {number}: {' '.join(('tandem', *path))} has no option {option}"
    for number, code in page.inline_code():
        if _OPTION.fullmatch(code) and code not in options:
            yield f"line {number}: no tandem command on this page has the option {code}"


def _subcommands(help_text: str) -> set[str]:
    return set(re.findall(r"^  ([a-z][a-z-]*)\b", help_text.partition("\nCommands:\n")[2], re.MULTILINE))


def targets_of_make(root: Path) -> set[str]:
    """The targets that `make help` lists."""
    listing = subprocess.run(["make", "help"], cwd=root, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  ([a-z-]+)", listing, re.MULTILINE))
