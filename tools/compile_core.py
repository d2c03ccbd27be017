"""Compile the core with mypyc: `python -m tools.compile_core [--discard-stale]`.

The shared objects are put beside the sources, where Python prefers them. That preference is the danger: a shared object
older than its source would shadow it silently. A stamp therefore keeps a digest of everything that the compiled form
was made of; whenever the digest does not match, the shared objects are removed first and built again second.

A compilation that fails, for whatever reason, leaves the interpreted form and a warning. `make setup` runs this file;
`--discard-stale` only removes shared objects that no longer match, for targets that do not wait for a compilation. The
build hook of the wheel (hatch_build.py) calls `compile_into`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tools import native_build
from tools.native_build import REASON_NO_COMPILER, Plan

ROOT: Final = Path(__file__).resolve().parent.parent

# Each group becomes one library. Calls inside a group are direct; calls between groups go through a table of pointers,
# and a change that does not alter what a group exports recompiles that group only. Dependencies point downwards.
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "tandem_server": (
        "tandem/server/nodes/acknowledging.py",
        "tandem/server/nodes/egress.py",
        "tandem/server/nodes/event_hub.py",
        "tandem/server/nodes/ingress.py",
        "tandem/server/nodes/link_meter.py",
        "tandem/server/nodes/settlement.py",
        "tandem/store/rows.py",
    ),
    "tandem_engine": ("tandem/engine",),
    "tandem_rules": ("tandem/rules",),
    "tandem_amqp": ("tandem/amqp", "tandem/addresses.py", "tandem/ids.py"),
}
# mypyc copies the value of a Final constant into the code that uses it, from modules it does not compile too: a limit
# that changed needs a new compilation as much as a changed function does.
INLINED_MODULES: Final = (
    "tandem/entity_settings.py",
    "tandem/errors.py",
    "tandem/limits.py",
    "tandem/wire_names.py",
)

# Names a folder of object files that several builds share, as ccache would.
OBJECTS_VARIABLE: Final = "TANDEM_OBJECTS"
REASON_PURE: Final = "TANDEM_PURE is set"
# Seconds between two lines of progress where no terminal can show a line that changes.
PROGRESS_INTERVAL_S: Final = 10.0


@dataclass(frozen=True)
class Outcome:
    """The shared objects that a compilation made, or the reason why there are none."""

    module_count: int = 0
    shared_objects: tuple[Path, ...] = ()
    reason_interpreted: str = ""
    is_unchanged: bool = False

    def sentence(self) -> str:
        """Return one line that names the form and, for the interpreted one, the reason."""
        if not self.shared_objects:
            return f"tandem: interpreted: {self.reason_interpreted}"
        suffix = ", unchanged" if self.is_unchanged else ""
        return f"tandem: compiled by mypyc ({self.module_count} modules{suffix})"

    @property
    def is_failure(self) -> bool:
        """True where a compilation was started and did not succeed."""
        return self.reason_interpreted.startswith("the compilation failed")


def core_groups(root: Path) -> dict[str, list[Path]]:
    """Return the sources to compile by group. An __init__.py only collects names and stays interpreted."""
    source_root = root / "src"
    groups = {
        name: sorted(
            path
            for place in map(source_root.joinpath, places)
            for path in (place.rglob("*.py") if place.is_dir() else [place])
            if path.exists() and path.name != "__init__.py"
        )
        for name, places in GROUPS.items()
    }
    return {name: paths for name, paths in groups.items() if paths}


def core_modules(root: Path) -> list[Path]:
    """Return the sources to compile."""
    return sorted(path for paths in core_groups(root).values() for path in paths)


def shared_objects(root: Path) -> list[Path]:
    """Return every shared object in the source tree, current or not, of this Python or another."""
    source_root = root / "src"
    return sorted(
        path
        for suffix in ("so", "pyd")
        for pattern in (f"tandem_*__mypyc.*.{suffix}", f"tandem/**/*.{suffix}")
        for path in source_root.glob(pattern)
    )


def digest_of_inputs(root: Path) -> str:
    """Return a digest of everything that the compiled form depends on: sources, Python, mypyc and the options."""
    source_root = root / "src"
    digest = hashlib.sha256()
    for part in (
        platform.python_implementation(),
        sys.version,
        str(sysconfig.get_config_var("EXT_SUFFIX")),
        metadata.version("mypy"),
        metadata.version("setuptools"),
        Path(__file__).read_text(encoding="utf-8"),
        Path(native_build.__file__).read_text(encoding="utf-8"),
    ):
        digest.update(part.encode() + b"\0")
    for path in (*core_modules(root), *(source_root / name for name in INLINED_MODULES)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\0".encode() + content)
    return digest.hexdigest()


def is_current(root: Path) -> bool:
    """Return True if the shared objects in the tree are exactly those made of the sources as they are now."""
    try:
        stamp = json.loads(_stamp_path(root).read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    names = [path.relative_to(root).as_posix() for path in shared_objects(root)]
    return bool(names) and stamp == {"digest": digest_of_inputs(root), "shared_objects": names}


def compile_core(root: Path, environ: Mapping[str, str] = os.environ) -> Outcome:
    """Bring the compiled form beside the sources in step with them, or remove it where it cannot be built."""
    reason = _reason_not_to_compile(root, environ)
    if reason:
        _remove_shared_objects(root)
        return Outcome(reason_interpreted=reason)
    if is_current(root):
        return Outcome(len(core_modules(root)), tuple(shared_objects(root)), is_unchanged=True)
    _remove_shared_objects(root)
    # Taken before mypyc reads the sources: an edit during the compilation then shows as a stale stamp.
    digest = digest_of_inputs(root)
    outcome = compile_into(root, root / "src", root / "build" / "mypyc", environ)
    if outcome.shared_objects:
        names = [path.relative_to(root).as_posix() for path in shared_objects(root)]
        stamp = json.dumps({"digest": digest, "shared_objects": names}, indent=1)
        _stamp_path(root).write_text(stamp + "\n", encoding="utf-8")
    else:
        _remove_shared_objects(root)
    return outcome


def compile_into(root: Path, output_root: Path, work_folder: Path, environ: Mapping[str, str] = os.environ) -> Outcome:
    """Compile the core of the tree at `root` into `output_root`. Write nothing elsewhere but in `work_folder`."""
    reason = _reason_not_to_compile(root, environ)
    if reason:
        return Outcome(reason_interpreted=reason)
    work_folder.mkdir(parents=True, exist_ok=True)
    groups = core_groups(root)
    shared_folder = environ.get(OBJECTS_VARIABLE, "")
    plan = Plan(
        source_root=str(root / "src"),
        output_root=str(output_root),
        work_folder=str(work_folder / "c"),
        object_folder=shared_folder or str(work_folder / "objects"),
        keeps_objects=bool(shared_folder),
        groups={name: [str(path.relative_to(root / "src")) for path in paths] for name, paths in groups.items()},
    )
    module_count = sum(map(len, groups.values()))
    log = work_folder / "compile.log"
    progress = Progress(f"tandem: compiling {module_count} modules", sys.stderr.isatty())
    with tempfile.TemporaryDirectory() as folder:
        plan_path = Path(folder, "plan.json")
        plan.write(plan_path)
        last = _run_build(plan_path, log, environ, progress.show)
    progress.finish()
    made, reason = last.get("made"), last.get("reason", "the build process died")
    if made or reason == REASON_NO_COMPILER:
        log.unlink()
    else:
        reason = f"the compilation failed: {reason}; its output is in {log}"
    return Outcome(module_count, tuple(map(Path, made))) if made else Outcome(reason_interpreted=reason)


class Progress:
    """Shows how far the compilation is: one line that changes on a terminal, a line now and then in a log."""

    def __init__(self, title: str, is_terminal: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._title = title
        self._is_terminal = is_terminal
        self._clock = clock
        self._shown_at = -PROGRESS_INTERVAL_S
        self._write(title)

    def show(self, done: int, total: int) -> None:
        if self._is_terminal:
            self._write(f"\r{self._title}: {done} of {total} steps")
        elif self._clock() - self._shown_at >= PROGRESS_INTERVAL_S:
            self._shown_at = self._clock()
            self._write(f"{self._title}: {done} of {total} steps")

    def finish(self) -> None:
        if self._is_terminal:
            self._write("\n")

    def _write(self, text: str) -> None:
        print(text, end="" if self._is_terminal else "\n", file=sys.stderr, flush=True)


def _run_build(plan: Path, log: Path, environ: Mapping[str, str], report: Callable[[int, int], None]) -> dict[str, Any]:
    """Run the build in a child process. Return the last message it sent."""
    # The folder that holds `tools` is not on the module path of an isolated build.
    command = [sys.executable, str(Path(native_build.__file__).resolve()), str(plan)]
    last: dict[str, Any] = {}
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(command, env=dict(environ), stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            last = json.loads(line)
            if "total" in last:
                report(last["done"], last["total"])
    return last


def _reason_not_to_compile(root: Path, environ: Mapping[str, str]) -> str:
    if environ.get("TANDEM_PURE", "") not in {"", "0"}:
        return REASON_PURE
    if platform.python_implementation() != "CPython":
        return f"mypyc compiles for CPython only, this is {platform.python_implementation()}"
    if not core_modules(root):
        return "there are no modules to compile"
    return ""


def _stamp_path(root: Path) -> Path:
    return root / "build" / "mypyc" / "stamp.json"


def _remove_shared_objects(root: Path) -> None:
    _stamp_path(root).unlink(missing_ok=True)
    for path in shared_objects(root):
        path.unlink()


def discard_stale(root: Path) -> str:
    """Remove shared objects that do not match the sources. Return a line about the form that is left."""
    if is_current(root):
        return Outcome(len(core_modules(root)), tuple(shared_objects(root)), is_unchanged=True).sentence()
    _remove_shared_objects(root)
    return Outcome(reason_interpreted="not compiled yet; `make setup` compiles").sentence()


def main() -> int:
    if sys.argv[1:] == ["--discard-stale"]:
        print(discard_stale(ROOT))
        return 0
    outcome = compile_core(ROOT)
    if outcome.is_failure:
        print("tandem: warning: the interpreted form does the same, several times slower", file=sys.stderr)
    print(outcome.sentence())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
