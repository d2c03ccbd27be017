"""Every bound that a user can meet is in `tandem.limits`, with its unit and its reason, and on the page of limits."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tandem import limits
from tools.generate_docs import limits_page

ROOT = Path(__file__).resolve().parents[2]

# Public names of bounds outside of `tandem.limits`: facts about types and formats, and parts of no concern to users.
ELSEWHERE: Final = {
    "MAX_DATETIME_TICKS": "the last moment of .NET's DateTime",
    "MAX_EXPLAINED_RULES": "is MAX_RULES_PER_SUBSCRIPTION",
    "MAX_INT64": "a type",
    "MAX_POINTS": "what can be seen of a line in a picture",
    "MAX_PORT": "of TCP",
    "MAX_SALVAGES": "a step of the broker's own ladder",
    "MAX_STATE_BYTES": "how a transfer is laid out",
    "MAX_UINT": "a type",
    "MAX_USHORT": "a type",
    "MIN_DATA_OFFSET_WORDS": "of a frame",
    "MIN_INT64": "a type",
    "MIN_MEMORY_BYTES": "the smallest limit in memory of a test bus",
    "MIN_TIMEOUT_S": "what the official SDK takes as a time-out",
}


def test_every_limit_is_on_the_page_with_a_unit_and_a_reason() -> None:
    rows = re.findall(r"^\| `([A-Z_0-9]+)` \| ([\d,.]+) \| (.*?) \| (.*?) \|$", limits_page(), re.MULTILINE)
    assert {name for name, *_ in rows} == {name for name in vars(limits) if name.isupper()}
    assert [name for name, _, unit, _ in rows if not 1 <= len(unit.split()) <= 5] == []
    assert [name for name, *_, reason in rows if not reason] == []


def test_a_bound_that_a_user_can_meet_is_defined_among_the_limits() -> None:
    found = {
        name
        for path in (ROOT / "src").rglob("*.py")
        if path.name not in {"limits.py", "wire_names.py"}
        for name in re.findall(r"^((?:MAX|MIN)_[A-Z_0-9]+): Final", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found - set(ELSEWHERE) == set()
