"""`tandem rule test` without a broker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.program import tandem, tandem_here


def tried(*arguments: str) -> tuple[int, Any]:
    done = tandem_here("rule", "test", *arguments, "--json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_a_match_is_explained_with_the_values_that_were_seen_and_what_changes() -> None:
    done = tandem(
        *("rule", "test", "--sql", "StoreName = 'Store1' AND n > 3", "--action", "SET n = n + 1; REMOVE StoreName"),
        *("--property", "StoreName=Store1", "--property", "n:int=4", "--system", "Label=x"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rstrip() for line in done.stdout.splitlines()] == [
        "result  because                       changes",
        "match   StoreName = 'Store1' is true  n: 4 -> 5",
        "          StoreName is 'Store1'       StoreName: 'Store1' -> (removed)",
        "        n > 3 is true",
        "          n is 4",
    ]


def test_no_match_is_explained_by_the_part_that_decided() -> None:
    done = tandem_here("rule", "test", "--sql", "a = 1 AND b = 2", "--property", "a:int=1", "--property", "b:int=3")
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.splitlines()[1:]] == [
        ["no", "match", "b", "=", "2", "is", "false", "-"],
        ["b", "is", "3"],
    ]


@pytest.mark.parametrize(
    "arguments, code",
    [
        (["--true"], 0),
        (["--false"], 1),
        (["--action", "SET a = 1"], 0),
        (["--sql", "a IS NULL"], 0),
        (["--sql", "a = 1"], 1),
        (["--sql", "a = 1", "--property", "a:int=1"], 0),
        (["--sql", "a = 1", "--property", "a=1"], 1),
        (["--sql", "EXISTS(a)", "--property", "a:null="], 0),
        (["--sql", "sys.Label LIKE 'v%'", "--system", "Label=vip"], 0),
        (["--sql", "sys.TimeToLive = @x"], 2),
        (["--correlation", "sys.Label=vip", "--system", "Label=vip"], 0),
        (["--correlation", "a:int=1", "--property", "a:double=1"], 1),
        (["--correlation", "a:datetime=2026-01-01", "--property", "a:datetime=2026-01-01T01:00:00+01:00"], 0),
        (["--correlation", "a:timespan=90s", "--property", "a:timespan=PT1M30S"], 0),
        (["--correlation", "a:decimal=1.5", "--property", "a:decimal=1.50"], 0),
        (["--sql", "a = newid()", "--property", "a=x"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_exit_code_says_whether_it_matches(arguments: list[str], code: int) -> None:
    assert tandem_here("rule", "test", *arguments).returncode == code


def test_json_has_the_outcome_the_reasons_and_the_changes() -> None:
    code, explained = tried("--sql", "n > 3", "--action", "SET at = '2026'", "--property", "n:int=4")
    assert code == 0
    assert explained == {
        "matches": True,
        "outcome": "true",
        "error": None,
        "reasons": [{"expression": "n > 3", "outcome": "true", "values": {"n": 4}}],
        "reason_lines": ["n > 3 is true", "  n is 4"],
        "changes": [{"property": "at", "before": None, "after": "2026"}],
        "change_lines": ["at: (none) -> '2026'"],
    }


@pytest.mark.parametrize("arguments", [["--sql", "1 / n = 1"], ["--true", "--action", "SET x = 1 / n"]])
def test_a_rule_that_fails_on_the_message_is_an_error_with_its_reason(arguments: list[str]) -> None:
    code, explained = tried(*arguments, "--property", "n:int=0")
    assert code == 2
    assert "division by zero" in explained["error"]
    table = tandem_here("rule", "test", *arguments, "--property", "n:int=0").stdout
    assert table.splitlines()[1].startswith("error")
    assert "division by zero" in table


def test_a_mistake_in_an_expression_is_shown_by_a_caret() -> None:
    done = tandem_here("rule", "test", "--sql", "StoreName == 'Store1'")
    assert (done.returncode, done.stdout) == (2, "")
    first, line, caret = done.stderr.splitlines()
    assert first.startswith("tandem: ")
    assert line[caret.index("^") :] == "= 'Store1'"


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ([], "nothing to test: give a rule"),
        (["--property", "a=1"], "nothing to test"),
        (["--true", "--false"], "a rule has one filter"),
        (["--true", "--topic", "t"], "leave out the filter and the action"),
        (["--true", "--subscription", "s"], "--subscription needs the --topic"),
        (["--true", "--property", "a"], "--property is 'a'; write NAME=VALUE"),
        (["--true", "--system", "Colour=red"], "there is no system property 'Colour'"),
        (["--colour"], "--colour"),
        (
            [
                "--topic",
                "t",
                "--connection-string",
                "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=a;SharedAccessKey=b",
            ],
            "no broker answers",
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_cannot_be_tested_is_one_line_and_exit_code_2(arguments: list[str], reason: str) -> None:
    done = tandem_here("rule", "test", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert reason in line


def test_help_tells_the_exit_codes_and_the_types() -> None:
    text = tandem_here("rule", "test", "--help").stdout
    assert "Exit codes:" in text
    assert "timespan" in text
    assert "tandem rule test --sql" in text
