"""What `tandem serve --config FILE` reads: Tandem's own TOML, or the `Config.json` of the official emulator.

configuration   what a file can say
reading         a file, whatever its form
toml            Tandem's own form
emulator        the form of the official emulators
emulator_hubs   the part of it that is about event hubs
values          values of the right kind, or an error that names the place
lines           the line on which that is
creation        entities: making what is missing, changing what the file has changed
authorization   the same for shared access rules of namespaces
"""

from __future__ import annotations

from tandem.config.authorization import authorization_changes
from tandem.config.configuration import (
    Configuration,
    KeySettings,
    NamespaceSettings,
    SubscriptionSettings,
    TopicSettings,
)
from tandem.config.creation import apply_entities, plan_entities
from tandem.config.reading import read_configuration
from tandem.config.values import require_namespace_name

__all__ = [
    "Configuration",
    "KeySettings",
    "NamespaceSettings",
    "SubscriptionSettings",
    "TopicSettings",
    "apply_entities",
    "authorization_changes",
    "plan_entities",
    "read_configuration",
    "require_namespace_name",
]
