"""Amounts as people read them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tandem.cost.money import money_text


@pytest.mark.parametrize(
    "amount, text", [("0", "0.00"), ("1234.5", "1,234.50"), ("0.00000072", "0.00000072"), ("0.005", "0.005")]
)
def test_small_sums_of_money_are_not_hidden(amount: str, text: str) -> None:
    assert money_text(Decimal(amount)) == text
