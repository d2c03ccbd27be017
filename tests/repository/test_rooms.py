"""Where things are: tests mirror the package, and the names of neighbours tell them apart."""

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


# Endings that make another word of the same noun.
ENDINGS = ("ability", "ings", "ing", "ers", "er", "ions", "ion", "ies", "es", "s", "ed", "y", "e")


def noun(name: str) -> str:
    return next((name.removesuffix(one) for one in ENDINGS if name.endswith(one) and len(name) > len(one) + 2), name)


def test_no_two_neighbours_have_names_that_differ_only_by_an_ending() -> None:
    twins: list[list[str]] = []
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        names: dict[str, list[str]] = {}
        for path in sorted(folder.iterdir()):
            if path.suffix == ".py" or (path / "__init__.py").exists():
                names.setdefault(noun(path.stem), []).append(path.relative_to(PACKAGE).as_posix())
        twins += [those for those in names.values() if len(those) > 1]
    assert twins == []
