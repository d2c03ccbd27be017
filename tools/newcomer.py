"""Check the README as a newcomer would: clone the repository, run every command of the page, compare the output.

    python3 -m tools.newcomer                       the HEAD of this checkout
    python3 -m tools.newcomer ADDRESS               another repository
    python3 -m tools.newcomer --skip-test --keep    without `make test`; the clones stay for a look at them

`tools.readme_page` states the conventions of the page. The clones, and what the page installs, go to a temporary
folder; a broker listens on the default ports while the page runs. Python, git and make are enough to run this.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tools.readme_page import Block, Page, limit_s, matches, named_programs, static_errors, targets_of_make

ROOT: Final = Path(__file__).resolve().parent.parent

# Seconds for a command whose limit the page does not state: the slowest one downloads half a gigabyte.
DEFAULT_LIMIT_S: Final = 600
# A command may exceed its limit by this factor before it is killed, so that the report can say by how much.
GRACE: Final = 3
# Seconds until a command in the background is ready, and until it has stopped.
BACKGROUND_LIMIT_S: Final = 60
# The system's list of installed packages, where it is Debian's.
SYSTEM_PACKAGES: Final = Path("/var/lib/dpkg/status")


class Visit:
    """A newcomer with a temporary folder: clones, runs what the page says, and keeps a list of what was not true."""

    def __init__(self, source: str, folder: Path) -> None:
        self.source = source
        self.folder = folder
        self.failures: list[str] = []
        self.checked = 0
        self.clone = folder
        self._clones = 0
        self._background: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._environment = _environment(folder)

    def fresh_clone(self) -> Path:
        self._clones += 1
        self.clone = self.folder / f"clone-{self._clones}" / "tandem"
        subprocess.run(["git", "clone", "--quiet", self.source, str(self.clone)], check=True)
        return self.clone

    def report(self, what: str, seconds: float, failure: str | None) -> None:
        self.checked += 1
        print(f"{'ok    ' if failure is None else 'FALSE '} {seconds:6.1f} s  {what}", flush=True)
        if failure is not None:
            self.failures.append(f"{what}: {failure}")
            print(f"         {failure}", flush=True)

    def run_block(self, block: Block, expected: str | None, commands: list[str]) -> None:
        """Run the commands of a block, one after the other, and compare what all of them print."""
        printed, started = "", time.monotonic()
        for number, command in enumerate(commands, start=block.line + 1):
            if not command.strip():
                continue
            if "fresh clone" in block.introduction:
                self.fresh_clone()
            begun = time.monotonic()
            output, failure = self.start(command) if command.endswith("&") else self.run(command)
            printed += output
            name = f"line {number}: {command}" if block.language == "sh" else f"line {block.line}: Python"
            self.report(name, time.monotonic() - begun, failure)
        if expected is not None:
            is_same = matches(expected, printed)
            failure = None if is_same else f"the page shows\n{expected}\nand this was printed:\n{printed}"
            self.report(f"line {block.line}: the output of this block", time.monotonic() - started, failure)

    def run(self, command: str) -> tuple[str, str | None]:
        """Run a command to its end. Return its output, and what was not as the page says."""
        if "after make setup" in command:
            subprocess.run(["make", "setup"], cwd=self.clone, env=self._environment, capture_output=True, check=True)
        limit = limit_s(command) or DEFAULT_LIMIT_S
        log = self.folder / "stderr.log"
        started = time.monotonic()
        with log.open("wb") as errors, (self.folder / "stdout.log").open("w+b") as output:
            process = self._open(command, output.fileno(), errors.fileno())
            try:
                status = process.wait(limit * GRACE)
            except subprocess.TimeoutExpired:
                status = None
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            seconds = time.monotonic() - started
            output.seek(0)
            printed = output.read().decode()
        return printed, failure_of(status, seconds, limit, printed + log.read_text())

    def start(self, command: str) -> tuple[str, str | None]:
        """Start a command in the background, and wait for its first line."""
        output = self.folder / f"background-{len(self._background)}.log"
        with output.open("wb") as file:
            process = self._open("exec " + command.rstrip("& "), file.fileno(), subprocess.STDOUT)
        self._background.append((command, process))
        deadline = time.monotonic() + BACKGROUND_LIMIT_S
        while "\n" not in output.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                return output.read_text(), f"was not ready: {output.read_text()}"
            time.sleep(0.1)
        return output.read_text(), None

    def stop_background(self) -> None:
        """Stop what still runs, as `kill %1` does: it has to end by itself, with exit status 0."""
        for command, process in reversed(self._background):
            begun = time.monotonic()
            process.terminate()
            try:
                status: int | str = process.wait(BACKGROUND_LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = "none, it had to be killed"
            failure = None if status == 0 else f"exit status {status}"
            self.report(f"the end of {command}", time.monotonic() - begun, failure)
        self._background.clear()

    def help_of(self, path: tuple[str, ...]) -> str:
        program = [str(self.clone / ".venv/bin/tandem"), *path, "--help"]
        return subprocess.run(program, env=self._environment, capture_output=True, text=True, check=True).stdout

    def _open(self, command: str, output: int, errors: int) -> subprocess.Popen[bytes]:
        program = ["bash", "-c", command]
        return subprocess.Popen(
            program, cwd=self.clone, env=self._environment, stdout=output, stderr=errors, start_new_session=True
        )


def failure_of(status: int | None, seconds: float, limit: int, log: str) -> str | None:
    """Say what was wrong with a command that has ended, or was killed (status None)."""
    if status is None or seconds > limit:
        return f"took {seconds:.0f} s, at most {limit} s are allowed"
    if status != 0:
        return f"exit status {status}\n" + "\n".join(log.splitlines()[-25:])
    return None


def _environment(folder: Path) -> dict[str, str]:
    """The environment of a shell that knows nothing of Tandem. Tools are installed into the temporary folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "VIRTUAL_ENV"))}
    environment.pop("TANDEM_CONNECTION_STRING", None)
    tools = folder / "bin"
    for variable in ("UV_TOOL_DIR", "UV_TOOL_BIN_DIR", "PIPX_HOME", "PIPX_BIN_DIR"):
        environment[variable] = str(folder / "installed" / variable.lower())
    return {**environment, "COLUMNS": "100", "NO_COLOR": "1", "PATH": f"{tools}{os.pathsep}{environment['PATH']}"}


def install_missing_installers(page: Page, folder: Path) -> None:
    """Provide uv and pipx, where the page uses them and this machine does not have them."""
    used = {words[0] for _, words in named_programs(page)}
    missing = [name for name in ("uv", "pipx") if name in used and shutil.which(name) is None]
    if not missing:
        return
    environment = folder / "installers"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    subprocess.run([str(environment / "bin/pip"), "install", "--quiet", *missing], check=True)
    (folder / "bin").mkdir()
    for name in missing:
        (folder / "bin" / name).symlink_to(environment / "bin" / name)


def system_packages() -> bytes:
    return SYSTEM_PACKAGES.read_bytes() if SYSTEM_PACKAGES.exists() else b""


def ports_in_use(page: Page) -> list[int]:
    """The ports on which the page starts a broker, and somebody else listens already."""
    shown = "".join(block.text for block in page.blocks if block.language == "text")
    busy = []
    for port in map(int, re.findall(r"127\.0\.0\.1:(\d+)", shown)):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                busy.append(port)
    return busy


def run_page(visit: Visit, page: Page, sections: list[str], skipped: set[str]) -> None:
    """Run the blocks of the page in order, then check everything that it names."""
    packages = system_packages()
    try:
        for block in page.blocks:
            if block.language not in {"sh", "python"} or (sections and block.section not in sections):
                continue
            lines = list(block.lines) if block.language == "sh" else [f".venv/bin/python -c {shlex.quote(block.text)}"]
            commands = ["" if line.partition("#")[0].strip() in skipped else line for line in lines]
            visit.run_block(block, page.output_of(block), commands)
    finally:
        visit.stop_background()
    failure = None if system_packages() == packages else f"{SYSTEM_PACKAGES} has changed meanwhile"
    visit.report("no system package was installed", 0, failure)
    begun = time.monotonic()
    errors = static_errors(visit.clone, page, targets_of_make(visit.clone), functools.cache(visit.help_of))
    for error in errors or [""]:
        visit.report("links, paths, targets, commands, options", time.monotonic() - begun, error or None)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", nargs="?", default=str(ROOT), help="repository to clone; default: this checkout")
    parser.add_argument("--only", metavar="SECTION", action="append", default=[], help="run the blocks of this section")
    parser.add_argument("--skip-test", action="store_true", help="leave out `make test`")
    parser.add_argument("--keep", action="store_true", help="keep the temporary folder")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tandem-newcomer-"))
    visit = Visit(arguments.source, folder)
    try:
        page = Page.parse((visit.fresh_clone() / "README.md").read_text())
        if busy := ports_in_use(page):
            print(f"in use, and the README needs them: ports {busy}. Stop what listens there first.", file=sys.stderr)
            return 2
        install_missing_installers(page, folder)
        run_page(visit, page, arguments.only, {"make test"} if arguments.skip_test else set())
    finally:
        if arguments.keep:
            print(f"kept {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{visit.checked} checks, {len(visit.failures)} of them false")
    return 1 if visit.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
