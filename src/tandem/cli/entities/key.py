"""`tandem key`: shared access rules of a namespace or an entity, and their keys."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Final

import typer

from tandem.cli.shared.broker import MANAGING_HELP, broker_of, management
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import neutral, print_done, print_json, print_table
from tandem.connection_string import ConnectionString
from tandem.management.client import EntityFields

__all__ = ["app"]

app = command_group(
    "List, create, rotate and delete shared access rules.",
    "A rule has a name, rights (Send, Listen, Manage) and two keys; whoever has one of them has the rights, in the "
    "whole namespace or for one queue or topic. Two, so that one can be made anew while clients use the other. A "
    "broker that was started with --dev forgets rules of the namespace when it stops.",
    MANAGING_HELP,
)

# Names for this machine: only here does a name in front of them lead to the same broker.
_LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")


class Right(enum.Enum):
    """What a rule allows."""

    SEND = "Send"
    LISTEN = "Listen"
    MANAGE = "Manage"


class WhichKey(enum.Enum):
    """One of the two."""

    PRIMARY = "primary"
    SECONDARY = "secondary"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the rule.")]
Namespace = Annotated[
    str | None,
    typer.Option(help="One of several namespaces of a broker on this machine.", show_default="as the connection says"),
]
EntityOption = Annotated[
    str | None, typer.Option("--entity", metavar="PATH", help="Rules of this queue or topic, not of the namespace.")
]


@app.command("list")
def list_rules(
    show_keys: Annotated[bool, typer.Option("--show-keys", help="With the keys, which are secrets.")] = False,
    namespace: Namespace = None,
    entity: EntityOption = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """List the rules of the namespace or of an entity."""
    with management(_chosen(connection_string, namespace), "key") as client:
        rules = client.authorization_rules(entity).list_all()
    if not show_keys:
        hidden = ("primary_key", "secondary_key")
        rules = [{name: value for name, value in rule.items() if name not in hidden} for rule in rules]
    if as_json:
        print_json({"authorization_rules": rules})
    elif not rules:
        typer.echo(f"There are no rules of {entity}: those of the namespace count.")
    else:
        headings = ("rule", "rights", *(("primary key", "secondary key") if show_keys else ()))
        rows = [
            (
                neutral(rule["name"]),
                ", ".join(rule["rights"]),
                *([rule["primary_key"], rule["secondary_key"] or "-"] if show_keys else []),
            )
            for rule in rules
        ]
        print_table(headings, rows, unbroken=("rights",))


@app.command("create")
def create_rule(
    name: Name,
    rights: Annotated[
        list[Right],
        typer.Option("--right", metavar="Send|Listen|Manage", help="What it allows; many times if need be."),
    ],
    namespace: Namespace = None,
    entity: EntityOption = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Create a rule with two new keys, and print the connection string of who may use it.

    \b
    Examples:
      tandem key create readers --right Listen
      tandem key create shop --right Send --entity orders
    """
    chosen = _chosen(connection_string, namespace)
    with management(chosen, "key") as client:
        rule = client.authorization_rules(entity).create(name, {"rights": [right.value for right in rights]})
    _print_rule(f"created the rule {name} ({', '.join(rule['rights'])})", rule, "primary_key", chosen, as_json)


@app.command("rotate")
def rotate_key(
    name: Name,
    which: Annotated[
        WhichKey, typer.Option("--key", metavar="primary|secondary", help="The key that is made anew.")
    ] = WhichKey.PRIMARY,
    namespace: Namespace = None,
    entity: EntityOption = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Make one key of a rule anew, and print the connection string with it.

    The old key proves nothing from now on: give clients the other one first. Connections that are open go on until
    their tokens end.

    \b
    Examples:
      tandem key rotate readers
      tandem key rotate readers --key secondary
    """
    chosen = _chosen(connection_string, namespace)
    with management(chosen, "key") as client:
        rule = client.authorization_rules(entity).rotate(name, which.value)
    _print_rule(f"made the {which.value} key of {name} anew", rule, f"{which.value}_key", chosen, as_json)


@app.command("delete")
def delete_rule(
    name: Name,
    namespace: Namespace = None,
    entity: EntityOption = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Delete a rule: both of its keys prove nothing from now on."""
    with management(_chosen(connection_string, namespace), "key") as client:
        client.authorization_rules(entity).delete(name)
    print_done(f"deleted the rule {name}", {"name": name, "is_deleted": True}, as_json)


def _chosen(connection_string: str | None, namespace: str | None) -> str:
    """The connection string for a namespace of the same broker, if another one was named."""
    given = broker_of(connection_string)
    if namespace is None:
        return str(given)
    from tandem.config import require_namespace_name

    require_namespace_name(namespace, "--namespace")
    if given.host.lower() not in _LOCAL_HOSTS:
        raise CommandFailed(
            f"--namespace is for a broker on this machine; {given.host} is another one, or says which namespace it is"
        )
    return str(dataclasses.replace(given, host=f"{namespace}.localhost"))


def _print_rule(sentence: str, rule: EntityFields, key: str, connection_string: str, as_json: bool) -> None:
    broker = ConnectionString.parse(connection_string)
    line = str(
        dataclasses.replace(broker, rule_name=rule["name"], key=rule[key], signature="", entity_path=rule["entity"])
    )
    if as_json:
        print_json({**rule, "connection_string": line})
    else:
        typer.echo(f"{sentence}\n{line}")
