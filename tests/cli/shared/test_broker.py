"""Which broker a command means that was not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.cli.shared.broker import broker_of
from tandem.connection_string import DEVELOPMENT_KEY, ConnectionString
from tandem.server.keys import DEFAULT_DATA_DIR, load_or_make_keys


def test_without_a_data_directory_it_is_that_for_development(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert broker_of(None).key == DEVELOPMENT_KEY


def test_the_keys_of_the_data_directory_in_this_folder_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rule = load_or_make_keys(DEFAULT_DATA_DIR, is_dev=False).get("RootManageSharedAccessKey")
    assert rule is not None
    assert broker_of(None).key == rule.primary_key
    given = str(ConnectionString("elsewhere", 1, "rule", "key"))
    assert broker_of(given).key == "key"
