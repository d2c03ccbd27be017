"""An amount of money as people read it."""

from __future__ import annotations

from decimal import Decimal

__all__ = ["money_text"]


def money_text(amount: Decimal) -> str:
    """With two digits behind the point, and more where that would hide all of it."""
    return f"{amount:,.2f}" if amount == 0 or amount >= Decimal("0.01") else f"{amount:,.8f}".rstrip("0")
