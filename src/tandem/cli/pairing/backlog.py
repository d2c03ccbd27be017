"""What the backlog queues of a pair can take, as `tandem pair check` judges it: how much, and how large a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tandem.cli.pairing.capacity import capacity_fields, capacity_sentences, is_enough

if TYPE_CHECKING:
    from tandem.client import NamespaceManager, QueueDescription

__all__ = ["Backlog", "Demand", "Verdict"]

# Kilobytes. What an entity takes if its description does not say.
_DEFAULT_MESSAGE_KILOBYTES: Final = 256

_MEGABYTE: Final = 1_048_576


@dataclass(frozen=True)
class Demand:
    """The outage that a backlog is to absorb; without a rate, how long an outage it absorbs is not known."""

    messages_per_second: Decimal | None
    message_bytes: int
    outage_s: int


@dataclass(frozen=True)
class Verdict:
    is_ok: bool
    detail: str
    # For programs.
    figures: dict[str, Any] | None = None


@dataclass(frozen=True)
class Backlog:
    """The backlog queues of a pair by their paths, None where pairing has yet to create one."""

    queues: Mapping[str, QueueDescription | None]
    # What the secondary permits, None if it leaves no choice.
    secondary_message_kilobytes: int | None

    def judge_room(self, demand: Demand) -> Verdict:
        """Compare the room that is left in the queues with what an outage brings."""
        from tandem.cost.backlog_capacity import BacklogCapacity

        free_bytes = [_free_bytes(queue) for queue in self.queues.values()]
        if demand.messages_per_second is None:
            return Verdict(
                True,
                f"{len(free_bytes):,} backlog queues have {sum(free_bytes) >> 20:,} MB free; --rate says how long an "
                "outage they absorb",
            )
        capacity = BacklogCapacity(free_bytes, demand.message_bytes, demand.messages_per_second)
        return Verdict(
            is_enough(capacity, demand.outage_s),
            " ".join(capacity_sentences(capacity, demand.outage_s)),
            capacity_fields(capacity, demand.outage_s),
        )

    async def judge_message_size(self, primary: NamespaceManager) -> Verdict:
        """Compare the largest message that an entity of the primary takes with what the backlog queues take."""
        path, smallest_kb = min(((path, self._limit_kb(path)) for path in self.queues), key=lambda one: one[1])
        largest = await _largest(primary)
        if largest is None:
            return Verdict(
                True,
                f"each takes {smallest_kb:,} KB or more; the entities of the primary cannot be listed, which needs the "
                "right Manage there",
            )
        entity, largest_kb = largest
        if smallest_kb >= largest_kb:
            room = "" if smallest_kb > largest_kb else ", less what rewriting adds to them"
            return Verdict(True, f"messages of the largest size, {largest_kb:,} KB, can take the detour{room}")
        return Verdict(
            False,
            f"'{entity}' of the primary takes messages of {largest_kb:,} KB and {path} only {smallest_kb:,} KB: larger "
            f"messages cannot take the detour. {self._advice(path, largest_kb)}",
        )

    def _limit_kb(self, path: str) -> int:
        queue = self.queues[path]
        found = self.secondary_message_kilobytes if queue is None else queue.max_message_size_in_kilobytes
        return found or _DEFAULT_MESSAGE_KILOBYTES

    def _advice(self, path: str, wanted_kb: int) -> str:
        permitted_kb = self.secondary_message_kilobytes or 0
        if permitted_kb < wanted_kb:
            return "The secondary permits no larger ones: send smaller messages, or pair with a namespace that does"
        size_kb = min(permitted_kb, wanted_kb + 1)
        return f"At the secondary: tandem queue update {path} --max-message-size-in-kilobytes {size_kb}"


def _free_bytes(queue: QueueDescription | None) -> int:
    from tandem.cost.backlog_capacity import BACKLOG_QUEUE_MEGABYTES

    if queue is None:
        return BACKLOG_QUEUE_MEGABYTES * _MEGABYTE
    return max(0, queue.max_size_in_megabytes * _MEGABYTE - (queue.size_in_bytes or 0))


async def _largest(primary: NamespaceManager) -> tuple[str, int] | None:
    """Return the entity that takes the largest messages, and their size; None if the entities cannot be listed."""
    from tandem.client import MessagingError
    from tandem.engine.metering import BACKLOG_QUEUES

    try:
        queues, topics = await primary.get_queues(), await primary.get_topics()
    except MessagingError:
        return None
    sizes = {one.path: one.max_message_size_in_kilobytes for one in queues if BACKLOG_QUEUES not in one.path.lower()}
    sizes |= {one.path: one.max_message_size_in_kilobytes for one in topics}
    known = [(path, size_kb or _DEFAULT_MESSAGE_KILOBYTES) for path, size_kb in sizes.items()]
    return max(known, key=lambda one: one[1], default=("", _DEFAULT_MESSAGE_KILOBYTES))
