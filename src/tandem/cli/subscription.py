"""`tandem subscription`: create, list, show, update and delete subscriptions of a topic."""

from __future__ import annotations

from typing import Annotated

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
    ForwardDeadLetters,
    ForwardTo,
    LockDuration,
    MaxDeliveryCount,
    Session,
    Status,
    TimeToLive,
    TopicName,
    UserMetadata,
)
from tandem.cli.queue import MESSAGE_COUNTS

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Create, list, show, update and delete subscriptions of a topic.\n\n"
        "A subscription is received from like a queue; clients find it at TOPIC/Subscriptions/NAME. Its rules select "
        f"the messages that it gets: see `tandem rule`.\n{MANAGING_HELP}"
    ),
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the subscription, at most 50 characters.")]
FilterErrors = Annotated[
    bool | None,
    typer.Option(help="Keep messages that a rule fails on as dead letters (the default).", show_default=False),
]


@app.command("create")
def create_subscription(
    topic: TopicName,
    name: Name,
    lock_duration: LockDuration = None,
    requires_session: Session = None,
    default_message_time_to_live: TimeToLive = None,
    dead_lettering_on_message_expiration: DeadLettering = None,
    dead_lettering_on_filter_evaluation_exceptions: FilterErrors = None,
    max_delivery_count: MaxDeliveryCount = None,
    enable_batched_operations: BatchedOperations = None,
    status: Status = None,
    auto_delete_on_idle: AutoDelete = None,
    forward_to: ForwardTo = None,
    forward_dead_lettered_messages_to: ForwardDeadLetters = None,
    user_metadata: UserMetadata = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Create a subscription of a topic.

    It begins with one rule, $Default, that selects every message. To get only some, add rules of your own and delete
    that one.

    \b
    Examples:
      tandem subscription create orders billing
      tandem subscription create orders audit --forward-to archive
      tandem rule create orders billing large --sql "amount > 1000"
      tandem rule delete orders billing '$Default'
    """
    fields = given_fields(
        lock_duration=lock_duration,
        requires_session=requires_session,
        default_message_time_to_live=default_message_time_to_live,
        dead_lettering_on_message_expiration=dead_lettering_on_message_expiration,
        dead_lettering_on_filter_evaluation_exceptions=dead_lettering_on_filter_evaluation_exceptions,
        max_delivery_count=max_delivery_count,
        enable_batched_operations=enable_batched_operations,
        status=status,
        auto_delete_on_idle=auto_delete_on_idle,
        forward_to=forward_to,
        forward_dead_lettered_messages_to=forward_dead_lettered_messages_to,
        user_metadata=user_metadata,
    )
    subscription = Managed("subscription", topic, name)
    print_done(f"created the {subscription.title}", subscription.create(fields, connection_string), as_json)


@app.command("update")
def update_subscription(
    topic: TopicName,
    name: Name,
    lock_duration: LockDuration = None,
    default_message_time_to_live: TimeToLive = None,
    dead_lettering_on_message_expiration: DeadLettering = None,
    dead_lettering_on_filter_evaluation_exceptions: FilterErrors = None,
    max_delivery_count: MaxDeliveryCount = None,
    enable_batched_operations: BatchedOperations = None,
    status: Status = None,
    auto_delete_on_idle: AutoDelete = None,
    forward_to: ForwardTo = None,
    forward_dead_lettered_messages_to: ForwardDeadLetters = None,
    user_metadata: UserMetadata = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Change settings of a subscription; those that are not named stay as they are.

    \b
    Examples:
      tandem subscription update orders billing --lock-duration 2m --max-delivery-count 5
      tandem subscription update orders billing --status ReceiveDisabled
    """
    fields = given_fields(
        lock_duration=lock_duration,
        default_message_time_to_live=default_message_time_to_live,
        dead_lettering_on_message_expiration=dead_lettering_on_message_expiration,
        dead_lettering_on_filter_evaluation_exceptions=dead_lettering_on_filter_evaluation_exceptions,
        max_delivery_count=max_delivery_count,
        enable_batched_operations=enable_batched_operations,
        status=status,
        auto_delete_on_idle=auto_delete_on_idle,
        forward_to=forward_to,
        forward_dead_lettered_messages_to=forward_dead_lettered_messages_to,
        user_metadata=user_metadata,
    )
    subscription = Managed("subscription", topic, name)
    updated = subscription.update(fields, "--lock-duration 30s", connection_string)
    print_done(f"updated the {subscription.title}", updated, as_json)


@app.command("list")
def list_subscriptions(topic: TopicName, connection_string: Connection = None, as_json: AsJson = False) -> None:
    """List the subscriptions of a topic with the messages they hold."""
    with management(connection_string, "subscription") as client:
        subscriptions = list(client.subscriptions(topic).list_all())
    print_entities("subscription", subscriptions, MESSAGE_COUNTS, as_json, f"tandem subscription create {topic} NAME")


@app.command("show")
def show_subscription(
    topic: TopicName, name: Name, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Show the settings of a subscription, its counts and its times."""
    print_properties(Managed("subscription", topic, name).show(connection_string), as_json)


@app.command("delete")
def delete_subscription(
    topic: TopicName, name: Name, connection_string: Connection = None, as_json: AsJson = False
) -> None:
    """Delete a subscription, its rules and every message in it."""
    Managed("subscription", topic, name).delete(connection_string, as_json)
