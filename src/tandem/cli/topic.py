"""`tandem topic`: create, list, show, update and delete topics of a running broker."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from tandem.cli.entities import (
    MANAGING_HELP,
    Managed,
    given_fields,
    management,
    print_done,
    print_entities,
    print_properties,
)
from tandem.cli.options import (
    AsJson,
    AutoDelete,
    BatchedOperations,
    Connection,
    DuplicateDetection,
    DuplicateWindow,
    MaxMessageSize,
    MaxSize,
    Partitioning,
    Status,
    TimeToLive,
    UserMetadata,
)

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Create, list, show, update and delete topics of a running broker.\n\n"
        "A topic is sent to like a queue. Each of its subscriptions gets a copy of every message that its rules "
        f"select: see `tandem subscription` and `tandem rule`.\n{MANAGING_HELP}"
    ),
)

# Of `tandem topic list`: heading and field.
_COLUMNS: Final = {
    "subscriptions": "subscription_count",
    "scheduled": "scheduled_message_count",
    "bytes": "size_in_bytes",
}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the topic; it may hold slashes.")]
SupportOrdering = Annotated[
    bool | None, typer.Option(help="Kept for the SDKs; Tandem always keeps the order.", show_default=False)
]


@app.command("create")
def create_topic(
    name: Name,
    max_size_in_megabytes: MaxSize = None,
    requires_duplicate_detection: DuplicateDetection = None,
    default_message_time_to_live: TimeToLive = None,
    duplicate_detection_history_time_window: DuplicateWindow = None,
    enable_batched_operations: BatchedOperations = None,
    status: Status = None,
    auto_delete_on_idle: AutoDelete = None,
    enable_partitioning: Partitioning = None,
    support_ordering: SupportOrdering = None,
    user_metadata: UserMetadata = None,
    max_message_size_in_kilobytes: MaxMessageSize = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic.

    Until it has a subscription, messages sent to it go nowhere. All subscriptions share its size.

    \b
    Examples:
      tandem topic create orders
      tandem topic create orders/eu --requires-duplicate-detection --default-message-time-to-live 14d
    """
    fields = given_fields(
        max_size_in_megabytes=max_size_in_megabytes,
        requires_duplicate_detection=requires_duplicate_detection,
        default_message_time_to_live=default_message_time_to_live,
        duplicate_detection_history_time_window=duplicate_detection_history_time_window,
        enable_batched_operations=enable_batched_operations,
        status=status,
        auto_delete_on_idle=auto_delete_on_idle,
        enable_partitioning=enable_partitioning,
        support_ordering=support_ordering,
        user_metadata=user_metadata,
        max_message_size_in_kilobytes=max_message_size_in_kilobytes,
    )
    topic = Managed("topic", name)
    print_done(f"created the {topic.title}", topic.create(fields, connection_string), as_json)


@app.command("update")
def update_topic(
    name: Name,
    max_size_in_megabytes: MaxSize = None,
    default_message_time_to_live: TimeToLive = None,
    duplicate_detection_history_time_window: DuplicateWindow = None,
    enable_batched_operations: BatchedOperations = None,
    status: Status = None,
    auto_delete_on_idle: AutoDelete = None,
    support_ordering: SupportOrdering = None,
    user_metadata: UserMetadata = None,
    max_message_size_in_kilobytes: MaxMessageSize = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of a topic; those that are not named stay as they are.

    \b
    Examples:
      tandem topic update orders --default-message-time-to-live never
      tandem topic update orders --status SendDisabled
    """
    fields = given_fields(
        max_size_in_megabytes=max_size_in_megabytes,
        default_message_time_to_live=default_message_time_to_live,
        duplicate_detection_history_time_window=duplicate_detection_history_time_window,
        enable_batched_operations=enable_batched_operations,
        status=status,
        auto_delete_on_idle=auto_delete_on_idle,
        support_ordering=support_ordering,
        user_metadata=user_metadata,
        max_message_size_in_kilobytes=max_message_size_in_kilobytes,
    )
    topic = Managed("topic", name)
    updated = topic.update(fields, "--default-message-time-to-live 7d", connection_string)
    print_done(f"updated the {topic.title}", updated, as_json)


@app.command("list")
def list_topics(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List all topics with their subscriptions, counted, and what they hold."""
    with management(connection_string, "topic") as client:
        topics = list(client.topics.list_all())
    print_entities("topic", topics, _COLUMNS, as_json, "tandem topic create NAME")


@app.command("show")
def show_topic(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show the settings of a topic, its counts and its times."""
    print_properties(Managed("topic", name).show(connection_string), as_json)


@app.command("delete")
def delete_topic(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Delete a topic, its subscriptions and every message in them."""
    Managed("topic", name).delete(connection_string, as_json)
