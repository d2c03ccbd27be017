"""How many examples the property tests draw."""

from __future__ import annotations

from tandem._form import is_pure_requested

__all__ = ["examples"]


def examples(count: int) -> int:
    """So many; fewer where the sources are tested beside the compiled form, which is faster and draws them all."""
    return max(10, count * 3 // 10) if is_pure_requested() else count
