"""Tiers of a namespace: the limits that the cloud service sets by price, as one table.

A namespace of Tandem has the tier `tandem` unless its owner chooses another: Tandem's own bounds (`tandem.limits`) and
none of the service's. `standard` and `premium` refuse what that tier of the service refuses, so that a program meets
its limits before it meets the service. Limits that all tiers share are in `tandem.limits`.

The figures are those of the service's published quotas, and of its error messages where these are more exact: "The
property MaxSizeInMegabytes, must be one of the following values: 1024;2048;3072;4096;5120" (Azure/azure-cli#31702),
"'MaxMessageSizeInKilobytes' must be between 1024 and 102400 when the namespace is using 'Premium' tier"
(Azure/ResourceModules#2629), and 400 for any other size than 256 in Standard (MicrosoftDocs/azure-docs#104074).
"""

from __future__ import annotations

import enum
from typing import Final

from tandem.errors import ArgumentError
from tandem.limits import (
    MAX_BATCH_DELETE_MESSAGES,
    MAX_CONSUMER_GROUPS,
    MAX_DELIVERY_COUNT,
    MAX_ENTITIES,
    MAX_HUBS,
    MAX_MESSAGE_SIZE_KILOBYTES,
    MAX_PARTITIONS,
    MAX_QUEUE_SIZE_MEGABYTES,
    PARTITION_COUNT,
)

__all__ = ["TIER_SETTING", "Tier", "TierLimits", "limits_of", "tier_of"]

# The setting of the store that keeps the tier of its namespace.
TIER_SETTING: Final = "namespace tier"

_DAY_MS: Final = 86_400_000


class Tier(enum.Enum):
    """The tier of a namespace."""

    TANDEM = "tandem"
    STANDARD = "standard"
    PREMIUM = "premium"


class TierLimits:
    """The limits of one tier. Sizes of messages count everything that is sent: header, properties and body."""

    __slots__ = (
        "default_message_size_in_kilobytes",
        "max_batch_delete_messages",
        "max_batch_size_in_kilobytes",
        "max_consumer_groups",
        "max_delivery_count",
        "max_entities",
        "max_hubs",
        "max_message_size_in_kilobytes",
        "max_partitioned_entities",
        "max_partitions",
        "max_retention_ms",
        "max_session_state_in_kilobytes",
        "max_size_in_megabytes",
        "min_message_size_in_kilobytes",
        "sizes_in_megabytes",
        "tier",
    )

    def __init__(
        self,
        tier: Tier,
        *,
        default_message_size_in_kilobytes: int,
        min_message_size_in_kilobytes: int,
        max_message_size_in_kilobytes: int,
        max_batch_size_in_kilobytes: int,
        max_session_state_in_kilobytes: int,
        sizes_in_megabytes: list[int],
        max_size_in_megabytes: int,
        max_delivery_count: int,
        max_entities: int,
        max_partitioned_entities: int,
        max_batch_delete_messages: int,
        max_hubs: int,
        max_partitions: int,
        max_consumer_groups: int,
        max_retention_ms: int | None,
    ) -> None:
        self.tier = tier
        # Of an entity that is created without a size, and the range from which one can be chosen.
        self.default_message_size_in_kilobytes = default_message_size_in_kilobytes
        self.min_message_size_in_kilobytes = min_message_size_in_kilobytes
        self.max_message_size_in_kilobytes = max_message_size_in_kilobytes
        # A transfer that holds several messages.
        self.max_batch_size_in_kilobytes = max_batch_size_in_kilobytes
        self.max_session_state_in_kilobytes = max_session_state_in_kilobytes
        # The sizes that a queue or a topic may have; an empty list permits any up to the largest.
        self.sizes_in_megabytes = sizes_in_megabytes
        self.max_size_in_megabytes = max_size_in_megabytes
        # Backlog queues of paired namespaces are exempt in every tier.
        self.max_delivery_count = max_delivery_count
        self.max_entities = max_entities
        # 0 where entities cannot be partitioned.
        self.max_partitioned_entities = max_partitioned_entities
        self.max_batch_delete_messages = max_batch_delete_messages
        self.max_hubs = max_hubs
        self.max_partitions = max_partitions
        self.max_consumer_groups = max_consumer_groups
        # None permits events to be kept for good.
        self.max_retention_ms = max_retention_ms

    @property
    def name(self) -> str:
        return str(self.tier.value)

    @property
    def messaging_sku(self) -> str:
        """The tier as the service's own API names it. SDKs know no name for `tandem`."""
        return "Premium" if self.tier is Tier.PREMIUM else "Standard"

    def allowed_sizes_in_megabytes(self, is_partitioned: bool) -> list[int]:
        """The sizes that an entity may have; empty if any will do. Each partition may have one of them."""
        if not is_partitioned:
            return self.sizes_in_megabytes
        return [*self.sizes_in_megabytes, *[size * PARTITION_COUNT for size in self.sizes_in_megabytes]]

    def to_fields(self) -> dict[str, object]:
        """Plain values by name, for the management API and the docs."""
        return {
            "default_message_size_in_kilobytes": self.default_message_size_in_kilobytes,
            "min_message_size_in_kilobytes": self.min_message_size_in_kilobytes,
            "max_message_size_in_kilobytes": self.max_message_size_in_kilobytes,
            "max_batch_size_in_kilobytes": self.max_batch_size_in_kilobytes,
            "max_session_state_in_kilobytes": self.max_session_state_in_kilobytes,
            "sizes_in_megabytes": list(self.sizes_in_megabytes),
            "max_size_in_megabytes": self.max_size_in_megabytes,
            "max_delivery_count": self.max_delivery_count,
            "max_entities": self.max_entities,
            "max_partitioned_entities": self.max_partitioned_entities,
            "max_batch_delete_messages": self.max_batch_delete_messages,
            "max_hubs": self.max_hubs,
            "max_partitions": self.max_partitions,
            "max_consumer_groups": self.max_consumer_groups,
            "max_retention_ms": self.max_retention_ms,
        }


_TABLE: Final[dict[Tier, TierLimits]] = {
    Tier.TANDEM: TierLimits(
        Tier.TANDEM,
        default_message_size_in_kilobytes=256,
        min_message_size_in_kilobytes=1,
        max_message_size_in_kilobytes=MAX_MESSAGE_SIZE_KILOBYTES,
        max_batch_size_in_kilobytes=MAX_MESSAGE_SIZE_KILOBYTES,
        max_session_state_in_kilobytes=MAX_MESSAGE_SIZE_KILOBYTES,
        sizes_in_megabytes=[],
        max_size_in_megabytes=MAX_QUEUE_SIZE_MEGABYTES,
        max_delivery_count=MAX_DELIVERY_COUNT,
        max_entities=MAX_ENTITIES,
        max_partitioned_entities=MAX_ENTITIES,
        max_batch_delete_messages=MAX_BATCH_DELETE_MESSAGES,
        max_hubs=MAX_HUBS,
        max_partitions=MAX_PARTITIONS,
        max_consumer_groups=MAX_CONSUMER_GROUPS,
        max_retention_ms=None,
    ),
    Tier.STANDARD: TierLimits(
        Tier.STANDARD,
        default_message_size_in_kilobytes=256,
        min_message_size_in_kilobytes=256,
        max_message_size_in_kilobytes=256,
        max_batch_size_in_kilobytes=256,
        max_session_state_in_kilobytes=256,
        sizes_in_megabytes=[1_024, 2_048, 3_072, 4_096, 5_120],
        max_size_in_megabytes=5_120,
        max_delivery_count=2_000,
        max_entities=10_000,
        max_partitioned_entities=100,
        max_batch_delete_messages=500,
        max_hubs=10,
        max_partitions=32,
        max_consumer_groups=20,
        max_retention_ms=7 * _DAY_MS,
    ),
    Tier.PREMIUM: TierLimits(
        Tier.PREMIUM,
        default_message_size_in_kilobytes=1_024,
        min_message_size_in_kilobytes=1_024,
        max_message_size_in_kilobytes=102_400,
        max_batch_size_in_kilobytes=1_024,
        max_session_state_in_kilobytes=1_024,
        sizes_in_megabytes=[1_024, 2_048, 3_072, 4_096, 5_120, 10_240, 20_480, 40_960, 81_920],
        max_size_in_megabytes=81_920,
        max_delivery_count=2_000,
        # Of one messaging unit.
        max_entities=1_000,
        # Partitions are a property of the whole namespace there, chosen when it is created; ours has none.
        max_partitioned_entities=0,
        max_batch_delete_messages=4_000,
        # Of one processing unit.
        max_hubs=100,
        max_partitions=100,
        max_consumer_groups=100,
        max_retention_ms=90 * _DAY_MS,
    ),
}


def limits_of(tier: Tier) -> TierLimits:
    return _TABLE[tier]


def tier_of(text: str, field: str = "tier") -> Tier:
    """Return the tier of this name. Raises ArgumentError, which names the field and lists the names."""
    for tier in Tier:
        if tier.value == text:
            return tier
    names = ", ".join([str(tier.value) for tier in Tier])
    raise ArgumentError(f"{field} is {text!r:.80}; it must be one of {names}")
