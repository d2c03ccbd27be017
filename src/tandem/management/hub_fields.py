"""What the fields of a request, or of a configuration, make of an event hub."""

from __future__ import annotations

from collections.abc import Mapping

from tandem.engine.hubs.description import OPERATIONS_HUB, EventHubDescription
from tandem.errors import ArgumentError

__all__ = ["new_hub"]


def new_hub(fields: Mapping[str, object]) -> EventHubDescription:
    """Return the description of a hub that a user wants to have."""
    name = fields.get("name")
    if isinstance(name, str) and name.lower() == OPERATIONS_HUB:
        raise ArgumentError.of(
            "{field} {value} is that of a hub which only the broker makes: choose another one", "name", value=name
        )
    return EventHubDescription.from_fields(dict(fields))
