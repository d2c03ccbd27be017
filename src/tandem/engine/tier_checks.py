"""What the tier of a namespace refuses when an entity is created or updated.

An update is judged by what it changes: an entity that was created in another tier keeps its settings.
"""

from __future__ import annotations

from tandem.engine.backlogs import is_backlog_queue
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import OPERATIONS_HUB, EventHubDescription
from tandem.engine.tiers import TierLimits
from tandem.errors import ArgumentError, ArgumentOutOfRange

__all__ = ["check_entity", "check_hub"]


def check_entity(limits: TierLimits, wanted: QueueDescription, existing: QueueDescription | None = None) -> None:
    """Refuse settings of a queue, a topic or a subscription that the tier does not offer."""
    before = {} if existing is None else existing.to_fields()
    after = wanted.to_fields()
    changed = {field for field in after if field not in before or before[field] != after[field]}
    if "max_delivery_count" in changed and not is_backlog_queue(wanted.name):
        _at_most(limits, "max_delivery_count", wanted.max_delivery_count, limits.max_delivery_count)
    if "max_size_in_megabytes" in changed:
        _check_size(limits, wanted)
    if "max_message_size_in_kilobytes" in changed and wanted.is_message_size_chosen:
        _check_message_size(limits, wanted.max_message_size_in_kilobytes)
    if "enable_partitioning" in changed and wanted.enable_partitioning and not limits.max_partitioned_entities:
        raise ArgumentError.of(
            f"{{field}} is {{value}}: the tier {limits.name} of this namespace has no partitioned entities; leave the "
            "property out",
            "enable_partitioning",
            value=True,
        )


def _check_size(limits: TierLimits, wanted: QueueDescription) -> None:
    size = wanted.max_size_in_megabytes
    allowed = limits.allowed_sizes_in_megabytes(wanted.enable_partitioning)
    if allowed and size not in allowed:
        sizes = ", ".join([str(one) for one in allowed])
        raise _refusal(limits, "max_size_in_megabytes", f"be one of {sizes}", value=size)


def _check_message_size(limits: TierLimits, size: int) -> None:
    least, most = limits.min_message_size_in_kilobytes, limits.max_message_size_in_kilobytes
    if not least <= size <= most:
        rule = "be {most}, or left out" if least == most else "be between {least} and {most}"
        raise _refusal(limits, "max_message_size_in_kilobytes", rule, value=size, least=least, most=most)


def check_hub(limits: TierLimits, wanted: EventHubDescription, existing: EventHubDescription | None = None) -> None:
    """Refuse settings of an event hub that the tier does not offer. The hub of the broker itself is exempt."""
    if wanted.name == OPERATIONS_HUB:
        return
    if existing is None:
        _at_most(limits, "partition_count", wanted.partition_count, limits.max_partitions)
    if existing is None or len(wanted.consumer_groups) > len(existing.consumer_groups):
        count, most = len(wanted.consumer_groups), limits.max_consumer_groups
        if count > most:
            raise ArgumentOutOfRange.of(
                f"{{field}} has {{value}} groups; in the tier {limits.name} of this namespace at most {{most}} are "
                "allowed",
                "consumer_groups",
                value=count,
                most=most,
            )
    most_ms = limits.max_retention_ms
    if most_ms is not None and (existing is None or wanted.retention_ms != existing.retention_ms):
        _at_most(limits, "retention_ms", wanted.retention_ms, most_ms)


def _at_most(limits: TierLimits, field: str, value: int | None, most: int) -> None:
    """Refuse a value above the most; None has no end."""
    if value is None or value > most:
        raise _refusal(limits, field, "be at most {most}", value=value, most=most)


def _refusal(limits: TierLimits, field: str, rule: str, **values: object) -> ArgumentOutOfRange:
    template = f"{{field}} is {{value}}; in the tier {limits.name} of this namespace it must {rule}"
    return ArgumentOutOfRange.of(template, field, **values)
