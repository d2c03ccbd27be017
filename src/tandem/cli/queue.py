"""`tandem queue`: create, list, show, update and delete queues of a running broker."""

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
    DeadLettering,
    DuplicateDetection,
    DuplicateWindow,
    ForwardDeadLetters,
    ForwardTo,
    LockDuration,
    MaxDeliveryCount,
    MaxMessageSize,
    MaxSize,
    Partitioning,
    Session,
    Status,
    TimeToLive,
    UserMetadata,
)

__all__ = ["MESSAGE_COUNTS", "app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=f"Create, list, show, update and delete queues of a running broker.\n{MANAGING_HELP}",
)

# Of what holds messages: heading and field.
MESSAGE_COUNTS: Final = {
    "active": "active_message_count",
    "dead-letter": "dead_letter_message_count",
    "scheduled": "scheduled_message_count",
    "deferred": "deferred_message_count",
    "bytes": "size_in_bytes",
}

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue; it may hold slashes.")]


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
    fields = given_fields(
        lock_duration=lock_duration,
        max_size_in_megabytes=max_size_in_megabytes,
        requires_duplicate_detection=requires_duplicate_detection,
        requires_session=requires_session,
        default_message_time_to_live=default_message_time_to_live,
        dead_lettering_on_message_expiration=dead_lettering_on_message_expiration,
        duplicate_detection_history_time_window=duplicate_detection_history_time_window,
        max_delivery_count=max_delivery_count,
        enable_batched_operations=enable_batched_operations,
        status=status,
        auto_delete_on_idle=auto_delete_on_idle,
        enable_partitioning=enable_partitioning,
        forward_to=forward_to,
        forward_dead_lettered_messages_to=forward_dead_lettered_messages_to,
        user_metadata=user_metadata,
        max_message_size_in_kilobytes=max_message_size_in_kilobytes,
    )
    queue = Managed("queue", name)
    print_done(f"created the {queue.title}", queue.create(fields, connection_string), as_json)


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
    fields = given_fields(
        lock_duration=lock_duration,
        max_size_in_megabytes=max_size_in_megabytes,
        default_message_time_to_live=default_message_time_to_live,
        dead_lettering_on_message_expiration=dead_lettering_on_message_expiration,
        duplicate_detection_history_time_window=duplicate_detection_history_time_window,
        max_delivery_count=max_delivery_count,
        enable_batched_operations=enable_batched_operations,
        status=status,
        auto_delete_on_idle=auto_delete_on_idle,
        forward_to=forward_to,
        forward_dead_lettered_messages_to=forward_dead_lettered_messages_to,
        user_metadata=user_metadata,
        max_message_size_in_kilobytes=max_message_size_in_kilobytes,
    )
    queue = Managed("queue", name)
    updated = queue.update(fields, "--lock-duration 30s", connection_string)
    print_done(f"updated the {queue.title}", updated, as_json)


@app.command("list")
def list_queues(connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List all queues with the messages they hold."""
    with management(connection_string, "queue") as client:
        queues = list(client.queues.list_all())
    print_entities("queue", queues, MESSAGE_COUNTS, as_json, "tandem queue create NAME")


@app.command("show")
def show_queue(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Show the settings of a queue, its counts and its times."""
    print_properties(Managed("queue", name).show(connection_string), as_json)


@app.command("delete")
def delete_queue(name: Name, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """Delete a queue and every message in it."""
    Managed("queue", name).delete(connection_string, as_json)
