"""Compile the core, `tandem.amqp`, `tandem.rules` and `tandem.engine`, with mypyc: `python -m tools.compile_core`.

The shared objects are put beside the sources, where Python prefers them. That preference is the danger: a shared object
older than its source would shadow it without a word. So a stamp keeps a digest of everything the compiled form was made
of, and whenever the digest does not match, the shared objects are removed first and made again second.

`make setup` runs this file, and the build hook of the wheel (hatch_build.py) calls the same `compile_core`.
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
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

CORE_PACKAGES: Final = ("tandem/amqp", "tandem/engine", "tandem/rules")
CORE_MODULES: Final = (
    "tandem/addresses.py",
    "tandem/ids.py",
    "tandem/server/nodes/acknowledging.py",
    "tandem/server/nodes/entity.py",
    "tandem/server/nodes/event_hub.py",
    "tandem/server/nodes/link_meter.py",
    "tandem/store/rows.py",
)
# mypyc copies the value of a Final constant into the code that uses it, from modules it does not compile too: a limit
# that changed needs a new compilation as much as a changed function does.
INLINED_MODULES: Final = ("tandem/errors.py", "tandem/limits.py")
# All modules share one library, which mypyc puts at the top of the source root: a module of its own, of this name.
GROUP_NAME: Final = "tandem_core"

EXIT_NO_COMPILER: Final = 3


@dataclass(frozen=True)
class Outcome:
    """What the compile step left behind: the shared objects, or the reason why there are none."""

    module_count: int = 0
    shared_objects: tuple[Path, ...] = ()
    reason_interpreted: str = ""
    is_unchanged: bool = False

    def sentence(self) -> str:
        """The one line that tells a user which form was made."""
        if not self.shared_objects:
            return f"tandem: interpreted: {self.reason_interpreted}"
        suffix = ", unchanged" if self.is_unchanged else ""
        return f"tandem: compiled by mypyc ({self.module_count} modules{suffix})"


class CompileFailedError(Exception):
    """mypyc or the C compiler refused the sources. The message is their output."""


def core_modules(root: Path) -> list[Path]:
    """The sources to compile. An __init__.py only collects names, and stays readable to import hooks."""
    source_root = root / "src"
    in_packages = [path for package in CORE_PACKAGES for path in (source_root / package).rglob("*.py")]
    alone = [source_root / name for name in CORE_MODULES if (source_root / name).exists()]
    return sorted(path for path in (*in_packages, *alone) if path.name != "__init__.py")


def shared_objects(root: Path) -> list[Path]:
    """Whatever compiled form lies in the source tree, current or not, of this Python or another."""
    source_root = root / "src"
    return sorted(
        path
        for suffix in ("so", "pyd")
        for pattern in (f"{GROUP_NAME}__mypyc.*.{suffix}", f"tandem/**/*.{suffix}")
        for path in source_root.glob(pattern)
    )


def digest_of_inputs(root: Path) -> str:
    """A digest of all that decides what the compiled form does: sources, Python, mypyc and the options in this file."""
    source_root = root / "src"
    digest = hashlib.sha256()
    for part in (
        platform.python_implementation(),
        sys.version,
        str(sysconfig.get_config_var("EXT_SUFFIX")),
        metadata.version("mypy"),
        metadata.version("setuptools"),
        Path(__file__).read_text(encoding="utf-8"),
    ):
        digest.update(part.encode() + b"\0")
    for path in (*core_modules(root), *(source_root / name for name in INLINED_MODULES)):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\0".encode() + content)
    return digest.hexdigest()


def is_current(root: Path) -> bool:
    """Whether the shared objects in the tree are exactly those made of the sources as they are now."""
    try:
        stamp = json.loads(_stamp_path(root).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return False
    names = [path.relative_to(root).as_posix() for path in shared_objects(root)]
    return bool(names) and stamp == {"digest": digest_of_inputs(root), "shared_objects": names}


def compile_core(root: Path, environ: Mapping[str, str] = os.environ) -> Outcome:
    """Bring the compiled form in step with the sources, or remove it where it cannot be made."""
    modules = core_modules(root)
    if environ.get("TANDEM_PURE", "") not in {"", "0"}:
        return _interpreted(root, "TANDEM_PURE is set")
    if platform.python_implementation() != "CPython":
        return _interpreted(root, f"mypyc compiles for CPython only, this is {platform.python_implementation()}")
    if not modules:
        return _interpreted(root, "there are no modules to compile")
    if is_current(root):
        return Outcome(len(modules), tuple(shared_objects(root)), is_unchanged=True)

    _remove_shared_objects(root)
    print(f"tandem: compiling {len(modules)} modules, which takes a minute or two", file=sys.stderr, flush=True)
    # Taken before mypyc reads the sources: an edit during the compilation then shows as a stale stamp.
    digest = digest_of_inputs(root)
    build = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--build", *(str(path) for path in modules)],
        cwd=root,
        env=dict(environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if build.returncode == EXIT_NO_COMPILER:
        return _interpreted(root, "no C compiler found")
    if build.returncode != 0:
        _remove_shared_objects(root)
        raise CompileFailedError(build.stdout)
    made = shared_objects(root)
    names = [path.relative_to(root).as_posix() for path in made]
    _stamp_path(root).write_text(json.dumps({"digest": digest, "shared_objects": names}, indent=1) + "\n")
    return Outcome(len(modules), tuple(made))


def _stamp_path(root: Path) -> Path:
    return root / "build" / "mypyc" / "stamp.json"


def _remove_shared_objects(root: Path) -> None:
    _stamp_path(root).unlink(missing_ok=True)
    for path in shared_objects(root):
        path.unlink()


def _interpreted(root: Path, reason: str) -> Outcome:
    _remove_shared_objects(root)
    return Outcome(reason_interpreted=reason)


def _has_c_compiler() -> bool:
    """Whether setuptools can compile a file that includes Python.h: headers are missing as often as the compiler."""
    from setuptools._distutils.ccompiler import new_compiler
    from setuptools._distutils.errors import CCompilerError, DistutilsError
    from setuptools._distutils.sysconfig import customize_compiler

    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            compiler.compile([str(source)], output_dir=directory, include_dirs=[sysconfig.get_path("include")])
        except (CCompilerError, DistutilsError, OSError):
            return False
    return True


def _build(paths: list[str]) -> None:
    """Run mypyc and the C compiler, in a process of its own: both print a lot, and both exit when they fail."""
    if not _has_c_compiler():
        raise SystemExit(EXIT_NO_COMPILER)

    from mypyc.build import mypycify
    from setuptools.dist import Distribution

    target = Path("build", "mypyc")
    extensions = mypycify(paths, opt_level="3", debug_level="0", target_dir=str(target), group_name=GROUP_NAME)
    distribution = Distribution({"name": "tandem-bus", "ext_modules": extensions, "package_dir": {"": "src"}})
    command = distribution.get_command_obj("build_ext")
    command.inplace = True
    command.build_temp = str(target / "objects")
    # Timestamps decide nothing here, the digest did.
    command.force = True
    command.ensure_finalized()
    command.run()


def main() -> int:
    if sys.argv[1:2] == ["--build"]:
        _build(sys.argv[2:])
        return 0
    try:
        outcome = compile_core(ROOT)
    except CompileFailedError as failure:
        print(failure, file=sys.stderr)
        print("tandem: mypyc failed, see above. TANDEM_PURE=1 makes the interpreted form.", file=sys.stderr)
        return 1
    print(outcome.sentence())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
