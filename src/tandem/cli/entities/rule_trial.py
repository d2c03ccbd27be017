"""`tandem rule test`: what rules do with a message of given properties, and why."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tandem.cli.entities.rule import app, rule_fields
from tandem.cli.shared.broker import management
from tandem.cli.shared.commands import failing_with, made_by
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection, MessageProperties
from tandem.cli.shared.output import neutral_lines, print_json, print_table
from tandem.cli.shared.properties import parse_properties
from tandem.engine.rule import Rule
from tandem.management.client import EntityFields
from tandem.management.explaining import explain_rule, subject_of

__all__ = ["app", "try_rule"]

# Exit codes.
_MATCH: Final = 0
_NO_MATCH: Final = 1
_ERROR: Final = 2

_HEADINGS: Final = ("result", "because", "changes")

Topic = Annotated[str | None, typer.Option(metavar="TOPIC", help="Try the rules of this topic of a running broker.")]
OnlySubscription = Annotated[
    str | None, typer.Option("--subscription", metavar="NAME", help="Only those of this subscription.")
]
System = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="A system property: Label, MessageId, CorrelationId, SessionId, To, ContentType, ..."
    ),
]


@app.command("test")
@failing_with(_ERROR)
@made_by(rule_fields, "fields")
def try_rule(
    fields: EntityFields,
    topic: Topic = None,
    subscription: OnlySubscription = None,
    properties: MessageProperties = None,
    system: System = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Try a rule on a message, without a broker; or with --topic all rules of a running broker's topic.

    It prints whether the rule selects the message, which part of the filter decided, the values that it saw, and what
    the action would change. Nothing is sent and nothing is changed.

    \b
    Exit codes:
      0   the rule selects the message; with --topic: a rule of any subscription does
      1   no rule selects it
      2   it cannot be told: a mistake in the rule (a caret shows where), in the options, or no broker

    \b
    Examples:
      tandem rule test --sql "StoreName = 'Store1'" --property StoreName=Store1
      tandem rule test --sql "n > 3" --action "SET n = n + 1" --property n:int=4
      tandem rule test --correlation sys.Label=vip --system Label=vip
      tandem rule test --topic orders --property amount:int=1200 --system Label=vip
    """
    message: EntityFields = {
        "properties": parse_properties(properties or [], "--property"),
        "system": parse_properties(system or [], "--system"),
    }
    if topic is not None:
        if fields:
            raise CommandFailed("--topic tries the rules that the topic has: leave out the filter and the action")
        code = _test_topic(topic, subscription, message, connection_string, as_json)
    else:
        if subscription is not None:
            raise CommandFailed("--subscription needs the --topic that it is of")
        if not fields:
            raise CommandFailed('nothing to test: give a rule, such as --sql "n > 3", or --topic TOPIC')
        code = _test_offline(fields, message, as_json)
    raise typer.Exit(code)


def _test_offline(fields: EntityFields, message: EntityFields, as_json: bool) -> int:
    rule = Rule.from_fields("test", fields, 0)
    explained = explain_rule(rule.filter, rule.action, subject_of(message))
    if as_json:
        print_json(explained)
    else:
        print_table(_HEADINGS, [_cells(explained)])
    return _code([explained])


def _test_topic(
    topic: str, subscription: str | None, message: EntityFields, connection_string: str | None, as_json: bool
) -> int:
    body = message if subscription is None else {**message, "subscription": subscription}
    with management(connection_string, "rule") as client:
        subscriptions = list(client.explain(topic, body))
    if as_json:
        print_json({"topic_name": topic, "subscriptions": subscriptions})
    elif not subscriptions:
        typer.echo(f"The topic {topic} has no subscriptions. `tandem subscription create {topic} NAME` makes one.")
    else:
        print_table(("subscription", "rule", *_HEADINGS), [row for one in subscriptions for row in _rows(one)])
    return _code([explained for one in subscriptions for explained in one["rules"]])


def _rows(subscription: EntityFields) -> list[tuple[str, ...]]:
    name = subscription["name"]
    rows: list[tuple[str, ...]] = [
        ("" if number else name, explained["name"], *_cells(explained))
        for number, explained in enumerate(subscription["rules"])
    ]
    return rows or [(name, "-", "no match", "it has no rules", "")]


def _cells(explained: EntityFields) -> tuple[str, str, str]:
    error = explained["error"]
    result = "match" if explained["matches"] else "no match"
    because = [*explained["reason_lines"]]
    if error is not None:
        result = "error"
        because.append(error)
    return result, neutral_lines("\n".join(because)), neutral_lines("\n".join(explained["change_lines"])) or "-"


def _code(explained: list[EntityFields]) -> int:
    if any(one["matches"] and one["error"] is None for one in explained):
        return _MATCH
    return _ERROR if any(one["error"] is not None for one in explained) else _NO_MATCH
