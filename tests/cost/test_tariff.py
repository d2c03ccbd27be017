"""Prices, as a user writes them."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tandem.cost.tariff import DEFAULT_TARIFF, Tariff, read_tariff
from tandem.errors import ConfigurationError
from tests.markers import mission

TARIFF = """
currency = "EUR"
price_per_million_units = "0.80"
free_operations = ["complete"]

[[rate]]
operation = "ping"
price_per_million_units = "0.10"

[[rate]]
entity = "shop/x-servicebus-transfer/*"
stage = "backlog"
price_per_million_units = 2
"""


def tariff(folder: Path, text: str = TARIFF) -> Tariff:
    path = folder / "tariff.toml"
    path.write_text(text)
    return read_tariff(path)


@mission("M29")
def test_the_first_rate_that_fits_is_the_price(tmp_path: Path) -> None:
    prices = tariff(tmp_path)
    million = Decimal(1_000_000)
    assert prices.price_of("shop", "orders", "send", "direct") * million == Decimal("0.80")
    assert prices.price_of("shop", "orders", "ping", "direct") * million == Decimal("0.10")
    assert prices.price_of("b", "shop/x-servicebus-transfer/3", "send", "backlog") * million == 2
    assert prices.price_of("b", "shop/x-servicebus-transfer/3", "receive", "syphon") * million == Decimal("0.80")
    assert prices.price_of("shop", "orders", "complete", "direct") == 0


BANDWIDTH = """
price_per_million_units = "0.80"
price_per_gigabyte_in = "0.000001"
price_per_gigabyte_out = "0.05"

[[rate]]
stage = "syphon"
price_per_gigabyte_out = "0.02"

[[rate]]
entity = "orders"
price_per_million_units = "1"
"""


@mission("M29")
def test_bandwidth_has_a_price_for_each_direction(tmp_path: Path) -> None:
    prices = tariff(tmp_path, BANDWIDTH)
    gigabyte = 1_000_000_000
    assert prices.price_of_byte("shop", "orders", "send", "direct") * gigabyte == Decimal("0.000001")
    assert prices.price_of_byte("shop", "orders", "receive", "direct") * gigabyte == Decimal("0.05")
    assert prices.price_of_byte("shop", "orders", "complete", "direct") == 0, "it carries no message"


@mission("M29")
def test_a_rate_changes_only_the_prices_that_it_names(tmp_path: Path) -> None:
    prices = tariff(tmp_path, BANDWIDTH)
    assert prices.price_of_byte("b", "orders", "receive", "syphon") * 1_000_000_000 == Decimal("0.02")
    assert prices.price_of_byte("b", "orders", "send", "syphon") * 1_000_000_000 == Decimal("0.000001")
    assert prices.price_of("b", "orders", "receive", "syphon") * 1_000_000 == 1, "by the second rate"
    assert prices.price_of("b", "invoices", "receive", "syphon") * 1_000_000 == Decimal("0.80")


@mission("M29")
def test_a_price_list_without_bandwidth_is_read_as_before_and_bandwidth_is_free(tmp_path: Path) -> None:
    for prices in (tariff(tmp_path), DEFAULT_TARIFF):
        for operation in ("send", "receive"):
            assert prices.price_of_byte("shop", "orders", operation, "direct") == 0


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("price_per_million_units = 0.8", "write it as a text"),
        ('price_per_million_units = "-1"', "write it as a text"),
        ('price_per_million_units = "0.1234567"', "at most 6 digits"),
        ("currency = 'EUR'", "price_per_million_units is None"),
        ('price = "1"', "has 'price'"),
        ("[rate", "is not valid TOML"),
        ('price_per_million_units = "1"\nrate = 1', r"must be written as \[\[rate\]\]"),
        ('price_per_million_units = "1"\nprice_per_gigabyte_out = 0.05', "price_per_gigabyte_out is 0.05; write it as"),
        ('price_per_million_units = "1"\nprice_per_gigabyte_in = "-1"', "price_per_gigabyte_in is '-1'"),
        ('price_per_million_units = "1"\n[[rate]]\nstage = "syphon"', "a rate without a price; give it one of"),
    ],
)
def test_a_price_list_that_cannot_be_read_says_where(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        tariff(tmp_path, text)


def test_a_price_list_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing\.toml cannot be read"):
        read_tariff(tmp_path / "nothing.toml")
    assert read_tariff(None) is DEFAULT_TARIFF
