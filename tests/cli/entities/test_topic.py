"""`tandem topic`, `tandem subscription` and `tandem rule` against a running broker."""

from __future__ import annotations

import json

import pytest

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient
from tests.cli.program import Commands, tandem_here


@pytest.fixture
def topics(connection_string: ConnectionString) -> Commands:
    return Commands(connection_string, "topic")


@pytest.fixture
def subscriptions(connection_string: ConnectionString) -> Commands:
    return Commands(connection_string, "subscription")


@pytest.fixture
def rules(connection_string: ConnectionString) -> Commands:
    return Commands(connection_string, "rule")


@pytest.fixture(scope="module")
def there(connection_string: ConnectionString) -> str:
    """A topic with the subscriptions `all` and `some`."""
    client = ManagementClient(connection_string)
    client.topics.create("there", {})
    client.subscriptions("there").create("all", {})
    large = {"name": "large", "filter": {"kind": "sql", "expression": "amount > 1000"}}
    act = {"name": "vip", "filter": {"kind": "correlation", "label": "vip"}, "action": {"expression": "SET tier = 1"}}
    client.subscriptions("there").create("some", {"rules": [large, act]})
    return "there"


# --- topics ---------------------------------------------------------------------------------------------------------


def test_a_topic_is_created_listed_shown_updated_and_deleted(topics: Commands) -> None:
    name = "trip/orders"
    created = topics.json("create", name, "--requires-duplicate-detection", "--default-message-time-to-live", "PT1H")
    assert created["name"] == name
    assert created["requires_duplicate_detection"] is True
    assert created["default_message_time_to_live_ms"] == 3_600_000
    assert topics.json("show", name) == created
    assert created in topics.json("list")["topics"]
    updated = topics.json("update", name, "--default-message-time-to-live", "never", "--status", "SendDisabled")
    assert (updated["default_message_time_to_live_ms"], updated["status"]) == (None, "SendDisabled")
    assert topics.json("delete", name) == {"name": name, "is_deleted": True}
    assert name not in topics.run("list")


def test_without_json_topics_are_sentences_and_tables(topics: Commands) -> None:
    assert topics.run("create", "people").strip() == "created the topic people"
    assert topics.run("update", "people", "--user-metadata", "[bold]").strip() == "updated the topic people"
    shown = dict(line.split("  ", 1) for line in topics.run("show", "people").splitlines())
    assert shown["user metadata"].strip() == "[bold]"
    assert shown["subscription count"].strip() == "0"
    heading, *rows = topics.run("list").splitlines()
    assert heading.split() == ["topic", "status", "subscriptions", "scheduled", "bytes"]
    assert ["people", "Active", "0", "0", "0"] in [row.split() for row in rows]
    assert topics.run("delete", "people").strip() == "deleted the topic people"


# --- subscriptions --------------------------------------------------------------------------------------------------


def test_a_subscription_is_created_listed_shown_updated_and_deleted(topics: Commands, subscriptions: Commands) -> None:
    topics.run("create", "trip/prices")
    place = ("trip/prices", "europe")
    created = subscriptions.json("create", *place, "--lock-duration", "30s", "--requires-session")
    assert (created["topic_name"], created["name"]) == place
    assert (created["lock_duration_ms"], created["requires_session"]) == (30_000, True)
    assert subscriptions.json("show", *place) == created
    assert subscriptions.json("list", "trip/prices") == {"subscriptions": [created]}
    updated = subscriptions.json("update", *place, "--no-dead-lettering-on-filter-evaluation-exceptions")
    assert updated["dead_lettering_on_filter_evaluation_exceptions"] is False
    assert updated["lock_duration_ms"] == 30_000
    deleted = {"topic_name": "trip/prices", "name": "europe", "is_deleted": True}
    assert subscriptions.json("delete", *place) == deleted
    assert "There are no subscriptions" in subscriptions.run("list", "trip/prices")


def test_without_json_subscriptions_are_sentences_and_tables(there: str, subscriptions: Commands) -> None:
    path = f"{there}/Subscriptions/words"
    assert subscriptions.run("create", there, "words").strip() == f"created the subscription {path}"
    assert subscriptions.run("update", there, "words", "--max-delivery-count", "3").strip().endswith(path)
    heading, *rows = subscriptions.run("list", there).splitlines()
    assert heading.split()[:3] == ["subscription", "status", "active"]
    assert ["words", "Active", "0", "0", "0", "0", "0"] in [row.split() for row in rows]
    assert "max delivery count" in subscriptions.run("show", there, "words")
    assert subscriptions.run("delete", there, "words").strip() == f"deleted the subscription {path}"


# --- rules ----------------------------------------------------------------------------------------------------------


def test_a_rule_is_created_listed_shown_updated_and_deleted(there: str, rules: Commands) -> None:
    place = (there, "all", "one")
    created = rules.json("create", *place, "--sql", "amount > 5", "--action", "SET x = 1; REMOVE y")
    assert created["filter"] == {"kind": "sql", "expression": "amount > 5", "parameters": {}}
    assert created["action"]["expression"] == "SET x = 1; REMOVE y"
    assert rules.json("show", *place) == created
    listed = rules.json("list", there, "all")["rules"]
    assert [rule["name"] for rule in listed] == ["$Default", "one"]
    updated = rules.json("update", *place, "--false")
    assert (updated["filter"], updated["action"]) == ({"kind": "false"}, created["action"])
    assert rules.json("update", *place, "--action", "")["action"] is None
    assert rules.json("delete", *place)["is_deleted"] is True
    assert [rule["name"] for rule in rules.json("list", there, "all")["rules"]] == ["$Default"]


def test_without_json_rules_are_sentences_and_tables(there: str, rules: Commands) -> None:
    options = ("--correlation", "sys.Label=[vip]", "--correlation", "tier:int=1", "--action", "SET seen = TRUE")
    sentence = rules.run("create", there, "all", "words", *options).strip()
    words = "sys.Label = '[vip]' AND tier = 1"
    assert sentence == f"created the rule words of {there}/Subscriptions/all: {words}, then SET seen = TRUE"
    rows = [line.split(maxsplit=1) for line in rules.run("list", there, "all").splitlines()]
    assert ["$Default", "every message"] in [[name, rest.rstrip(" -")] for name, rest in rows]
    assert any(name == "words" and rest.startswith(words) for name, rest in rows)
    assert words in rules.run("show", there, "all", "words")
    assert rules.run("update", there, "all", "words", "--false").strip().endswith(": no message, then SET seen = TRUE")
    assert rules.run("delete", there, "all", "words").strip() == f"deleted the rule words of {there}/Subscriptions/all"


def test_a_subscription_without_rules_says_that_it_gets_nothing(
    there: str, rules: Commands, subscriptions: Commands
) -> None:
    subscriptions.run("create", there, "empty")
    rules.run("delete", there, "empty", "$Default")
    assert "gets nothing" in rules.run("list", there, "empty")
    subscriptions.run("delete", there, "empty")


def test_a_correlation_names_system_properties_and_the_types_of_values(there: str, rules: Commands) -> None:
    given = {
        "sys.CorrelationId": "a",
        "sys.message_id": "b",
        "SYS.To": "c",
        "sys.ReplyTo": "d",
        "sys.Subject": "e",
        "sys.SessionId": "f",
        "sys.ReplyToSessionId": "g",
        "sys.ContentType": "h",
        "text": "x=y",
        "a:b:string": "1",
        "n:int": "-3",
        "x:double": "1.5",
        "yes:bool": "true",
        "price:decimal": "1.50",
        "at:datetime": "2026-01-01T00:00:00Z",
        "span:timespan": "1m30s",
        "id:uuid": "00000000-0000-0000-0000-000000000001",
        "blob:binary": "00ff",
    }
    options = [part for name, value in given.items() for part in ("--correlation", f"{name}={value}")]
    condition = rules.json("create", there, "all", "typed", *options)["filter"]
    rules.run("delete", there, "all", "typed")
    properties = condition.pop("properties")
    assert condition == {
        "kind": "correlation",
        "correlation_id": "a",
        "message_id": "b",
        "to": "c",
        "reply_to": "d",
        "label": "e",
        "session_id": "f",
        "reply_to_session_id": "g",
        "content_type": "h",
    }
    assert properties == {
        "text": "x=y",
        "a:b": "1",
        "n": -3,
        "x": 1.5,
        "yes": True,
        "price": {"decimal": "1.50"},
        "at": {"datetime": 639_028_224_000_000_000},
        "span": {"timespan": 900_000_000},
        "id": {"uuid": "00000000-0000-0000-0000-000000000001"},
        "blob": {"binary": "00ff"},
    }


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("there")
@pytest.mark.parametrize(
    "arguments, reason, advice",
    [
        ("topic show missing", "'missing' could not be found", "tandem topic list"),
        ("topic create there", "'there' exists already", "tandem topic update"),
        ("topic update there", "nothing to change", "--default-message-time-to-live 7d"),
        ("topic create a --status ReceiveDisabled", "status is 'ReceiveDisabled'", "SendDisabled"),
        ("subscription create missing s", "'missing' could not be found", "tandem topic list"),
        ("subscription list missing", "'missing' could not be found", "tandem topic list"),
        ("subscription create there all", "'there/Subscriptions/all' exists already", "tandem subscription update"),
        ("subscription update there all", "nothing to change", "--lock-duration 30s"),
        ("subscription create there a/b", "name 'a/b'", "letters"),
        ("rule show there all missing", "rules/missing' could not be found", "tandem rule list TOPIC SUBSCRIPTION"),
        ("rule create there all r", "needs a filter", "--sql"),
        ("rule create there all r --true --false", "has one filter", "--correlation"),
        ("rule create there some large --true", "'large' exists already", "tandem rule update"),
        ("rule update there some large", "nothing to change", "--sql"),
        ("rule create there all r --correlation a", "--correlation is 'a'", "NAME=VALUE"),
        ("rule create there all r --correlation =a", "--correlation is '=a'", "NAME=VALUE"),
        ("rule create there all r --correlation a=1 --correlation a:int=1", "names 'a' twice", ""),
        ("rule create there all r --correlation a:colour=1", "'colour' is no type", "string, int, double"),
        ("rule create there all r --correlation a:int=x", "'x' cannot be read as int", ""),
        ("rule create there all r --correlation a:int=" + "9" * 21, "cannot be read as int", ""),
        ("rule create there all r --correlation a:double=nan", "'nan' cannot be read as double", ""),
        ("rule create there all r --correlation a:bool=1", "'1' cannot be read as bool", ""),
        ("rule create there all r --correlation a:datetime=noon", "'noon' cannot be read as datetime", ""),
        ("rule create there all r --correlation a:null=x", "'x' cannot be read as null", ""),
        ("rule create there all r --correlation a:timespan=never", "cannot be read as timespan", ""),
        ("rule create there all r --correlation a:timespan=soon", "timespan is 'soon'", "30s"),
        ("rule create there all r --correlation a:uuid=x", "filter.properties.a is not a uuid: 'x'", ""),
        ("rule create there all r --correlation sys.Colour=x", "'sys.Colour' is none of the system", "sys.Label"),
        ("rule create there all r --correlation sys.Label:int=1", "filter.label must be a text, got 1", ""),
    ],
)
def test_a_refusal_is_one_line_that_says_what_to_do(
    connection_string: ConnectionString, arguments: str, reason: str, advice: str
) -> None:
    group, *rest = arguments.split()
    line = Commands(connection_string, group).refusal(*rest)
    assert reason in line
    assert advice in line.partition(reason)[2]


def test_a_mistake_in_an_expression_is_shown_by_a_caret(there: str, rules: Commands) -> None:
    done = rules.done("create", there, "all", "r", "--sql", "amount >> 5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1:] == ["  amount >> 5", "          ^"]


@pytest.mark.parametrize("group", ["topic", "subscription", "rule"])
def test_help_has_an_example_and_no_name_is_cut_off(group: str) -> None:
    for command in ("create", "update"):
        text = tandem_here(group, command, "--help").stdout
        assert f"tandem {group} {command} orders" in text
        assert "…" not in text
    assert "--connection-string" in tandem_here(group, "--help").stdout


# --- tandem rule test, online ---------------------------------------------------------------------------------------


def test_all_rules_of_a_topic_are_tried_on_a_message(there: str, rules: Commands) -> None:
    done = rules.done("test", "--topic", there, "--property", "amount:int=5", "--system", "Label=vip")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert lines[0].split() == ["subscription", "rule", "result", "because", "changes"]
    table = "\n".join(lines)
    assert "every message is selected" in table
    assert "no match  amount > 1000 is false" in table
    assert "amount is 5" in table
    assert "sys.Label = 'vip' is true" in table
    assert "tier: (none) -> 1" in table
    assert "RuleName: (none) -> 'vip'" in table


def test_one_subscription_is_tried_and_the_exit_code_says_what_came_of_it(there: str, rules: Commands) -> None:
    def tried(*arguments: str) -> tuple[int, dict[str, bool]]:
        done = rules.done("test", "--topic", there, "--subscription", "some", "--json", *arguments)
        assert done.stderr == ""
        (subscription,) = json.loads(done.stdout)["subscriptions"]
        return done.returncode, {rule["name"]: rule["matches"] for rule in subscription["rules"]}

    assert tried("--property", "amount:int=1200") == (0, {"large": True, "vip": False})
    assert tried("--property", "amount=1200") == (1, {"large": False, "vip": False})
    for arguments in (("--topic", "missing"), ("--topic", there, "--subscription", "missing")):
        refused = rules.done("test", *arguments)
        assert refused.returncode == 2
        assert "could not be found" in refused.stderr


def test_a_topic_without_subscriptions_selects_nothing(topics: Commands, rules: Commands) -> None:
    topics.run("create", "lonely")
    done = rules.done("test", "--topic", "lonely")
    assert done.returncode == 1
    assert "tandem subscription create lonely NAME" in done.stdout
