"""IEEE 754-2008 decimal interchange formats in the binary integer (BID) encoding, to and from `decimal.Decimal`.

AMQP 1.0 part 1.6.13 to 1.6.15 choose BID for decimal32, decimal64 and decimal128. A number is laid out as

    sign (1) | exponent (E) | significand (rest)                       when the two bits after the sign are not 11
    sign (1) | 11 | exponent (E) | significand (rest)                  the significand has 100 in front of its bits
    sign (1) | 11110 | ignored                                         infinity
    sign (1) | 111110 / 111111 | ignored | payload                     quiet / signalling NaN

A significand above 10^precision - 1 is non-canonical and stands for zero; so does such a NaN payload.

Microsoft.Azure.Amqp, which .NET clients and the service use, writes another layout of decimal128: the upper part of the
exponent lies two bits lower than in BID. Its numbers are those of .NET: 96 bits of significand and 0 to 28 digits
behind the point, so that the first byte below the sign is always 0x0C where BID has 0x30. The service reads both
layouts and delivers its own. The official Python SDK writes BID, and reads only the layout of the service.
"""

from __future__ import annotations

import decimal
from typing import Final

from tandem.errors import DecodeError, EncodeError

__all__ = ["decimal_from_bid", "decimal_from_decimal128", "decimal_to_bid", "to_service_layout"]

# By length in bytes: significant digits, bits of the exponent, bias of the exponent (table 3.6 of the standard).
_PRECISION: Final = {4: 7, 8: 16, 16: 34}
_EXPONENT_BITS: Final = {4: 8, 8: 10, 16: 14}
_BIAS: Final = {4: 101, 8: 398, 16: 6176}

# The layout of Microsoft.Azure.Amqp: the first byte without the sign, and in BID what stands in its place.
_SERVICE_FIRST_BYTE: Final = 0x0C
_BID_FIRST_BYTE: Final = 0x30
_MAX_SERVICE_SIGNIFICAND: Final = (1 << 96) - 1
# Digits behind the point.
_MAX_SERVICE_PLACES: Final = 28


def decimal_from_decimal128(raw: bytes) -> decimal.Decimal:
    """Return the value of 16 bytes in the layout of the service, or else in BID.

    Some bytes mean a number in both: the layout of the service is BID with an exponent of -4608 to -4636. The service
    decides as this function does.
    """
    if raw[0] & 0x7F == _SERVICE_FIRST_BYTE and _is_within_service_layout(raw):
        raw = bytes((raw[0] & 0x80 | _BID_FIRST_BYTE,)) + raw[1:]
    return decimal_from_bid(raw)


def to_service_layout(raw: bytes) -> bytes:
    """Return the same number in the layout of the service; unchanged if .NET has no such number."""
    sign, digits, exponent = decimal_from_decimal128(raw).as_tuple()
    if not isinstance(exponent, int):
        return raw
    significand = int("".join([str(digit) for digit in digits]))
    places = -exponent
    if significand == 0:
        places = max(0, min(places, _MAX_SERVICE_PLACES))
    elif -_MAX_SERVICE_PLACES <= places < 0:
        significand *= 10**-places
        places = 0
    while places > _MAX_SERVICE_PLACES and significand % 10 == 0:
        significand //= 10
        places -= 1
    if significand > _MAX_SERVICE_SIGNIFICAND or not 0 <= places <= _MAX_SERVICE_PLACES:
        return raw
    biased = _BIAS[16] - places
    first = sign << 7 | _SERVICE_FIRST_BYTE
    return bytes((first, (biased & 0x7F) << 1, 0, 0)) + significand.to_bytes(12, "big")


def _is_within_service_layout(raw: bytes) -> bool:
    """Return whether everything behind the first byte can be a number of .NET."""
    places = (_BIAS[16] & 0x7F) - (raw[1] >> 1)
    return 0 <= places <= _MAX_SERVICE_PLACES and not raw[1] & 1 and raw[2] == 0 and raw[3] == 0


def decimal_from_bid(raw: bytes) -> decimal.Decimal:
    """The exact value of 4, 8 or 16 bytes of BID, in network byte order."""
    length = len(raw)
    if length not in _PRECISION:
        raise DecodeError(f"a decimal takes 4, 8 or 16 bytes, not {length}")
    precision = _PRECISION[length]
    exponent_bits = _EXPONENT_BITS[length]
    below_sign = length * 8 - 1
    bits = int.from_bytes(raw, "big")
    minus = "-" if bits >> below_sign else ""
    top_five = (bits >> (below_sign - 5)) & 0b11111
    if top_five == 0b11110:
        return decimal.Decimal(f"{minus}Infinity")
    if top_five == 0b11111:
        kind = "sNaN" if (bits >> (below_sign - 6)) & 1 else "NaN"
        # The payload fills the trailing significand field: all bits behind the sign, the exponent and three more.
        payload = bits & ((1 << (below_sign - exponent_bits - 3)) - 1)
        return decimal.Decimal(f"{minus}{kind}{payload if payload < 10 ** (precision - 1) else 0}")
    if top_five >> 3 == 0b11:
        significand_bits = below_sign - exponent_bits - 2
        significand = (0b100 << significand_bits) | (bits & ((1 << significand_bits) - 1))
    else:
        significand_bits = below_sign - exponent_bits
        significand = bits & ((1 << significand_bits) - 1)
    exponent = ((bits >> significand_bits) & ((1 << exponent_bits) - 1)) - _BIAS[length]
    # A string, since it is exact whatever the caller's decimal context is.
    return decimal.Decimal(f"{minus}{significand if significand < 10**precision else 0}E{exponent}")


def decimal_to_bid(value: decimal.Decimal, length: int) -> bytes:
    """The canonical BID of `value` in 4, 8 or 16 bytes. Never rounds: a value that does not fit is an EncodeError."""
    precision = _PRECISION[length]
    exponent_bits = _EXPONENT_BITS[length]
    below_sign = length * 8 - 1
    sign, digits, exponent = value.as_tuple()
    bits = sign << below_sign
    coefficient = int("".join([str(digit) for digit in digits]) or "0")
    if exponent == "F":
        bits |= 0b11110 << (below_sign - 5)
    elif exponent in ("n", "N"):
        if coefficient >= 10 ** (precision - 1):
            raise EncodeError(f"the payload of {value} has more than the {precision - 1} digits of decimal{length * 8}")
        bits |= (0b111111 if exponent == "N" else 0b111110) << (below_sign - 6) | coefficient
    else:
        coefficient, exponent = _fit(value, coefficient, int(exponent), length)
        significand_bits = below_sign - exponent_bits
        if coefficient >> significand_bits:
            significand_bits -= 2
            bits |= 0b11 << (below_sign - 2) | coefficient & ((1 << significand_bits) - 1)
        else:
            bits |= coefficient
        bits |= (exponent + _BIAS[length]) << significand_bits
    return bits.to_bytes(length, "big")


def _fit(value: decimal.Decimal, coefficient: int, exponent: int, length: int) -> tuple[int, int]:
    """Move zeros between coefficient and exponent until both are in range, without changing the value."""
    precision = _PRECISION[length]
    lowest = -_BIAS[length]
    highest = (3 << (_EXPONENT_BITS[length] - 2)) - 1 - _BIAS[length]
    if coefficient == 0:
        return 0, min(max(exponent, lowest), highest)
    digits = len(str(coefficient))
    surplus = max(digits - precision, lowest - exponent)
    if surplus > 0:
        # A surplus beyond all digits cannot divide a coefficient that is not zero; do not build the power of ten.
        divisor = 10 ** min(surplus, digits)
        if coefficient % divisor:
            raise EncodeError(f"{value} does not fit in the {precision} digits of decimal{length * 8}; round it first")
        coefficient //= divisor
        exponent += surplus
    elif exponent > highest and exponent - highest <= precision - digits:
        coefficient *= 10 ** (exponent - highest)
        exponent = highest
    if exponent > highest:
        raise EncodeError(f"{value} is beyond the largest exponent of decimal{length * 8}, {highest}")
    return coefficient, exponent
