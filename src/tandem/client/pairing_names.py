"""The options of a pair of namespaces, importable from `tandem.client` as the .NET library has them beside the client.

`tandem.pairing` is above `tandem.client` and imports it, so it is loaded only when a program asks for one of the names.
"""

from __future__ import annotations

import importlib
from typing import Final

__all__ = ["load_pairing_name"]

_NAMES: Final = ("PairedNamespaceOptions", "SendAvailabilityPairedNamespaceOptions")


def load_pairing_name(name: str) -> object:
    """Return a name of `tandem.pairing`. Serves as `__getattr__` of a module, which raises for all other names."""
    if name not in _NAMES:
        raise AttributeError(f"module 'tandem.client' has no attribute {name!r}")
    return getattr(importlib.import_module("tandem.pairing"), name)
