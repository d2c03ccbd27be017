"""What a user can choose about a subscription."""

from __future__ import annotations

from typing import Final

from tandem.addresses import subscription_path, validate_entity_name, validate_subscription_name
from tandem.engine.description import EntityStatus, FieldTypes, QueueDescription, checked_fields
from tandem.errors import ArgumentError

__all__ = ["SubscriptionDescription"]


class SubscriptionDescription(QueueDescription):
    """The chosen properties of one subscription. To clients that receive, it is a queue with a longer name.

    `name` is the whole path, under which it is found; `subscription_name` is its own name below the topic.
    """

    __slots__ = ("dead_lettering_on_filter_evaluation_exceptions", "subscription_name", "topic_name")

    def __init__(
        self,
        topic_name: str,
        subscription_name: str,
        lock_duration_ms: int = 60_000,
        requires_session: bool = False,
        default_message_time_to_live_ms: int | None = None,
        dead_lettering_on_message_expiration: bool = False,
        dead_lettering_on_filter_evaluation_exceptions: bool = True,
        max_delivery_count: int = 10,
        enable_batched_operations: bool = True,
        status: EntityStatus = EntityStatus.ACTIVE,
        auto_delete_on_idle_ms: int | None = None,
        forward_to: str | None = None,
        forward_dead_lettered_messages_to: str | None = None,
        user_metadata: str | None = None,
        forward_to_scheme: str | None = None,
        forward_dead_lettered_messages_to_scheme: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.subscription_name = subscription_name
        self.dead_lettering_on_filter_evaluation_exceptions = dead_lettering_on_filter_evaluation_exceptions
        super().__init__(
            subscription_path(topic_name, subscription_name),
            lock_duration_ms=lock_duration_ms,
            requires_session=requires_session,
            default_message_time_to_live_ms=default_message_time_to_live_ms,
            dead_lettering_on_message_expiration=dead_lettering_on_message_expiration,
            max_delivery_count=max_delivery_count,
            enable_batched_operations=enable_batched_operations,
            status=status,
            auto_delete_on_idle_ms=auto_delete_on_idle_ms,
            forward_to=forward_to,
            forward_dead_lettered_messages_to=forward_dead_lettered_messages_to,
            user_metadata=user_metadata,
            forward_to_scheme=forward_to_scheme,
            forward_dead_lettered_messages_to_scheme=forward_dead_lettered_messages_to_scheme,
        )
        if status is EntityStatus.SEND_DISABLED:
            raise ArgumentError(
                "status is 'SendDisabled': nobody sends to a subscription, it can be Active, Disabled or "
                "ReceiveDisabled"
            )

    def rename(self, topic_name: str) -> None:
        """The topic as it spells itself; names are the same in any case."""
        self.topic_name = topic_name
        self.name = subscription_path(topic_name, self.subscription_name)

    def check_name(self) -> None:
        validate_entity_name(self.topic_name, "topic_name")
        validate_subscription_name(self.subscription_name)

    @property
    def kind(self) -> str:
        return "subscription"

    @property
    def dead_letter_source(self) -> str:
        return subscription_path(self.topic_name.lower(), self.subscription_name.lower())

    def to_fields(self) -> dict[str, object]:
        fields = super().to_fields()
        fields["topic_name"] = self.topic_name
        fields["name"] = self.subscription_name
        fields["dead_lettering_on_filter_evaluation_exceptions"] = self.dead_lettering_on_filter_evaluation_exceptions
        return {field: fields[field] for field in _FIELD_TYPES if field in fields}

    @staticmethod
    def from_fields(fields: dict[str, object]) -> SubscriptionDescription:
        """A subscription from plain values by name. ArgumentError names the field that is wrong."""
        if "topic_name" not in fields:
            raise ArgumentError("topic_name is missing: a subscription needs the topic that it is of")
        defaults = SubscriptionDescription("topic", "defaults").to_fields()
        values = checked_fields("subscription", fields, _FIELD_TYPES, defaults)
        values["subscription_name"] = values.pop("name")
        return SubscriptionDescription(**values)  # type: ignore[arg-type] # types were checked against _FIELD_TYPES


_FIELD_TYPES: Final[FieldTypes] = {
    "topic_name": (str, False),
    "name": (str, False),
    "lock_duration_ms": (int, False),
    "requires_session": (bool, False),
    "default_message_time_to_live_ms": (int, True),
    "dead_lettering_on_message_expiration": (bool, False),
    "dead_lettering_on_filter_evaluation_exceptions": (bool, False),
    "max_delivery_count": (int, False),
    "enable_batched_operations": (bool, False),
    "status": (str, False),
    "auto_delete_on_idle_ms": (int, True),
    "forward_to": (str, True),
    "forward_dead_lettered_messages_to": (str, True),
    "user_metadata": (str, True),
    "forward_to_scheme": (str, True),
    "forward_dead_lettered_messages_to_scheme": (str, True),
}
