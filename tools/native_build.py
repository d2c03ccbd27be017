"""Translate modules to C with mypyc and compile the C files, several at a time, reusing objects that are still valid.

    python tools/native_build.py PLAN.json

`tools/compile_core.py` writes the plan and runs this file as a child process: mypyc and the C compiler print a lot, and
mypyc exits when it fails. The child's standard output carries one JSON object per line for the parent: progress, then
the files that were made or the reason why there are none.

mypyc writes one C file per module. One C file for everything, mypyc's default, keeps a single core busy for minutes
and needs more than a gigabyte. An object file is named after a digest of all that went into it, so a changed module
recompiles the C files that changed with it and no others.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

# mypy must see the same types wherever the core is built: an isolated build environment has no third-party packages,
# so they are ignored everywhere. Strict type checking of the whole project is `make check`.
MYPY_OPTIONS: Final = (
    "--config-file=",
    "--no-site-packages",
    "--ignore-missing-imports",
    "--follow-imports=silent",
    "--explicit-package-bases",
    f"--cache-dir={os.devnull}",
)
# Warnings about generated code help nobody, and a newer compiler that has more of them must not break the build.
UNWANTED_FLAGS: Final = frozenset({"-Werror"})
# mypyc defines the tables between groups in a header that every C file of a group includes: -fcommon makes one of them.
# Hidden symbols let the compiler call, and inline, a function of the same library directly; only PyInit_* is exported.
ADDED_FLAGS: Final = ("-fcommon", "-fvisibility=hidden")
REASON_NO_COMPILER: Final = "no C compiler with Python's header files was found"


@dataclass(frozen=True)
class Plan:
    """The modules to compile and the folders to use, by their absolute paths."""

    source_root: str
    # Receives the shared objects, laid out like the source root.
    output_root: str
    # Holds the generated C files.
    work_folder: str
    # Holds the object files.
    object_folder: str
    # True to keep objects that this build did not use: another build may share the folder.
    keeps_objects: bool
    # Name of a group to its modules, relative to the source root: tracebacks show these names, and a wheel must not
    # hold paths of the machine that built it. A group becomes one library.
    groups: dict[str, list[str]]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Plan:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


class BuildError(Exception):
    """A reason why there is no compiled form."""


@dataclass(frozen=True)
class Object:
    """An object file, and the C file that it is compiled from."""

    path: Path
    source: Path
    flags: list[str]
    include_folders: list[str]


class Compiler:
    """The C compiler that Python's own build settings and the environment name."""

    def __init__(self) -> None:
        from setuptools._distutils.ccompiler import new_compiler
        from setuptools._distutils.sysconfig import customize_compiler

        compiler: Any = new_compiler()
        if compiler.compiler_type != "unix":
            raise BuildError(f"compilers of type {compiler.compiler_type} are not supported")
        customize_compiler(compiler)
        self._compile: list[str] = list(compiler.compiler_so)
        self._link: list[str] = list(compiler.linker_so)
        self._includes = [f"-I{sysconfig.get_path('include')}"]

    def is_usable(self) -> bool:
        """Compile a file that includes Python.h: the headers are missing as often as the compiler."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n", encoding="utf-8")
            command = [*self._compile, *self._includes, "-c", str(source), "-o", f"{source}.o"]
            try:
                return subprocess.run(command, capture_output=True, check=False).returncode == 0
            except OSError:
                return False

    def identity(self) -> str:
        """Return what decides, besides the sources, how an object file comes out."""
        version = subprocess.run([self._compile[0], "--version"], capture_output=True, text=True, check=False).stdout
        return "\n".join((version, shlex.join(self._compile), sys.version, metadata.version("mypy")))

    def compile(self, item: Object) -> None:
        includes = [f"-I{folder}" for folder in item.include_folders]
        # Written under another name first: an interrupted compilation must not leave half an object in the cache.
        partial = item.path.with_name(f"{item.path.name}.{os.getpid()}.partial")
        self._run([*self._compile, *item.flags, *includes, *self._includes, "-c", str(item.source), "-o", str(partial)])
        partial.replace(item.path)

    def link(self, objects: Sequence[Path], output: Path) -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        self._run([*self._link, *map(str, objects), "-o", str(output)])

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            print(shlex.join(command), done.stdout, sep="\n", flush=True)
            raise BuildError(f"the C compiler exited with {done.returncode}")


def generate_c(plan: Plan) -> list[Any]:
    """Run mypyc. Return its setuptools extensions: a library for each group, and a small one for each module."""
    from mypyc.build import mypycify

    paths = [path for group in plan.groups.values() for path in group]
    os.environ["MYPYPATH"] = "."
    os.chdir(plan.source_root)
    extensions: list[Any] = mypycify(
        [*MYPY_OPTIONS, *paths],
        opt_level="3",
        debug_level="0",
        multi_file=True,
        separate=[(group, name) for name, group in plan.groups.items()],
        target_dir=plan.work_folder,
    )
    return extensions


def build(plan: Plan, report: Callable[[int, int], None]) -> list[Path]:
    """Compile and link everything in the plan. Return the shared objects."""
    compiler = Compiler()
    if not compiler.is_usable():
        raise BuildError(REASON_NO_COMPILER)
    extensions = generate_c(plan)
    object_folder = Path(plan.object_folder)
    object_folder.mkdir(parents=True, exist_ok=True)
    identity = compiler.identity()

    objects = {
        extension.name: [_object(extension, Path(source), identity, object_folder) for source in extension.sources]
        for extension in extensions
    }
    # The runtime of mypyc is part of every group and compiled once. Longest first, so that no core is left with a long
    # file at the end.
    missing = {item.path: item for items in objects.values() for item in items if not item.path.exists()}
    by_size = sorted(missing.values(), key=lambda item: -item.source.stat().st_size)
    total = len(missing) + len(extensions)

    def link(extension: Any) -> Path:
        output = Path(plan.output_root, *extension.name.split("."))
        output = output.with_name(output.name + str(sysconfig.get_config_var("EXT_SUFFIX")))
        compiler.link([item.path for item in objects[extension.name]], output)
        return output

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        report(0, total)
        try:
            for number, done in enumerate(as_completed([pool.submit(compiler.compile, item) for item in by_size]), 1):
                done.result()
                report(number, total)
            made = []
            for number, linked in enumerate(as_completed([pool.submit(link, e) for e in extensions]), 1):
                made.append(linked.result())
                report(len(missing) + number, total)
        except BuildError:
            pool.shutdown(cancel_futures=True)
            raise
    if not plan.keeps_objects:
        used = {item.path for items in objects.values() for item in items}
        for path in set(object_folder.iterdir()) - used:
            path.unlink()
    return sorted(made)


def _object(extension: Any, source: Path, identity: str, folder: Path) -> Object:
    """Name the object file of a C file after a digest of everything that goes into it."""
    flags = [*(flag for flag in extension.extra_compile_args if flag not in UNWANTED_FLAGS), *ADDED_FLAGS]
    # mypyc's runtime lies beside the generated files: it includes none of them, and its version is in the identity.
    files = [source, *sorted(map(Path, extension.depends if source.name.startswith("__native") else ()))]
    digest = hashlib.sha256("\0".join((identity, *flags)).encode())
    for path in (path for path in files if path is source or path.name.startswith("__native")):
        content = path.read_bytes()
        digest.update(f"\0{path.name} {len(content)}\0".encode() + content)
    return Object(folder / f"{digest.hexdigest()}.o", source, flags, extension.include_dirs)


def main() -> int:
    plan = Plan.read(Path(sys.argv[1]))
    # The parent reads a copy of standard output; whatever mypyc and the compiler print goes to standard error, the log.
    parent = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)

    def send(**fields: object) -> None:
        print(json.dumps(fields), file=parent, flush=True)

    try:
        made = build(plan, lambda done, total: send(done=done, total=total))
    except BuildError as error:
        send(reason=str(error))
        return 1
    except SystemExit:
        send(reason="mypyc refused the sources")
        return 1
    send(made=[str(path) for path in made])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
