"""The tools that contributors rely on: the compile step, the markers and the coverage of the mission."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from tests.markers import mission, spec
from tools import compile_core, coverage_of_mission
from tools.compile_core import CompileFailedError, Outcome, is_current, shared_objects
from tools.coverage_of_mission import Line, Naming, find_all_namings, find_namings, find_strays, read_mission

ROOT = Path(__file__).resolve().parents[2]
EXTENSION_SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
NO_COMPILER = {"CC": "no-such-compiler", "PATH": ""}
# These tests make the compiled form, also in a run that itself tests the interpreted one.
COMPILING = {name: value for name, value in os.environ.items() if name != "TANDEM_PURE"}


# --- tools/compile_core.py ----------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree of one core module, with a compiled form that nothing vouches for."""
    package = tmp_path / "src" / "tandem" / "amqp"
    package.mkdir(parents=True)
    for name in ("../__init__.py", "../errors.py", "../limits.py", "__init__.py"):
        (package / name).touch()
    (package / "decode.py").write_text("def width(code: int) -> int:\n    return code & 0x0F\n")
    (package / f"decode{EXTENSION_SUFFIX}").touch()
    (package / "removed_long_ago.cpython-310-x86_64-linux-gnu.so").touch()
    (tmp_path / "src" / f"tandem_core__mypyc{EXTENSION_SUFFIX}").touch()
    return tmp_path


def has_c_compiler() -> bool:
    compiler = str(sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(compiler) is not None and Path(sysconfig.get_path("include"), "Python.h").exists()


def test_shared_objects_that_nothing_vouches_for_are_not_current(tree: Path) -> None:
    assert len(shared_objects(tree)) == 3
    assert not is_current(tree)


def test_tandem_pure_removes_every_shared_object(tree: Path) -> None:
    outcome = compile_core.compile_core(tree, {"TANDEM_PURE": "1"})
    assert outcome.sentence() == "tandem: interpreted: TANDEM_PURE is set"
    assert shared_objects(tree) == []


def test_without_a_c_compiler_the_stale_shared_objects_go_and_the_form_is_interpreted(tree: Path) -> None:
    outcome = compile_core.compile_core(tree, NO_COMPILER)
    assert outcome.sentence() == "tandem: interpreted: no C compiler found"
    assert shared_objects(tree) == []


@pytest.mark.skipif(not has_c_compiler(), reason="needs a C compiler and Python's headers")
def test_sources_that_mypyc_refuses_fail_with_its_message_and_leave_no_shared_object(tree: Path) -> None:
    (tree / "src/tandem/amqp/decode.py").write_text("def width(code: int) -> int\n")
    with pytest.raises(CompileFailedError, match=r"decode\.py:1: error"):
        compile_core.compile_core(tree, COMPILING)
    assert shared_objects(tree) == []


@pytest.mark.skipif(not has_c_compiler(), reason="needs a C compiler and Python's headers")
def test_a_compiled_form_is_current_until_a_source_or_a_limit_changes(tree: Path) -> None:
    first = compile_core.compile_core(tree, COMPILING)
    assert first.sentence() == "tandem: compiled by mypyc (1 modules)"
    assert [path.relative_to(tree / "src").as_posix() for path in first.shared_objects] == [
        f"tandem/amqp/decode{EXTENSION_SUFFIX}",
        f"tandem_core__mypyc{EXTENSION_SUFFIX}",
    ]

    second = compile_core.compile_core(tree, COMPILING)
    assert second.sentence() == "tandem: compiled by mypyc (1 modules, unchanged)"

    (tree / "src/tandem/limits.py").write_text("MAX_NESTING_DEPTH = 31\n")
    assert not is_current(tree)


def test_a_damaged_stamp_counts_as_none(tree: Path) -> None:
    stamp = tree / "build" / "mypyc" / "stamp.json"
    stamp.parent.mkdir(parents=True)
    stamp.write_text("{")
    assert not is_current(tree)


def test_the_outcome_says_which_form_was_made_and_why() -> None:
    assert Outcome(2, (Path("a.so"),)).sentence() == "tandem: compiled by mypyc (2 modules)"
    assert Outcome(reason_interpreted="because").sentence() == "tandem: interpreted: because"


# --- tests/markers.py ---------------------------------------------------------------------------------------------


def test_the_markers_put_their_arguments_on_the_test() -> None:
    # Not written as decorators, so that the coverage of the mission does not take them for namings.
    def marked() -> None: ...

    marks = getattr(mission("M1", "M2")(spec("amqp:2.6.12")(marked)), "pytestmark")  # noqa: B009 - pytest adds it
    assert [(mark.name, mark.args) for mark in marks] == [("spec", ("amqp:2.6.12",)), ("mission", ("M1", "M2"))]


@pytest.mark.parametrize("lines", [(), ("22",), ("M1", "m2"), ("M0",)])
def test_a_mission_marker_refuses_what_is_no_line(lines: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="a line of the mission looks like M22"):
        mission(*lines)


@pytest.mark.parametrize("clauses", [(), ("2.6.12",), ("amqp:",), ("amqp:2.6.12", "")])
def test_a_spec_marker_refuses_what_names_no_specification(clauses: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"a clause looks like amqp:2\.6\.12"):
        spec(*clauses)


# --- tools/coverage_of_mission.py ---------------------------------------------------------------------------------

PAGE = """
| Line | Step | Promise |
|---|---|---|
| M1 | 2 | A promise. |
| M2 | 4, 6 | Another, with `local[*]`. |
"""

TEST_FILE = """
from tests import markers
from tests.markers import mission

@mission("M1")
def test_plain(): ...

class TestGroup:
    @markers.mission("M2", "M3")
    async def test_in_a_class(self): ...

@unrelated("M9")
@mission
def test_other_decorators(): ...
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "mission.md").write_text(PAGE)
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_one.py").write_text('@mission("M1")\ndef test_one(): ...\n')
    return tmp_path


def test_the_mission_is_read_from_the_rows_of_its_tables() -> None:
    assert read_mission(PAGE) == [Line("M1", "2", "A promise."), Line("M2", "4, 6", "Another, with `local[*]`.")]


def test_the_page_of_the_mission_has_its_32_lines_in_order() -> None:
    lines = read_mission((ROOT / "docs" / "mission.md").read_text(encoding="utf-8"))
    assert [line.name for line in lines] == [f"M{number}" for number in range(1, 33)]


def test_namings_are_found_on_functions_and_methods_however_the_marker_is_imported() -> None:
    assert list(find_namings(TEST_FILE, "t.py")) == [
        Naming("M1", "t.py::test_plain"),
        Naming("M2", "t.py::test_in_a_class"),
        Naming("M3", "t.py::test_in_a_class"),
    ]


def test_a_marker_whose_argument_is_not_a_literal_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"t\.py:1: @mission takes literal strings"):
        list(find_namings("@mission(LINE)\ndef test(): ...", "t.py"))


def test_no_test_of_ours_names_a_line_that_does_not_exist() -> None:
    lines = read_mission((ROOT / "docs" / "mission.md").read_text(encoding="utf-8"))
    assert find_strays(lines, find_all_namings(ROOT)) == []


def test_lines_without_a_test_are_listed_and_only_strict_fails(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert coverage_of_mission.main([], root=repository) == 0
    output = capsys.readouterr().out
    assert "M2" in output
    assert "local[*]" in output
    assert "M1 " not in output
    assert "1 of 2 lines of the mission are named by a test." in output
    assert coverage_of_mission.main(["--strict"], root=repository) == 1


def test_strict_passes_when_every_line_is_named(repository: Path) -> None:
    (repository / "tests" / "unit" / "test_two.py").write_text('@mission("M2")\ndef test_two(): ...\n')
    assert coverage_of_mission.main(["--strict"], root=repository) == 0


def test_a_stray_name_is_shown_and_fails_strict(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "tests" / "unit" / "test_two.py").write_text('@mission("M2", "M77")\ndef test_two(): ...\n')
    assert coverage_of_mission.main([], root=repository) == 0
    assert "tests/unit/test_two.py::test_two names M77" in capsys.readouterr().err
    assert coverage_of_mission.main(["--strict"], root=repository) == 1
