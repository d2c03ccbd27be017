"""Both forms of the core can be had from one installation, and a process can tell which one it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import tandem
from tandem import _form

ROOT = Path(__file__).resolve().parents[2]
EXTENSION_SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))


def run_python(statement: str, *, tandem_pure: str | None) -> str:
    environ = {name: value for name, value in os.environ.items() if name != _form.PURE_VARIABLE}
    if tandem_pure is not None:
        environ[_form.PURE_VARIABLE] = tandem_pure
    completed = subprocess.run(
        [sys.executable, "-c", statement], env=environ, capture_output=True, text=True, check=True, timeout=30
    )
    return completed.stdout.strip()


def form_made_by_the_build() -> str:
    return "compiled" if (ROOT / "src/tandem/amqp" / f"decode{EXTENSION_SUFFIX}").exists() else "interpreted"


def test_tandem_pure_gives_the_interpreted_form_whatever_was_built() -> None:
    assert run_python("import tandem; print(tandem.form())", tandem_pure="1") == "interpreted"


@pytest.mark.parametrize("value", [None, "", "0"])
def test_without_tandem_pure_the_form_is_the_one_that_was_built(value: str | None) -> None:
    assert run_python("import tandem; print(tandem.form())", tandem_pure=value) == form_made_by_the_build()


def test_tandem_pure_holds_for_every_module_of_the_core() -> None:
    statement = (
        "import sys, pkgutil, importlib, tandem.amqp\n"
        "for module in pkgutil.walk_packages(tandem.amqp.__path__, 'tandem.amqp.'):\n"
        "    importlib.import_module(module.name)\n"
        "print({m.__file__[-3:] for n, m in sys.modules.items() if n.startswith('tandem.')})"
    )
    assert run_python(statement, tandem_pure="1") == "{'.py'}"


def test_form_agrees_with_the_environment_of_this_run() -> None:
    expected = "interpreted" if _form.is_pure_requested() else form_made_by_the_build()
    assert tandem.form() == expected


@pytest.mark.parametrize(
    "environ, is_pure",
    [
        ({}, False),
        ({"TANDEM_PURE": ""}, False),
        ({"TANDEM_PURE": "0"}, False),
        ({"TANDEM_PURE": "1"}, True),
        ({"TANDEM_PURE": "yes"}, True),
    ],
)
def test_only_a_value_other_than_empty_and_0_asks_for_the_interpreted_form(
    environ: dict[str, str], is_pure: bool
) -> None:
    assert _form.is_pure_requested(environ) is is_pure


def test_the_finder_prefers_the_source_to_the_shared_object_beside_it(tmp_path: Path) -> None:
    source = tmp_path / "decode.py"
    source.touch()
    (tmp_path / f"decode{EXTENSION_SUFFIX}").touch()
    spec = _form.SourceOnlyFinder().find_spec("tandem.decode", [str(tmp_path)])
    assert spec is not None
    assert spec.origin == str(source)


def test_the_finder_finds_packages(tmp_path: Path) -> None:
    package = tmp_path / "amqp" / "__init__.py"
    package.parent.mkdir()
    package.touch()
    spec = _form.SourceOnlyFinder().find_spec("tandem.amqp", [str(tmp_path)])
    assert spec is not None
    assert spec.origin == str(package)
    assert spec.submodule_search_locations == [str(package.parent)]


@pytest.mark.parametrize("name", ["json.decoder", "tandem", "tandem_bus.decode"])
def test_the_finder_leaves_other_names_to_python(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name.rpartition('.')[2]}.py").touch()
    assert _form.SourceOnlyFinder().find_spec(name, [str(tmp_path)]) is None


def test_the_finder_leaves_a_module_without_a_source_to_python(tmp_path: Path) -> None:
    (tmp_path / f"decode{EXTENSION_SUFFIX}").touch()
    (tmp_path / "data").mkdir()
    assert _form.SourceOnlyFinder().find_spec("tandem.decode", [str(tmp_path)]) is None
    assert _form.SourceOnlyFinder().find_spec("tandem.data", [str(tmp_path)]) is None


def test_the_finder_is_installed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    _form.install_source_only_finder()
    _form.install_source_only_finder()
    assert [type(finder) for finder in sys.meta_path] == [_form.SourceOnlyFinder]
