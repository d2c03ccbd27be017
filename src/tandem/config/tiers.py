"""What the tier of a namespace says to its configuration, before anything is created or changed."""

from __future__ import annotations

from collections.abc import Sequence

from tandem.config.configuration import NamespaceSettings
from tandem.engine.description import EntityDescription, QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.engine.tier_checks import check_entity, check_hub
from tandem.engine.tiers import TierLimits, limits_of
from tandem.errors import ArgumentError, ConfigurationError

__all__ = ["check_tier"]


def check_tier(
    namespace: Namespace,
    settings: NamespaceSettings,
    changes: Sequence[tuple[EntityDescription, EntityDescription]] = (),
) -> None:
    """Refuse entities to create, and changes of existing ones (wanted, existing), that the tier does not offer.

    The tier is the one that the configuration sets, or else the one that the namespace has.
    """
    limits = namespace.limits if settings.tier is None else limits_of(settings.tier)
    for wanted, existing in changes:
        _check(limits, wanted, existing)
    topics = [topic.description for topic in settings.topics]
    subscriptions = [one.description for topic in settings.topics for one in topic.subscriptions]
    for entity in [*settings.queues, *topics, *subscriptions]:
        if namespace.find_any(entity.name) is None:
            _check(limits, entity, None)
            entity.choose_message_size(limits.default_message_size_in_kilobytes)
    for hub in settings.hubs:
        if namespace.hubs.find(hub.name) is None:
            _check(limits, hub, None)


def _check(limits: TierLimits, wanted: EntityDescription, existing: EntityDescription | None) -> None:
    try:
        if isinstance(wanted, QueueDescription):
            assert existing is None or isinstance(existing, QueueDescription)
            check_entity(limits, wanted, existing)
        elif isinstance(wanted, EventHubDescription):
            assert existing is None or isinstance(existing, EventHubDescription)
            check_hub(limits, wanted, existing)
    except ArgumentError as error:
        raise ConfigurationError(f"the {wanted.kind} {wanted.name!r}: {error}") from error
