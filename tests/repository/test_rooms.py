"""Where things are: tests mirror the package, and the page about the architecture names every folder that does not."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tandem"

# Folders of tests that no package has: each puts the whole product, or the repository, to one kind of test.
PROGRAMMES = {
    *("compat", "crash", "differential", "fuzz", "install", "interop", "load", "security", "sim", "spec"),
    "modules",  # the modules beside the packages
    "repository",  # what is not in the package: tools, pages, packaging
}


def folders_with_tests() -> list[Path]:
    return sorted({path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")})


def test_a_folder_of_tests_has_the_name_of_what_it_tests() -> None:
    strays = [
        folder.as_posix()
        for folder in folders_with_tests()
        if folder.parts[0] not in PROGRAMMES and not (PACKAGE / folder).is_dir()
    ]
    assert strays == []


def test_every_package_has_its_folder_of_tests() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages - {folder.parts[0] for folder in folders_with_tests()} == set()


def test_the_architecture_names_every_folder_that_mirrors_nothing() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [name for name in sorted(PROGRAMMES) if f"`tests/{name}`" not in page] == []
