"""Prices of operations and of bandwidth, in a TOML file that a user can edit. Money is decimal, never a float.

    currency = "USD"
    price_per_million_units = "0.80"
    price_per_gigabyte_in = "0"       # bandwidth: bytes of messages that the namespace takes
    price_per_gigabyte_out = "0.05"   # bandwidth: bytes of messages that leave it
    free_operations = ["complete", "abandon", "renew"]

    [[rate]]                          # takes precedence over the prices above, for the prices that it names
    operation = "ping"
    stage = "backlog"
    price_per_million_units = "0.10"

A unit is one operation, or 64 KB of it if it carries more. A gigabyte is 1,000,000,000 bytes. Bandwidth costs nothing
unless a price is given. Operations that failed are free.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from tandem.errors import ConfigurationError
from tandem.limits import MAX_PRICE_DIGITS
from tandem.location import Location, LocationError, LocationLike

__all__ = ["DEFAULT_TARIFF", "INBOUND_OPERATIONS", "OUTBOUND_OPERATIONS", "Rate", "Tariff", "read_tariff"]

# A price for a million with six digits behind the point has twelve for a single unit, and one for a gigabyte has
# fifteen for a single byte: decimals hold both exactly.
_MILLION: Final = Decimal(1_000_000)
_GIGABYTE: Final = Decimal(1_000_000_000)

# The price for units, and those for bandwidth.
_UNITS: Final = "price_per_million_units"
_IN: Final = "price_per_gigabyte_in"
_OUT: Final = "price_per_gigabyte_out"
_PRICES: Final = (_UNITS, _IN, _OUT)

_SELECTORS: Final = ("namespace", "entity", "operation", "stage")
_FIELDS: Final = ("currency", *_PRICES, "free_operations", "rate")
_RATE_FIELDS: Final = (*_SELECTORS, *_PRICES)

# Settling what was received belongs to the receive, as the mission counts it: four operations for a detour.
_FREE: Final = ("complete", "abandon", "defer", "dead-letter", "renew")

# Operations whose bytes enter the namespace, and those whose bytes leave it. Of all others the broker counts no bytes.
INBOUND_OPERATIONS: Final = ("send", "ping", "schedule")
OUTBOUND_OPERATIONS: Final = ("receive",)

_FREE_OF_CHARGE: Final = Decimal(0)


class TariffError(ConfigurationError):
    """A price list that cannot be read. The message names the file, the field, its value and what is allowed."""


@dataclass(frozen=True)
class Rate:
    """Prices for those operations that fit all that it names. An entity may end in `*`.

    A price that is None is that of the next rate that fits, or of the tariff.
    """

    price_per_unit: Decimal | None = None
    namespace: str | None = None
    entity: str | None = None
    operation: str | None = None
    stage: str | None = None
    price_per_byte_in: Decimal | None = None
    price_per_byte_out: Decimal | None = None

    def fits(self, namespace: str, entity: str, operation: str, stage: str) -> bool:
        named = ((self.namespace, namespace), (self.operation, operation), (self.stage, stage))
        return all(wanted is None or wanted == given for wanted, given in named) and self._fits_entity(entity)

    def _fits_entity(self, entity: str) -> bool:
        if self.entity is None:
            return True
        if self.entity.endswith("*"):
            return entity.startswith(self.entity[:-1])
        return entity == self.entity


@dataclass(frozen=True)
class Tariff:
    """A price list. Bandwidth costs nothing by default."""

    currency: str
    price_per_unit: Decimal
    free_operations: tuple[str, ...] = _FREE
    rates: tuple[Rate, ...] = ()
    price_per_byte_in: Decimal = _FREE_OF_CHARGE
    price_per_byte_out: Decimal = _FREE_OF_CHARGE

    def price_of(self, namespace: str, entity: str, operation: str, stage: str) -> Decimal:
        """Return the price of one unit."""
        if operation in self.free_operations:
            return _FREE_OF_CHARGE
        for rate in self.rates:
            if rate.price_per_unit is not None and rate.fits(namespace, entity, operation, stage):
                return rate.price_per_unit
        return self.price_per_unit

    def price_of_byte(self, namespace: str, entity: str, operation: str, stage: str) -> Decimal:
        """Return the price of one byte of a message that the operation carries into the namespace or out of it."""
        is_in, is_out = operation in INBOUND_OPERATIONS, operation in OUTBOUND_OPERATIONS
        if not is_in and not is_out:
            return _FREE_OF_CHARGE
        for rate in self.rates:
            price = rate.price_per_byte_in if is_in else rate.price_per_byte_out
            if price is not None and rate.fits(namespace, entity, operation, stage):
                return price
        return self.price_per_byte_in if is_in else self.price_per_byte_out


# An example to be edited: what the standard tier of the cloud service has charged beyond its included operations.
DEFAULT_TARIFF: Final = Tariff("USD", Decimal("0.80") / _MILLION)


def read_tariff(path: LocationLike | None) -> Tariff:
    """Read the price list in a file; return the example if there is none."""
    if path is None:
        return DEFAULT_TARIFF
    try:
        fields = tomllib.loads(Location(path).read_text())
    except LocationError as error:
        raise TariffError(f"the tariff {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise TariffError(f"the tariff {path} is not valid TOML: {error}") from None
    _check_names(path, fields, _FIELDS)
    rates = fields.get("rate", [])
    if not isinstance(rates, list) or not all(isinstance(rate, dict) for rate in rates):
        raise TariffError(f"the tariff {path}: rate must be written as [[rate]]")
    return Tariff(
        str(fields.get("currency", DEFAULT_TARIFF.currency)),
        _price(path, fields, _UNITS) / _MILLION,
        tuple(str(one) for one in fields.get("free_operations", _FREE)),
        tuple(_rate(path, rate) for rate in rates),
        _price(path, {_IN: "0", **fields}, _IN) / _GIGABYTE,
        _price(path, {_OUT: "0", **fields}, _OUT) / _GIGABYTE,
    )


def _rate(path: LocationLike, fields: Mapping[str, Any]) -> Rate:
    _check_names(path, fields, _RATE_FIELDS)
    if not any(name in fields for name in _PRICES):
        raise TariffError(f"the tariff {path} has a rate without a price; give it one of {', '.join(_PRICES)}")
    prices = {name: _price(path, fields, name) for name in _PRICES if name in fields}
    return Rate(
        _per(prices.get(_UNITS), _MILLION),
        **{name: str(fields[name]) for name in _SELECTORS if name in fields},
        price_per_byte_in=_per(prices.get(_IN), _GIGABYTE),
        price_per_byte_out=_per(prices.get(_OUT), _GIGABYTE),
    )


def _per(price: Decimal | None, count: Decimal) -> Decimal | None:
    return None if price is None else price / count


def _check_names(path: LocationLike, fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in fields:
        if name not in known:
            raise TariffError(f"the tariff {path} has {name!r:.80}; there are {', '.join(known)}")


def _price(path: LocationLike, fields: Mapping[str, Any], name: str) -> Decimal:
    given = fields.get(name)
    # A float of TOML has lost its last digits before we see it.
    price = None
    if isinstance(given, str | int) and not isinstance(given, bool):
        try:
            price = Decimal(given)
        except InvalidOperation:
            price = None
    if price is None or not price.is_finite() or price < 0 or int(price.as_tuple().exponent) < -MAX_PRICE_DIGITS:
        raise TariffError(
            f'the tariff {path}: {name} is {given!r:.80}; write it as a text such as "0.80", with at most '
            f"{MAX_PRICE_DIGITS} digits behind the point"
        )
    return price
