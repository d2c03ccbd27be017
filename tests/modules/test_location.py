"""Files and folders by path or by URI."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.location import Location, LocationError, _ArrowFiles


@pytest.mark.parametrize(
    "text, joined",
    [
        ("out", "out/x/y"),
        ("/data/out/", "/data/out/x/y"),
        ("hdfs://nn:8020/cap", "hdfs://nn:8020/cap/x/y"),
        ("s3://bucket/", "s3://bucket/x/y"),
        ("file:///data/out", "file:///data/out/x/y"),
        ("abfs://files@account.dfs.core.windows.net/a b", "abfs://files@account.dfs.core.windows.net/a b/x/y"),
    ],
)
def test_a_location_keeps_its_text_and_can_be_extended(text: str, joined: str) -> None:
    assert str(Location(text)) == text
    assert str(Location(text) / "x" / "y") == joined
    assert (Location(text) / "x" / "y").name == "y"


def test_only_paths_and_file_uris_are_on_this_machine(tmp_path: Path) -> None:
    assert Location("C:\\data").scheme is None
    assert Location("out").local_path == Path("out")
    assert Location((tmp_path / "a b").as_uri()).local_path == tmp_path / "a b"
    for elsewhere in ("s3://bucket/out", "file://server/out"):
        with pytest.raises(LocationError, match="is not on this machine"):
            _ = Location(elsewhere).local_path


def test_equal_texts_are_equal_locations() -> None:
    assert Location("a") == Location(Path("a"))
    assert len({Location("a"), Location("a"), Location("b")}) == 2
    with pytest.raises(LocationError, match="a location is empty"):
        Location(" ")


@pytest.mark.parametrize("form", ["path", "uri"])
def test_files_of_this_machine_are_read_and_written(tmp_path: Path, form: str) -> None:
    folder = Location(tmp_path / "new" if form == "path" else (tmp_path / "new").as_uri())
    assert not folder.exists()
    assert folder.names() == []
    (folder / "b" / "note").write_text("grün")
    (folder / "a").write_text("")
    assert folder.names() == ["a", "b"]
    assert (folder / "b" / "note").read_text() == "grün"
    assert (tmp_path / "new" / "b" / "note").read_text(encoding="utf-8") == "grün"


def test_an_error_has_the_location_and_the_reason(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("grün".encode("latin-1"))
    with pytest.raises(LocationError, match=r"latin cannot be read: it is not UTF-8 text"):
        Location(tmp_path / "latin").read_text()
    with pytest.raises(LocationError, match=r"nothing cannot be read: No such file or directory"):
        Location(tmp_path / "nothing").read_text()
    with pytest.raises(LocationError, match="nosuchscheme://x/y cannot be looked up: Unrecognized filesystem type"):
        Location("nosuchscheme://x/y").exists()


def test_file_systems_of_arrow_are_read_and_written(tmp_path: Path) -> None:
    """Arrow's own local file system stands for those that need a network."""

    def files(name: str) -> _ArrowFiles:
        return _ArrowFiles((tmp_path / "made" / name).as_uri())

    assert files("x").names() == []
    assert not files("x").exists()
    files("x/note").write_bytes(b"1")
    assert files("x").names() == ["note"]
    assert files("x/note").exists()
    assert files("x/note").read_bytes() == b"1"
