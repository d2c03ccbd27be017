"""Single values in Spark's encoding of variants: what properties of events are, whose types differ from name to name.

The first byte has the kind of the value in its lower two bits, and its type or its length in the others. Objects and
lists have dictionaries of their own, and are not values of properties.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Final

__all__ = ["scalar_of"]

_PRIMITIVE: Final = 0
_SHORT_STRING: Final = 1

_NUMBERS: Final = {3: "<b", 4: "<h", 5: "<i", 6: "<q", 7: "<d", 14: "<f"}
_TRUE, _FALSE, _TIMESTAMP, _BINARY, _STRING = 1, 2, 12, 15, 16

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def scalar_of(value: bytes) -> object:
    """Return a number, a text, bytes, a truth value or a time; None for null and for any other type."""
    kind, header = value[0] & 3, value[0] >> 2
    if kind == _SHORT_STRING:
        return value[1 : 1 + header].decode()
    if kind != _PRIMITIVE:
        return None
    if header in {_TRUE, _FALSE}:
        return header == _TRUE
    if header in _NUMBERS:
        return struct.unpack_from(_NUMBERS[header], value, 1)[0]
    if header == _TIMESTAMP:
        return _EPOCH + timedelta(microseconds=struct.unpack_from("<q", value, 1)[0])
    if header in {_BINARY, _STRING}:
        content = value[5 : 5 + struct.unpack_from("<I", value, 1)[0]]
        return content.decode() if header == _STRING else content
    return None
