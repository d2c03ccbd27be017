"""`tandem queue`: create, list, show, update and delete queues of a running broker."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from tandem.engine.description import EntityStatus
from tandem.errors import RemoteError, TandemError
from tandem.management.client import BrokerUnreachable, QueueFields, QueueManager
from tandem.management.connection_string import ConnectionString
from tandem.management.durations import duration_text, parse_duration_ms

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

# Of `tandem queue list`: heading and field.
_COLUMNS: Final = (
    ("active", "active_message_count"),
    ("dead-letter", "dead_letter_message_count"),
    ("scheduled", "scheduled_message_count"),
    ("deferred", "deferred_message_count"),
    ("bytes", "size_in_bytes"),
)

# What to do about an error of the broker, by its condition.
_ADVICE: Final = {
    "amqp:not-found": "`tandem queue list` shows those that exist.",
    "com.microsoft:entity-already-exists": "`tandem queue update` changes it, `tandem queue delete` removes it.",
    "com.microsoft:auth-failed": "Check the connection string: `tandem connection-string` prints the right one.",
    "amqp:unauthorized-access": "Use a connection string whose rule has the Manage right.",
}
_START_ADVICE: Final = "Start one with `tandem serve --dev`, or point to another with --connection-string."


class CommandFailed(TandemError):
    """A command could not be carried out. The message says why, and what to do next."""


Name = Annotated[str, typer.Argument(help="The name of the queue; it may hold slashes.")]
Connection = Annotated[
    str | None,
    typer.Option(
        "--connection-string",
        envvar="TANDEM_CONNECTION_STRING",
        help="The broker, as `tandem connection-string` prints it.",
        show_default="the one of `tandem serve --dev` on this machine",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

LockDuration = Annotated[str | None, typer.Option(metavar="TIME", help="How long a receiver may keep a message.")]
MaxSize = Annotated[int | None, typer.Option("--max-size-in-megabytes", help="When full, sends are refused.")]
DuplicateDetection = Annotated[
    bool | None, typer.Option(help="Take a message id once only within the window.", show_default=False)
]
Session = Annotated[bool | None, typer.Option(help="Every message belongs to a session.", show_default=False)]
TimeToLive = Annotated[str | None, typer.Option(metavar="TIME", help="Messages live no longer than this.")]
DeadLettering = Annotated[bool | None, typer.Option(help="Keep expired messages as dead letters.", show_default=False)]
DuplicateWindow = Annotated[str | None, typer.Option(metavar="TIME", help="How long message ids are remembered.")]
MaxDeliveryCount = Annotated[int | None, typer.Option(help="A message delivered that often becomes a dead letter.")]
BatchedOperations = Annotated[
    bool | None, typer.Option(help="Kept for the SDKs; Tandem always commits in batches.", show_default=False)
]
Status = Annotated[
    EntityStatus | None,
    typer.Option(
        metavar="|".join(one.value for one in EntityStatus), help="What clients may do.", case_sensitive=False
    ),
]
AutoDelete = Annotated[str | None, typer.Option(metavar="TIME", help="Delete the queue when unused for this long.")]
Partitioning = Annotated[bool | None, typer.Option(help="Spread it over 16 partitions.", show_default=False)]
ForwardTo = Annotated[str | None, typer.Option(help="Pass messages on to this queue; '' for none.")]
ForwardDeadLetters = Annotated[
    str | None,
    typer.Option("--forward-dead-lettered-messages-to", help="Pass dead letters on to this queue; '' for none."),
]
UserMetadata = Annotated[str | None, typer.Option(help="A text of your own, at most 1,024 characters.")]
MaxMessageSize = Annotated[
    int | None, typer.Option("--max-message-size-in-kilobytes", help="Larger messages are refused.")
]


@app.callback()
def _queue() -> None:
    """Create, list, show, update and delete queues of a running broker.

    The broker is the one that --connection-string or TANDEM_CONNECTION_STRING names, else `tandem serve --dev` on this
    machine. Times are written as 30s, 5m, 1h30m, 7d, PT30S or never.
    """


@app.command("create")
def create_queue(
    name: Name,
    lock_duration: LockDuration = None,
    max_size_in_megabytes: MaxSize = None,
    requires_duplicate_detection: DuplicateDetection = None,
    requires_session: Session = None,
    default_message_time_to_live: TimeToLive = None,
    dead_lettering_on_message_expiration: DeadLettering = None,
    duplicate_detection_history_time_window: DuplicateWindow = None,
    max_delivery_count: MaxDeliveryCount = None,
    enable_batched_operations: BatchedOperations = None,
    status: Status = None,
    auto_delete_on_idle: AutoDelete = None,
    enable_partitioning: Partitioning = None,
    forward_to: ForwardTo = None,
    forward_dead_lettered_messages_to: ForwardDeadLetters = None,
    user_metadata: UserMetadata = None,
    max_message_size_in_kilobytes: MaxMessageSize = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Create a queue.

    What is not set is as in the cloud service: locks of 1m, 10 deliveries, 1,024 MB, and messages of up to 256 KB that
    do not expire.

    \b
    Examples:
      tandem queue create orders
      tandem queue create orders/eu --lock-duration 30s --max-delivery-count 5 --requires-session
    """
    fields = _fields(
        {
            "lock_duration": lock_duration,
            "default_message_time_to_live": default_message_time_to_live,
            "duplicate_detection_history_time_window": duplicate_detection_history_time_window,
            "auto_delete_on_idle": auto_delete_on_idle,
        },
        max_size_in_megabytes=max_size_in_megabytes,
        requires_duplicate_detection=requires_duplicate_detection,
        requires_session=requires_session,
        dead_lettering_on_message_expiration=dead_lettering_on_message_expiration,
        max_delivery_count=max_delivery_count,
        enable_batched_operations=enable_batched_operations,
        status=None if status is None else status.value,
        enable_partitioning=enable_partitioning,
        forward_to=forward_to,
        forward_dead_lettered_messages_to=forward_dead_lettered_messages_to,
        user_metadata=user_metadata,
        max_message_size_in_kilobytes=max_message_size_in_kilobytes,
    )
    with _manager(connection_string) as manager:
        queue = manager.create(name, fields)
    _print_done(f"created the queue {queue['name']}", queue, as_json)


@app.command("update")
def update_queue(
    name: Name,
    lock_duration: LockDuration = None,
    max_size_in_megabytes: MaxSize = None,
    default_message_time_to_live: TimeToLive = None,
    dead_lettering_on_message_expiration: DeadLettering = None,
    duplicate_detection_history_time_window: DuplicateWindow = None,
    max_delivery_count: MaxDeliveryCount = None,
    enable_batched_operations: BatchedOperations = None,
    status: Status = None,
    auto_delete_on_idle: AutoDelete = None,
    forward_to: ForwardTo = None,
    forward_dead_lettered_messages_to: ForwardDeadLetters = None,
    user_metadata: UserMetadata = None,
    max_message_size_in_kilobytes: MaxMessageSize = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of a queue; those that are not named stay as they are.

    \b
    Examples:
      tandem queue update orders --lock-duration 2m --default-message-time-to-live never
      tandem queue update orders --status SendDisabled
    """
    fields = _fields(
        {
            "lock_duration": lock_duration,
            "default_message_time_to_live": default_message_time_to_live,
            "duplicate_detection_history_time_window": duplicate_detection_history_time_window,
            "auto_delete_on_idle": auto_delete_on_idle,
        },
        max_size_in_megabytes=max_size_in_megabytes,
        dead_lettering_on_message_expiration=dead_lettering_on_message_expiration,
        max_delivery_count=max_delivery_count,
        enable_batched_operations=enable_batched_operations,
        status=None if status is None else status.value,
        forward_to=forward_to,
        forward_dead_lettered_messages_to=forward_dead_lettered_messages_to,
        user_metadata=user_metadata,
        max_message_size_in_kilobytes=max_message_size_in_kilobytes,
    )
    if not fields:
        raise CommandFailed(f"nothing to change about {name!r}: name a setting, such as --lock-duration 30s")
    with _manager(connection_string) as manager:
        queue = manager.update(name, fields)
    _print_done(f"updated the queue {queue['name']}", queue, as_json)


@app.command("list")
def list_queues(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List all queues with the messages they hold."""
    with _manager(connection_string) as manager:
        queues = list(manager.list_all())
    if as_json:
        typer.echo(json.dumps({"queues": queues}))
        return
    if not queues:
        typer.echo("There are no queues. `tandem queue create NAME` makes one.")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("queue", overflow="fold")
    table.add_column("status", no_wrap=True)
    for heading, _ in _COLUMNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for queue in queues:
        table.add_row(queue["name"], queue["status"], *(f"{queue[field]:,}" for _, field in _COLUMNS))
    Console().print(table)


@app.command("show")
def show_queue(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show the settings of a queue, its counts and its times."""
    with _manager(connection_string) as manager:
        queue = manager.show(name)
    if as_json:
        typer.echo(json.dumps(queue))
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for field, value in queue.items():
        table.add_row(*_row(field, value))
    # Metadata is the user's text, in which brackets are no markup.
    Console(markup=False).print(table)


@app.command("delete")
def delete_queue(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Delete a queue and every message in it."""
    with _manager(connection_string) as manager:
        manager.delete(name)
    _print_done(f"deleted the queue {name}", {"name": name, "is_deleted": True}, as_json)


# --- the broker -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _manager(connection_string: str | None) -> Iterator[QueueManager]:
    """The broker's queues. What goes wrong becomes one line that also says what to do next."""
    given = ConnectionString.parse(connection_string) if connection_string else ConnectionString()
    try:
        yield QueueManager(given)
    except BrokerUnreachable as error:
        raise CommandFailed(f"{error}. {_START_ADVICE}") from error
    except RemoteError as error:
        raise CommandFailed(" ".join([error.description, _ADVICE.get(error.condition, "")]).strip()) from error


def _fields(durations: dict[str, str | None], **others: object) -> QueueFields:
    """What was given on the command line, by the names of the JSON API."""
    fields: QueueFields = {field: value for field, value in others.items() if value is not None}
    for field, text in durations.items():
        if text is not None:
            fields[f"{field}_ms"] = parse_duration_ms(text, f"--{field.replace('_', '-')}")
    return fields


# --- what is printed ------------------------------------------------------------------------------------------------


def _print_done(sentence: str, value: dict[str, Any], as_json: bool) -> None:
    typer.echo(json.dumps(value) if as_json else sentence)


def _row(field: str, value: object) -> tuple[str, str]:
    """A property in words: its unit moves from the name to the value."""
    if field.endswith("_at_ms") and isinstance(value, int):
        return _label(field.removesuffix("_ms")), f"{datetime.fromtimestamp(value / 1_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if field.endswith("_ms") and (value is None or isinstance(value, int)):
        return _label(field.removesuffix("_ms")), duration_text(value)
    if isinstance(value, bool):
        return _label(field), "yes" if value else "no"
    if isinstance(value, int):
        return _label(field), f"{value:,}"
    return _label(field), "-" if value is None else str(value)


def _label(field: str) -> str:
    return field.replace("_", " ")
