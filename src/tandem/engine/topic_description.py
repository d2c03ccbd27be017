"""What a user can choose about a topic."""

from __future__ import annotations

from typing import Final

from tandem.auth.keys import AuthorizationRule
from tandem.engine.description import EntityStatus, FieldTypes, QueueDescription, checked_fields, default_fields
from tandem.errors import ArgumentError

__all__ = ["TopicDescription"]


class TopicDescription(QueueDescription):
    """The chosen properties of one topic. What only receivers need, a topic has not: nobody receives from it."""

    __slots__ = ("support_ordering",)

    def __init__(
        self,
        name: str,
        max_size_in_megabytes: int = 1_024,
        requires_duplicate_detection: bool = False,
        default_message_time_to_live_ms: int | None = None,
        duplicate_detection_history_time_window_ms: int = 600_000,
        enable_batched_operations: bool = True,
        status: EntityStatus = EntityStatus.ACTIVE,
        auto_delete_on_idle_ms: int | None = None,
        enable_partitioning: bool = False,
        support_ordering: bool = True,
        user_metadata: str | None = None,
        max_message_size_in_kilobytes: int | None = None,
        authorization_rules: list[AuthorizationRule] | None = None,
        enable_express: bool = False,
    ) -> None:
        # Kept for those who ask for it; messages of a topic keep their order in any case.
        self.support_ordering = support_ordering
        super().__init__(
            name,
            max_size_in_megabytes=max_size_in_megabytes,
            requires_duplicate_detection=requires_duplicate_detection,
            default_message_time_to_live_ms=default_message_time_to_live_ms,
            duplicate_detection_history_time_window_ms=duplicate_detection_history_time_window_ms,
            enable_batched_operations=enable_batched_operations,
            status=status,
            auto_delete_on_idle_ms=auto_delete_on_idle_ms,
            enable_partitioning=enable_partitioning,
            user_metadata=user_metadata,
            max_message_size_in_kilobytes=max_message_size_in_kilobytes,
            authorization_rules=authorization_rules,
            enable_express=enable_express,
        )
        if status is EntityStatus.RECEIVE_DISABLED:
            raise ArgumentError(
                "status is 'ReceiveDisabled': nobody receives from a topic, it can be Active, Disabled or SendDisabled"
            )

    @property
    def kind(self) -> str:
        return "topic"

    @property
    def judges_properties(self) -> bool:
        """Rules look at them: a message whose properties are no AMQP is refused to its sender."""
        return True

    def to_fields(self) -> dict[str, object]:
        fields = super().to_fields()
        fields["support_ordering"] = self.support_ordering
        return {field: fields[field] for field in _FIELD_TYPES if field in fields}

    @staticmethod
    def from_fields(fields: dict[str, object]) -> TopicDescription:
        """A topic from plain values by name. ArgumentError names the field that is wrong."""
        values = checked_fields("topic", fields, _FIELD_TYPES, default_fields(TopicDescription("defaults")))
        return TopicDescription(**values)  # type: ignore[arg-type] # every type was checked against _FIELD_TYPES


_FIELD_TYPES: Final[FieldTypes] = {
    "name": (str, False),
    "max_size_in_megabytes": (int, False),
    "requires_duplicate_detection": (bool, False),
    "default_message_time_to_live_ms": (int, True),
    "duplicate_detection_history_time_window_ms": (int, False),
    "enable_batched_operations": (bool, False),
    "status": (str, False),
    "auto_delete_on_idle_ms": (int, True),
    "enable_partitioning": (bool, False),
    "support_ordering": (bool, False),
    "user_metadata": (str, True),
    "max_message_size_in_kilobytes": (int, False),
    "enable_express": (bool, False),
    "authorization_rules": (list, True),
}
