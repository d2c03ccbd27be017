"""What the action of a rule makes of a message.

The result holds the changed properties only. The body, which no action changes, is shared by all copies of the message:
2,000 rules with actions would otherwise hold a message 2,000 times.
"""

from __future__ import annotations

from typing import Final

from tandem import wire_names
from tandem.amqp.sections import locate
from tandem.amqp.stored import Stored
from tandem.amqp.types import Timestamp
from tandem.engine.rule import Rule
from tandem.limits import MAX_ACTED_BYTES, MAX_HEADER_BYTES
from tandem.rules import RuleEvaluationError, Subject, apply_changes

__all__ = ["Acted", "Acting"]

# System properties that are annotations of a message, by the names that actions give them.
_ANNOTATIONS: Final = {
    "partition_key": wire_names.PARTITION_KEY,
    "via_partition_key": wire_names.VIA_PARTITION_KEY,
    "scheduled_enqueue_time_ms": wire_names.SCHEDULED_ENQUEUE_TIME,
}

# Units of work, as `RULE_WORK_PER_TURN` has them: an action beside its expressions, and for each byte of the
# properties that it writes anew.
_ACTION_WORK: Final = 5_000
_BYTE_WORK: Final = 1


class Acted:
    """The bytes of one copy, its time to live if the action sets one, and by how much it has grown."""

    __slots__ = ("added_bytes", "stored", "time_to_live_ms")

    def __init__(self, stored: Stored, time_to_live_ms: int | None, added_bytes: int) -> None:
        self.stored = stored
        self.time_to_live_ms = time_to_live_ms
        self.added_bytes = added_bytes


class Acting:
    """The actions of all rules that select one message."""

    __slots__ = ("_held_bytes", "_split", "_stored")

    def __init__(self, stored: Stored) -> None:
        self._stored = stored
        self._split: Stored | None = None
        # What the results hold together.
        self._held_bytes = 0

    def act(self, subject: Subject, rule: Rule) -> Acted:
        """Do what the action of a rule says. RuleEvaluationError if it cannot be done."""
        action = rule.action
        assert action is not None
        split = self._split
        if split is None:
            split = self._split = self._stored.split(locate(self._stored.bare).body_start())
        changes = action.apply(subject)
        changes.user["RuleName"] = rule.name
        front = apply_changes(split.front, changes)
        subject.work += _ACTION_WORK + _BYTE_WORK * (len(split.front) + len(front))
        added_bytes = len(front) - len(split.front)
        if added_bytes > MAX_HEADER_BYTES:
            raise RuleEvaluationError(
                f"the action adds {added_bytes} bytes to the properties of the message; at most {MAX_HEADER_BYTES} are "
                "allowed"
            )
        if self._held_bytes + len(front) > MAX_ACTED_BYTES:
            raise RuleEvaluationError(
                f"the properties of all copies that actions make of the message take more than {MAX_ACTED_BYTES} bytes"
            )
        self._held_bytes += len(front)
        return _with_system(split.with_front(front), changes.system, added_bytes)


def _with_system(changed: Stored, system: dict[str, object], added_bytes: int) -> Acted:
    """Write the system properties that are not in the bare message."""
    time_to_live_ms = system.get("time_to_live_ms")
    if isinstance(time_to_live_ms, int):
        changed = changed.with_time_to_live(time_to_live_ms)
    # Not acted upon here; the next entity does, if the copy is forwarded.
    annotations: dict[str, object] = {}
    for name, value in system.items():
        if name in _ANNOTATIONS:
            annotations[_ANNOTATIONS[name]] = Timestamp(value) if isinstance(value, int) else value
    if annotations:
        changed = changed.with_annotations(annotations)
    return Acted(changed, time_to_live_ms if isinstance(time_to_live_ms, int) else None, added_bytes)
