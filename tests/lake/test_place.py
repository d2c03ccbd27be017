"""Paths and URIs of places."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.errors import ConfigurationError
from tandem.lake.place import Place, StorageOptions


@pytest.mark.parametrize(
    "text, shown",
    [
        ("/var/capture/", "/var/capture"),
        ("file:///var/capture", "/var/capture"),
        ("file:/var/a%20b", "/var/a b"),
        ("s3://lake/events/", "s3://lake/events"),
        ("s3a://lake/events", "s3://lake/events"),
        ("hdfs://nn:8020/cap", "hdfs://nn:8020/cap"),
        ("abfss://container@account.dfs.core.windows.net/x", "abfss://container@account.dfs.core.windows.net/x"),
    ],
)
def test_a_path_or_a_uri_is_kept_as_it_was_meant(text: str, shown: str) -> None:
    place = Place.parse(text)
    assert str(place) == shown
    assert str(place.child("orders")) == f"{shown}/orders"


def test_a_relative_path_is_of_this_folder() -> None:
    assert str(Place.parse("capture")) == str(Path.cwd() / "capture")


@pytest.mark.parametrize("text, hint", [("s3:///x", "has no bucket"), ("file://host/x", "file:///path")])
def test_a_uri_without_a_place_is_refused(text: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        Place.parse(text)


def test_options_of_a_store_are_given_or_come_from_the_environment() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "here"}
    options = StorageOptions.parse({"ENDPOINT": "http://minio:9000", "region": "there"}, environment)
    assert options == StorageOptions("http://minio:9000", "there", "a", "b")
    assert "b" not in repr(options).replace("http://", "")
    with pytest.raises(ConfigurationError, match="there is no storage option 'endpiont'"):
        StorageOptions.parse({"endpiont": "x"})


def test_a_small_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    place = Place.parse(tmp_path)
    assert place.read_text("notes/one.json") is None
    place.write_text("notes/one.json", "1")
    place.write_text("notes/one.json", "2")
    assert place.read_text("notes/one.json") == "2"
    assert [one.path for one in place.files()] == ["notes/one.json"]
    place.delete("notes/one.json")
    place.delete("notes/one.json")
    assert place.files("notes") == []
