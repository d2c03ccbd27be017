"""What operations cost: a price list in TOML that a user can edit. Money is decimal, never a float.

    currency = "USD"
    price_per_million_units = "0.80"
    free_operations = ["complete", "abandon", "renew"]

    [[rate]]                        # the first one that fits takes precedence over the price above
    operation = "ping"
    stage = "backlog"
    price_per_million_units = "0.10"

A unit is one operation, or 64 KB of it if it carries more. Operations that failed are free.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from tandem.errors import ConfigurationError

__all__ = ["DEFAULT_TARIFF", "Rate", "Tariff", "read_tariff"]

# A price for a million with six digits behind the point has twelve for a single unit, which decimals hold exactly.
MAX_PRICE_DIGITS: Final = 6
_MILLION: Final = Decimal(1_000_000)

_FIELDS: Final = ("currency", "price_per_million_units", "free_operations", "rate")
_RATE_FIELDS: Final = ("namespace", "entity", "operation", "stage", "price_per_million_units")

# Settling what was received belongs to the receive, as the mission counts it: four operations for a detour.
_FREE: Final = ("complete", "abandon", "defer", "dead-letter", "renew")


class TariffError(ConfigurationError):
    """A price list that cannot be read. The message names the file, the field, its value and what is allowed."""


@dataclass(frozen=True)
class Rate:
    """A price for those operations that fit all that it names. An entity may end in `*`."""

    price_per_unit: Decimal
    namespace: str | None = None
    entity: str | None = None
    operation: str | None = None
    stage: str | None = None

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
    """A price list."""

    currency: str
    price_per_unit: Decimal
    free_operations: tuple[str, ...] = _FREE
    rates: tuple[Rate, ...] = ()

    def price_of(self, namespace: str, entity: str, operation: str, stage: str) -> Decimal:
        """Of one unit."""
        if operation in self.free_operations:
            return Decimal(0)
        for rate in self.rates:
            if rate.fits(namespace, entity, operation, stage):
                return rate.price_per_unit
        return self.price_per_unit


# An example to be edited: what the standard tier of the cloud service has charged beyond its included operations.
DEFAULT_TARIFF: Final = Tariff("USD", Decimal("0.80") / _MILLION)


def read_tariff(path: Path | None) -> Tariff:
    """The price list in a file; the example if there is none."""
    if path is None:
        return DEFAULT_TARIFF
    try:
        fields = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TariffError(f"the tariff {path} cannot be read: {error.strerror or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise TariffError(f"the tariff {path} is no TOML: {error}") from None
    _check_names(path, fields, _FIELDS)
    rates = fields.get("rate", [])
    if not isinstance(rates, list) or not all(isinstance(rate, dict) for rate in rates):
        raise TariffError(f"the tariff {path}: rate must be written as [[rate]]")
    return Tariff(
        str(fields.get("currency", DEFAULT_TARIFF.currency)),
        _price(path, fields),
        tuple(str(one) for one in fields.get("free_operations", _FREE)),
        tuple(_rate(path, rate) for rate in rates),
    )


def _rate(path: Path, fields: Mapping[str, Any]) -> Rate:
    _check_names(path, fields, _RATE_FIELDS)
    names = {name: str(fields[name]) for name in _RATE_FIELDS[:4] if name in fields}
    return Rate(_price(path, fields), **names)


def _check_names(path: Path, fields: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in fields:
        if name not in known:
            raise TariffError(f"the tariff {path} has {name!r:.80}; there are {', '.join(known)}")


def _price(path: Path, fields: Mapping[str, Any]) -> Decimal:
    given = fields.get("price_per_million_units")
    # A float of TOML has lost its last digits before we see it.
    price = None
    if isinstance(given, str | int) and not isinstance(given, bool):
        try:
            price = Decimal(given)
        except InvalidOperation:
            price = None
    if price is None or not price.is_finite() or price < 0 or int(price.as_tuple().exponent) < -MAX_PRICE_DIGITS:
        raise TariffError(
            f'the tariff {path}: price_per_million_units is {given!r:.80}; write it as a text such as "0.80", with at '
            f"most {MAX_PRICE_DIGITS} digits behind the point"
        )
    return price / _MILLION
