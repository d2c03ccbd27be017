"""Application properties that are set on a message that is stored."""

from __future__ import annotations

from collections.abc import Mapping

from tandem.amqp.rewriting import with_application_properties
from tandem.errors import DecodeError

__all__ = ["modified"]


def modified(bare: bytes, properties: Mapping[str, object]) -> bytes:
    """The same message with these properties.

    A message is taken without a look into its properties. When they turn out to be no AMQP the message stays as it
    was sent: whoever sent it must not be able to stop the store by having it dead-lettered.
    """
    try:
        return with_application_properties(bare, properties)
    except DecodeError:
        return bare
