"""The tools that contributors rely on: the compile step, the markers and the coverage of the mission."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

from tandem._form import is_pure_requested
from tests.markers import mission, spec
from tools import compile_core, coverage_of_mission
from tools.compile_core import Outcome, Progress, discard_stale, is_current, shared_objects
from tools.coverage_of_mission import Line, Naming, find_all_namings, find_namings, find_strays, read_mission

ROOT = Path(__file__).resolve().parents[2]
EXTENSION_SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
NO_COMPILER = {"CC": "no-such-compiler", "PATH": ""}
# These tests make the compiled form, also in a run that itself tests the interpreted one.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TANDEM_PURE"}


# --- tools/compile_core.py ----------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree of one core module, with a compiled form that nothing vouches for."""
    package = tmp_path / "src" / "tandem" / "amqp"
    package.mkdir(parents=True)
    for name in (
        "../__init__.py",
        "../entity_settings.py",
        "../errors.py",
        "../limits.py",
        "../wire_names.py",
        "__init__.py",
    ):
        (package / name).touch()
    (package / "decode.py").write_text("def width(code: int) -> int:\n    return code & 0x0F\n")
    (package / f"decode{EXTENSION_SUFFIX}").touch()
    (package / "removed_long_ago.cpython-310-x86_64-linux-gnu.so").touch()
    (tmp_path / "src" / f"tandem_amqp__mypyc{EXTENSION_SUFFIX}").touch()
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
    assert outcome.sentence() == "tandem: interpreted: no C compiler with Python's header files was found"
    assert not outcome.is_failure
    assert shared_objects(tree) == []


needs_c_compiler = pytest.mark.skipif(
    not has_c_compiler(), reason="needs a C compiler and Python's headers: apt install gcc python3-dev"
)


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of object files for all of these tests: the runtime of mypyc is compiled once."""
    return tmp_path_factory.mktemp("objects")


@pytest.fixture
def compiling(objects: Path) -> dict[str, str]:
    """An environment that asks for the compiled form."""
    return {**ENVIRONMENT, "TANDEM_OBJECTS": str(objects)}


@needs_c_compiler
def test_sources_that_mypyc_refuses_leave_the_interpreted_form_and_its_message_in_a_log(
    tree: Path, compiling: dict[str, str]
) -> None:
    (tree / "src/tandem/amqp/decode.py").write_text("def width(code: int) -> int\n")
    outcome = compile_core.compile_core(tree, compiling)
    log = tree / "build" / "mypyc" / "compile.log"
    assert outcome.is_failure
    assert outcome.sentence().endswith(f"the compilation failed: mypyc refused the sources; its output is in {log}")
    assert "decode.py:1: error" in log.read_text()
    assert shared_objects(tree) == []


@needs_c_compiler
def test_a_c_compiler_that_fails_leaves_the_interpreted_form(tree: Path, tmp_path: Path) -> None:
    """It compiles the probe, and then the disk is full, say."""
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ncase "$*" in *probe.c*) exec cc "$@";; esac\necho no space left; exit 4\n')
    compiler.chmod(0o755)
    outcome = compile_core.compile_core(tree, {**ENVIRONMENT, "CC": str(compiler)})
    assert "the C compiler exited with 4" in outcome.reason_interpreted
    assert "no space left" in (tree / "build" / "mypyc" / "compile.log").read_text()
    assert shared_objects(tree) == []


@needs_c_compiler
def test_a_compiled_form_is_current_until_a_source_or_a_limit_changes(tree: Path, compiling: dict[str, str]) -> None:
    first = compile_core.compile_core(tree, compiling)
    assert first.sentence() == "tandem: compiled by mypyc (1 modules)"
    assert [path.relative_to(tree / "src").as_posix() for path in first.shared_objects] == [
        f"tandem/amqp/decode{EXTENSION_SUFFIX}",
        f"tandem_amqp__mypyc{EXTENSION_SUFFIX}",
    ]

    second = compile_core.compile_core(tree, compiling)
    assert second.sentence() == "tandem: compiled by mypyc (1 modules, unchanged)"
    assert discard_stale(tree) == second.sentence()

    (tree / "src/tandem/limits.py").write_text("MAX_NESTING_DEPTH = 31\n")
    assert not is_current(tree)
    assert discard_stale(tree) == "tandem: interpreted: not compiled yet; `make setup` compiles"
    assert shared_objects(tree) == []


@needs_c_compiler
def test_a_changed_module_recompiles_its_own_group_only(tree: Path, objects: Path, compiling: dict[str, str]) -> None:
    rules = tree / "src" / "tandem" / "rules"
    rules.mkdir()
    (rules / "__init__.py").touch()
    (rules / "like.py").write_text(
        "from tandem.amqp.decode import width\n\n\ndef twice(code: int) -> int:\n    return 2 * width(code)\n"
    )
    assert compile_core.compile_core(tree, compiling).module_count == 2
    before = set(objects.iterdir())

    (tree / "src/tandem/amqp/decode.py").write_text("def width(code: int) -> int:\n    return code & 0x7F\n")
    assert compile_core.compile_core(tree, compiling).module_count == 2
    # One C file: that of the module. The runtime of mypyc, the other group and the small libraries are reused.
    assert len(set(objects.iterdir()) - before) == 1


def test_progress_is_a_line_now_and_then_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = Progress("compiling", is_terminal=False, clock=lambda: now)
    for done in range(5):
        progress.show(done, 5)
        now += 4.0
    progress.finish()
    assert capsys.readouterr().err.splitlines() == ["compiling", "compiling: 0 of 5 steps", "compiling: 3 of 5 steps"]


def test_progress_is_a_line_that_changes_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress("compiling", is_terminal=True)
    progress.show(1, 2)
    progress.show(2, 2)
    progress.finish()
    assert capsys.readouterr().err == "compiling\rcompiling: 1 of 2 steps\rcompiling: 2 of 2 steps\n"


@pytest.mark.skipif(is_pure_requested(), reason="TANDEM_PURE asks for the interpreted form")
def test_the_last_compilation_in_this_clone_did_not_fail() -> None:
    """A failure is only a warning for those who install Tandem; a change that causes one must not pass the tests."""
    log = ROOT / "build" / "mypyc" / "compile.log"
    assert not log.exists(), log.read_text()


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
    (tmp_path / "tests" / "engine").mkdir(parents=True)
    (tmp_path / "tests" / "engine" / "test_one.py").write_text('@mission("M1")\ndef test_one(): ...\n')
    return tmp_path


def test_the_mission_is_read_from_the_rows_of_its_tables() -> None:
    assert read_mission(PAGE) == [Line("M1", "2", "A promise."), Line("M2", "4, 6", "Another, with `local[*]`.")]


def test_the_page_of_the_mission_has_its_41_lines_in_order() -> None:
    lines = read_mission((ROOT / "docs" / "mission.md").read_text(encoding="utf-8"))
    assert [line.name for line in lines] == [f"M{number}" for number in range(1, 42)]


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
    (repository / "tests" / "engine" / "test_two.py").write_text('@mission("M2")\ndef test_two(): ...\n')
    assert coverage_of_mission.main(["--strict"], root=repository) == 0


def test_a_stray_name_is_shown_and_fails_strict(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "tests" / "engine" / "test_two.py").write_text('@mission("M2", "M77")\ndef test_two(): ...\n')
    assert coverage_of_mission.main([], root=repository) == 0
    assert "tests/engine/test_two.py::test_two names M77" in capsys.readouterr().err
    assert coverage_of_mission.main(["--strict"], root=repository) == 1
