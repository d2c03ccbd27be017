"""`tandem rule`: create, list, show, update, delete and test rules of a subscription."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tandem.addresses import subscription_path
from tandem.cli.entities.entity_commands import EntityCommands, Managed, Place
from tandem.cli.shared.broker import management
from tandem.cli.shared.commands import made_by
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection, TopicName
from tandem.cli.shared.output import neutral, print_done, print_json, print_properties, print_table
from tandem.cli.shared.properties import parse_properties
from tandem.engine.rule import CORRELATION_FIELDS, Rule
from tandem.errors import ArgumentError
from tandem.management.client import EntityFields
from tandem.rules import CorrelationFilter, FalseFilter, SqlAction, SqlFilter
from tandem.rules.values import rule_value, shown

__all__ = ["app", "rule_fields"]

# What is in front of the name of a system property, in rules and here.
_SYSTEM_PREFIX: Final = "sys."

Subscription = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The name of the subscription.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the rule, at most 50 characters.")]
Sql = Annotated[
    str | None,
    typer.Option(metavar="EXPRESSION", help="Select messages for which this is true, as in a WHERE clause of SQL."),
]
Correlation = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help=(
            "Select messages whose property is equal, in type and value; given many times: all of them. NAME is a "
            "property of the user, or sys.Label, sys.CorrelationId and so on; NAME:int=3 for a number."
        ),
    ),
]
IsTrue = Annotated[bool, typer.Option("--true", help="Select every message.")]
IsFalse = Annotated[bool, typer.Option("--false", help="Select no message.")]
Action = Annotated[
    str | None,
    typer.Option(
        metavar="STATEMENTS", help="Change the copy: SET name = value; REMOVE name. On update '' takes it back."
    ),
]


_commands = EntityCommands(
    "rule",
    {"topic": TopicName, "subscription": Subscription, "name": Name},
    "Create, list, show, update, delete and test rules of a subscription.",
    "A rule has a filter, which selects messages by their properties, and perhaps an action, which changes the "
    "subscription's copy. A subscription gets a message if any of its rules selects it. `tandem rule test` shows what "
    "a rule does, and why, before you rely on it.",
)
app = _commands.app


# --- what was given -------------------------------------------------------------------------------------------------


def rule_fields(
    sql: Sql = None,
    correlation: Correlation = None,
    is_true: IsTrue = False,
    is_false: IsFalse = False,
    action: Action = None,
) -> EntityFields:
    """Return the filter and the action that were given, in the form of the JSON API."""
    filters: list[EntityFields] = []
    if sql is not None:
        filters.append({"kind": "sql", "expression": sql})
    if correlation:
        filters.append(_correlation_filter(correlation))
    if is_true:
        filters.append({"kind": "true"})
    if is_false:
        filters.append({"kind": "false"})
    if len(filters) > 1:
        raise CommandFailed("a rule has one filter: give one of --sql, --correlation, --true and --false")
    fields: EntityFields = {"filter": filters[0]} if filters else {}
    if action is not None:
        fields["action"] = {"expression": action} if action.strip() else None
    return fields


def _correlation_filter(texts: list[str]) -> EntityFields:
    fields: EntityFields = {"kind": "correlation"}
    properties: dict[str, object] = {}
    # The SDKs call the label a subject.
    system = {field.replace("_", ""): field for field in CORRELATION_FIELDS} | {"subject": "label"}
    for name, value in parse_properties(texts, "--correlation").items():
        if not name.lower().startswith(_SYSTEM_PREFIX):
            properties[name] = value
            continue
        field = system.get(name[len(_SYSTEM_PREFIX) :].lower().replace("_", ""))
        if field is None:
            raise ArgumentError(
                f"--correlation {name!r:.80} is none of the system properties that can be compared: "
                "sys.CorrelationId, sys.MessageId, sys.To, sys.ReplyTo, sys.Label, sys.SessionId, "
                "sys.ReplyToSessionId and sys.ContentType"
            )
        fields[field] = value
    return {**fields, "properties": properties}


# --- commands -------------------------------------------------------------------------------------------------------


@app.command("create")
@made_by(rule_fields, "fields")
@_commands.with_place
def create_rule(
    place: Place, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Create a rule: one of --sql, --correlation, --true and --false, and perhaps an --action.

    It counts from the next message on. A new subscription has the rule $Default, which selects everything: delete it to
    get only what your own rules select.

    \b
    Examples:
      tandem rule create orders billing large --sql "amount > 1000 AND country IN ('de', 'at')"
      tandem rule create orders billing vip --correlation sys.Label=vip --correlation tier:int=1
      tandem rule create orders audit stamp --true --action "SET audited = TRUE; REMOVE secret"
    """
    rule = Managed("rule", *place)
    if "filter" not in fields:
        raise CommandFailed(f"the rule {rule.name!r} needs a filter: one of --sql, --correlation, --true and --false")
    created = rule.create(fields, connection_string)
    print_done(f"created the {rule.title}: {_in_words(created)}", created, as_json)


@app.command("update")
@made_by(rule_fields, "fields")
@_commands.with_place
def update_rule(
    place: Place, fields: EntityFields, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Give a rule another filter, another action or both; what is not named stays as it is.

    No message falls between the old rule and the new one.

    \b
    Examples:
      tandem rule update orders billing large --sql "amount > 5000"
      tandem rule update orders audit stamp --action ''
    """
    rule = Managed("rule", *place)
    updated = rule.update(fields, '--sql "amount > 1000"', connection_string)
    print_done(f"updated the {rule.title}: {_in_words(updated)}", updated, as_json)


@app.command("list")
@_commands.with_parents
def list_rules(parents: Place, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List the rules of a subscription."""
    with management(connection_string, "rule") as client:
        rules = list(client.rules(*parents).list_all())
    if as_json:
        print_json({"rules": rules})
    elif not rules:
        typer.echo(f"There are no rules: {subscription_path(*parents)} gets nothing.")
    else:
        print_table(("rule", "filter", "action"), [(rule["name"], *_cells(rule)) for rule in rules])


@app.command("show")
@_commands.with_place
def show_rule(place: Place, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show a rule."""
    rule = Managed("rule", *place).show(connection_string)
    condition, action = _texts(rule)
    print_properties(rule if as_json else {**rule, "filter": condition, "action": action}, as_json)


_commands.add_delete(
    """Delete a rule. Messages that it has selected stay in the subscription.

    \b
    Examples:
      tandem rule delete orders billing '$Default'
    """
)


# --- in words -------------------------------------------------------------------------------------------------------


def _in_words(fields: EntityFields) -> str:
    condition, action = _texts(fields)
    return condition if action is None else f"{condition}, then {action}"


def _cells(fields: EntityFields) -> tuple[str, str]:
    condition, action = _texts(fields)
    return neutral(condition), "-" if action is None else neutral(action)


def _texts(fields: EntityFields) -> tuple[str, str | None]:
    """The filter and the action as people write them."""
    rule = Rule.from_fields(fields["name"], {key: fields[key] for key in ("filter", "action")}, 0)
    action = None if rule.action is None else _with_parameters(rule.action)
    condition = rule.filter
    if isinstance(condition, SqlFilter):
        return _with_parameters(condition), action
    if isinstance(condition, CorrelationFilter):
        return str(condition), action
    return "no message" if isinstance(condition, FalseFilter) else "every message", action


def _with_parameters(written: SqlFilter | SqlAction) -> str:
    values = ", ".join(f"{name} is {shown(rule_value(value))}" for name, value in written.parameters.items())
    return f"{written.expression} ({values})" if values else written.expression
