"""Where the keys of a broker are kept."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tandem.auth import AuthorizationRule, KeyRing, Resource, Right, make_token, verify
from tandem.connection_string import ROOT_RULE_NAME
from tandem.errors import ConfigurationError
from tandem.server.keys import find_damaged_keys, load_or_make_keys, protect_keys
from tandem.store.quarantine import read_reports


def primary_key(keys: KeyRing) -> str:
    rule = keys.get(ROOT_RULE_NAME)
    assert rule is not None
    return rule.primary_key


def test_keys_are_made_once_and_kept(tmp_path: Path) -> None:
    made = load_or_make_keys(tmp_path / "new" / "data", is_dev=False)
    assert load_or_make_keys(tmp_path / "new" / "data", is_dev=False).to_dict() == made.to_dict()
    other = load_or_make_keys(tmp_path / "other", is_dev=False)
    assert primary_key(other) != primary_key(made)


def test_made_keys_open_the_whole_namespace(tmp_path: Path) -> None:
    keys = load_or_make_keys(tmp_path, is_dev=False)
    (rule,) = keys
    assert len(set(rule.keys)) == 2
    for key in rule.keys:
        token = make_token("sb://bus/", rule.name, key, 2_000)
        claims = verify(token, "sb://bus/orders", Resource("orders", "orders"), keys, 1_000)
        assert Right.MANAGE in claims.rights


def test_only_the_owner_can_read_them_and_no_draft_is_left(tmp_path: Path) -> None:
    load_or_make_keys(tmp_path, is_dev=False)
    (path,) = tmp_path.iterdir()
    assert path.name == "keys.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_development_has_the_key_of_the_official_emulator_and_writes_nothing(tmp_path: Path) -> None:
    assert primary_key(load_or_make_keys(tmp_path / "data", is_dev=True)) == "SAS_KEY_VALUE"
    assert not (tmp_path / "data").exists()


def test_those_who_make_keys_at_the_same_moment_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every one of them finds no keys, as if all had looked before the first had written.
    real_exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name != "keys.json" and real_exists(path))
    monkeypatch.setattr("os.getpid", iter(range(1_000, 2_000)).__next__)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: primary_key(load_or_make_keys(tmp_path, is_dev=False)), range(8)))
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    "content, reason",
    [
        ("", "not the JSON"),
        ('{"rules": [', "not the JSON"),
        ("[]", "list of rules"),
        (json.dumps({"rules": [{"name": "", "rights": ["Send"], "primary_key": "key"}]}), "name has 0 characters"),
    ],
)
def test_a_file_that_is_no_key_ring_is_refused_by_its_name(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "keys.json").write_text(content)
    with pytest.raises(ConfigurationError, match=reason) as refusal:
        load_or_make_keys(tmp_path, is_dev=False)
    assert str(tmp_path / "keys.json") in str(refusal.value)
    # What cannot be read is not replaced: clients hold these keys.
    assert (tmp_path / "keys.json").read_text() == content


@pytest.mark.parametrize("name", ["keys.json", "keys.json.copy"])
@pytest.mark.parametrize("damage", ["flip", "zeros", "cut", "missing"])
def test_keys_of_which_one_file_is_damaged_are_mended_and_reported(tmp_path: Path, name: str, damage: str) -> None:
    made = load_or_make_keys(tmp_path, is_dev=False)
    assert protect_keys(tmp_path) == []
    path = tmp_path / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "flip":
        # In the middle of a key: the JSON stays valid.
        at = content.index(primary_key(made).encode()) + 5
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    else:
        path.write_bytes(content[:60] if damage == "cut" else bytes(len(content)))
    is_harmless = damage == "missing" and name == "keys.json.copy"
    assert bool(find_damaged_keys(tmp_path)) is not is_harmless
    assert load_or_make_keys(tmp_path, is_dev=False).to_dict() == made.to_dict(), "clients hold these keys"
    damages = protect_keys(tmp_path)
    assert [one.unit for one in damages] == ([] if is_harmless else [f"the file '{name}'"])
    assert path.read_bytes() == content
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert protect_keys(tmp_path) == []
    assert len(read_reports(tmp_path)) == len(damages)


def test_keys_that_are_edited_by_hand_count_when_their_checksum_is_removed(tmp_path: Path) -> None:
    load_or_make_keys(tmp_path, is_dev=False)
    protect_keys(tmp_path)
    path = tmp_path / "keys.json"
    edited = KeyRing([AuthorizationRule("mine", Right.SEND, "my key")])
    path.write_text(json.dumps(edited.to_dict()))
    assert load_or_make_keys(tmp_path, is_dev=False).to_dict() == edited.to_dict()
    assert protect_keys(tmp_path) == []
    assert "checksum" in json.loads(path.read_text())
    path.unlink()
    assert load_or_make_keys(tmp_path, is_dev=False).to_dict() == edited.to_dict()


def test_a_directory_that_cannot_be_made_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="Not a directory"):
        load_or_make_keys(tmp_path / "file" / "data", is_dev=False)
