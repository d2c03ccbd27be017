"""What `tandem serve --config FILE` reads: Tandem's own TOML, or the `Config.json` of the official emulator.

configuration   what a file can say
reading         a file, whatever its form
toml            Tandem's own form
emulator        the official emulator's form
values          values of the right kind, or an error that names the place
creation        making what is missing
"""

from __future__ import annotations

from tandem.config.configuration import Configuration, SubscriptionSettings, TopicSettings
from tandem.config.creation import create_missing
from tandem.config.reading import read_configuration
from tandem.config.values import MAX_PORT, require_namespace_name

__all__ = [
    "MAX_PORT",
    "Configuration",
    "SubscriptionSettings",
    "TopicSettings",
    "create_missing",
    "read_configuration",
    "require_namespace_name",
]
