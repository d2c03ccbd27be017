"""Tandem as its users install it: built in isolation, in an environment of its own, serving the official SDK.

The versions of everything, build tools included, are those of the lock. Object files come from the last `make setup`:
the same sources make the same objects, and compiling them again would prove nothing.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tandem._form import PURE_VARIABLE, is_pure_requested
from tests.markers import mission
from tools.compile_core import OBJECTS_VARIABLE, shared_objects

ROOT: Final = Path(__file__).resolve().parents[2]
UV: Final = Path(sys.prefix, "bin", "uv")
LOCK: Final = ROOT / "requirements" / "dev.txt"
# Seconds. A build takes ten of them on an idle machine, and minutes where nothing can be reused.
LIMIT_S: Final = 1_200

# Starts a broker of the installation that runs it, and sends and receives with the official SDK.
PROGRAM: Final = """
import subprocess, sys
from pathlib import Path
from azure.servicebus import ServiceBusClient, ServiceBusMessage
import tandem

tandem_program = Path(sys.executable).with_name("tandem")
command = [tandem_program, "serve", "--dev", "--port", "0", "--http-port", "0", "--data-dir", "data"]
broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    address = broker.stdout.readline().split()[1].removeprefix("amqp://")
    key = "SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE"
    text = f"Endpoint=sb://{address};{key};UseDevelopmentEmulator=true"
    create = [tandem_program, "queue", "create", "orders", "--connection-string", text]
    subprocess.run(create, check=True, stdout=subprocess.DEVNULL)
    with ServiceBusClient.from_connection_string(text) as client:
        with client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("a table, four chairs"))
        with client.get_queue_receiver("orders") as receiver:
            (message,) = receiver.receive_messages(max_wait_time=60)
            receiver.complete_message(message)
finally:
    broker.terminate()
print(tandem.form(), message, broker.wait())
"""

pytestmark = pytest.mark.timeout(LIMIT_S)


def run(command: Sequence[str | Path], cwd: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a command without the settings of this test run. Return what it printed; fail with it."""
    inherited = {key: value for key, value in os.environ.items() if key not in {PURE_VARIABLE, "PYTHONPATH"}}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**inherited, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}"
    return done.stdout


def build(folder: Path, environment: Mapping[str, str]) -> tuple[Path, Path]:
    """Build the sdist from the working tree, and the wheel from the sdist, each in isolation."""
    options: list[str | Path] = ["--python", sys.executable, "--build-constraints", LOCK, "--out-dir", folder]
    run([UV, "build", *options, ROOT], folder, environment)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The artefacts as a machine without a C compiler makes them."""
    return build(tmp_path_factory.mktemp("pure"), {"CC": "no-such-compiler"})


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The artefacts as a machine with a C compiler makes them."""
    if is_pure_requested() or not shared_objects(ROOT):
        pytest.skip("the core is not compiled here; `make setup` compiles it where a C compiler is at hand")
    objects = ROOT / "build" / "mypyc" / "objects"
    return build(tmp_path_factory.mktemp("compiled"), {OBJECTS_VARIABLE: str(objects)})


def install_and_serve(artefact: Path, folder: Path, environment: Mapping[str, str]) -> str:
    """Install into a new environment, with the official SDK beside it. Return what the program prints."""
    python = folder / "environment" / "bin" / "python"
    run([UV, "venv", "--quiet", "--python", sys.executable, folder / "environment"], folder)
    options: list[str | Path] = ["--quiet", "--python", python, "--constraints", LOCK, "--build-constraints", LOCK]
    run([UV, "pip", "install", *options, artefact, "azure-servicebus"], folder, environment)
    run([UV, "pip", "check", "--python", python], folder)
    return run([python, "-c", PROGRAM], folder)


@mission("M33")
def test_the_wheel_of_a_machine_with_a_c_compiler_is_compiled_and_serves(
    compiled: tuple[Path, Path], tmp_path: Path
) -> None:
    _, wheel = compiled
    assert re.fullmatch(r"tandem_bus-.*-cp3\d+-cp3\d+-\w+\.whl", wheel.name)
    assert install_and_serve(wheel, tmp_path, {}).split(maxsplit=1) == ["compiled", "a table, four chairs 0\n"]


@mission("M33")
def test_the_wheel_of_a_machine_without_one_is_for_every_platform_and_serves(
    pure: tuple[Path, Path], tmp_path: Path
) -> None:
    _, wheel = pure
    assert wheel.name.endswith("-py3-none-any.whl")
    assert install_and_serve(wheel, tmp_path, {}).split(maxsplit=1) == ["interpreted", "a table, four chairs 0\n"]


@mission("M33")
def test_the_sdist_installs_and_serves(pure: tuple[Path, Path], tmp_path: Path) -> None:
    sdist, _ = pure
    output = install_and_serve(sdist, tmp_path, {"CC": "no-such-compiler"})
    assert output.split(maxsplit=1) == ["interpreted", "a table, four chairs 0\n"]


def test_the_sdist_holds_what_the_repository_holds(pure: tuple[Path, Path]) -> None:
    """Whoever gets the sources can read them, change them and test them."""
    sdist, _ = pure
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("this is not a git clone, so there is no list to compare with")
    unneeded = (".ci/", ".git")
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    assert {name for name in tracked - held if not name.startswith(unneeded)} == set()


def test_building_leaves_the_working_tree_as_it_was(pure: tuple[Path, Path], compiled: tuple[Path, Path]) -> None:
    assert [path for path in (ROOT / "dist").glob("*") if path.name in {pure[0].name, compiled[1].name}] == []
