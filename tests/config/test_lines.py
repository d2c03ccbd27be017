"""On which line of a configuration a mistake is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.config import read_configuration
from tandem.config.lines import Place, json_lines, line_of, toml_lines
from tandem.errors import ConfigurationError

TOML = '''# the first line
host = "a # b"  # [not.a.table]
text = """
port = 3
"""
"quoted.key" . 'more' = 1

[[queues]]
name = "a"
list = [
  { name = "x = 1" },  # ]
  [2, 3],
]
lock_duration_ms = 1

[[queues]]  # the second
name = 'b'

[[topics]]
[[topics.subscriptions]]
name = 's'
[[topics.subscriptions]]
[topics.subscriptions.extra]
deep.er = 1
[[topics]]
name = 'last'
'''

JSON = """{
  "UserConfig": {
    "Namespaces": [
      {"Name": "a:\\"{b", "Queues": [
        {"Name": "x"},
        {
          "Name": "y",
          "Properties":
            {"LockDuration": "PT1H"}}
      ]}
    ],
    "Empty": {}, "None": []
  }
}"""


@pytest.mark.parametrize(
    "place, line",
    [
        ("host", 2),
        ("text", 3),
        ("queues[0]", 8),
        ("queues[0].name", 9),
        ("queues[0].list", 10),
        ("queues[0].list[1]", 10),
        ("queues[0].lock_duration_ms", 14),
        ("queues[1]", 16),
        ("queues[1].name", 17),
        ("queues[1].missing", 16),
        ("topics[0]", 19),
        ("topics[0].subscriptions[0].name", 21),
        ("topics[0].subscriptions[1]", 22),
        ("topics[0].subscriptions[1].extra", 23),
        ("topics[0].subscriptions[1].extra.deep.er", 24),
        ("topics[1].name", 26),
        ("nowhere", None),
        ("the file", None),
    ],
)
def test_a_place_in_toml_is_on_a_line(place: str, line: int | None) -> None:
    tomllib.loads(TOML)
    assert line_of(place, toml_lines(TOML)) == line


def test_keys_in_quotes_are_read_as_toml_has_them() -> None:
    assert toml_lines(TOML)["quoted.key", "more"] == 6


@pytest.mark.parametrize(
    "place, line",
    [
        ("UserConfig", 2),
        ("UserConfig.Namespaces", 3),
        ("UserConfig.Namespaces[0].Name", 4),
        ("UserConfig.Namespaces[0].Queues[0]", 5),
        ("UserConfig.Namespaces[0].Queues[1]", 6),
        ("UserConfig.Namespaces[0].Queues[1].Name", 7),
        ("UserConfig.Namespaces[0].Queues[1].Properties", 8),
        ("UserConfig.Namespaces[0].Queues[1].Properties.LockDuration", 9),
        ("UserConfig.Namespaces[0].Queues[1].Missing", 6),
        ("UserConfig.Empty.x", 12),
        ("UserConfig.None[0]", 12),
    ],
)
def test_a_place_in_json_is_on_a_line(place: str, line: int) -> None:
    json.loads(JSON)
    assert line_of(place, json_lines(JSON)) == line


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


def places(value: Any, place: Place = ()) -> list[Place]:
    """Every value that is in it."""
    found = [place]
    if isinstance(value, dict):
        return found + [one for key, inner in value.items() for one in places(inner, (*place, key))]
    if isinstance(value, list):
        return found + [one for number, inner in enumerate(value) for one in places(inner, (*place, number))]
    return found


@given(VALUES)
def test_every_value_of_any_json_is_found_with_or_without_line_breaks(value: Any) -> None:
    for indent in (None, 1):
        text = json.dumps(value, indent=indent)
        lines = json_lines(text)
        assert set(lines) == set(places(value))
        assert set(lines.values()) <= set(range(1, text.count("\n") + 2))


@pytest.mark.parametrize(
    "name, text, reason",
    [
        ("a.toml", "\nport = 65_536", "line 2: port is 65536; it must be a whole number from 0 to 65,535"),
        ("a.toml", "host = 'a'\n\ncolour = 1", "line 3: colour is not a setting; those are namespace, host, port"),
        ("a.toml", "\n[[queues]]\nname = 'a'\n[[queues]]\nname = 'A'", "line 5: the queue, topic or hub 'A' is there"),
        (
            "a.toml",
            "[[queues]]\nname = 'a'\nlock = 1",
            "line 3: queues[0]: lock is not a property of a queue; those are",
        ),
        (
            "a.toml",
            "[[queues]]\nname = 'a'\nlock_duration_ms = 0",
            "line 3: queues[0]: lock_duration_ms is 0; it must be between 1000 and 300000",
        ),
        (
            "a.toml",
            "[[queues]]\nname = 'a'\nlock_duration = '10m'",
            "line 3: queues[0]: lock_duration is 10m; it must be between 1s and 5m",
        ),
        ("a.toml", "[[queues]]\n", "line 1: queues[0]: name is missing"),
        ("a.toml", "\nport = \n\n", "line 2"),
        ("a.toml", "[[namespace]]\nname = 'a'\n[[namespace]]\n", "line 3: namespace[1].name must be a text"),
        ("a.toml", "[[namespace]]\nname = 'a'\n[[namespace]]\nname = 'A'", "line 4: the namespace 'A' is there twice"),
        ("a.toml", "[[namespace]]\nname = 'a b'", "line 2: namespace[0].name is 'a b'; allowed are up to 50 letters"),
        (
            "a.toml",
            "[[namespace]]\nname = 'a'\nport = 1",
            "line 3: namespace[0].port is not a setting; those are name,",
        ),
        ("a.toml", "queues = []\n[[namespace]]\nname = 'a'", "line 1: queues must be in one of the namespaces"),
        ("a.toml", "namespace = []", "line 1: namespace has 0 entries; allowed are 1 to 50"),
        ("a.toml", "\n[[authorization_rules]]\nname = 'a'", "line 2: authorization_rules[0]: the rule.rights must be"),
        (
            "a.toml",
            "[[authorization_rules]]\nname = 'a'\nrights = ['Dance']",
            "line 1: authorization_rules[0]: the rule.rights: 'Dance' is none of Send, Listen, Manage",
        ),
        (
            "a.toml",
            "[[authorization_rules]]\nname = 'a'\nkey = 'x'",
            "line 3: authorization_rules[0].key is not a setting",
        ),
        (
            "a.json",
            '{"UserConfig": {"Namespaces": [\n{"Queues": [{"Name": "a", "Properties": {\n"LockDuration": "PT1H"}}]}]}}',
            "line 3: UserConfig.Namespaces[0].Queues[0]: LockDuration is PT1H; it must be between PT1S",
        ),
        (
            "a.json",
            '{"UserConfig": {"Namespaces": [\n{"Queues": [\n{"Name": "a",\n"Properties": {"LockDuration": "x"}}]}]}}',
            "line 4: UserConfig.Namespaces[0].Queues[0].Properties.LockDuration is 'x'; write a time",
        ),
        ("a.json", '{"UserConfig": {\n"Namespaces": []}}', "line 2: UserConfig.Namespaces has 0 entries"),
        ("a.json", "{\n", "line 2 column 1"),
        ("a.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_mistake_is_told_with_file_line_key_and_what_is_allowed(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError) as refusal:
        read_configuration(tmp_path / name)
    assert str(refusal.value).startswith(f"--config {tmp_path / name}")
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)
