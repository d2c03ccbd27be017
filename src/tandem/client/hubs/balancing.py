"""Which partitions a processor takes. Pure: what the store says and the time in, claims out.

Every processor decides alone, from the same ownerships, and towards the same end: each has its fair share, which is the
number of partitions divided by the number of processors, and one more where that leaves a remainder. A processor takes
all that nobody owns up to its share at once. When none is free it takes one from whoever has most, if that one has too
many; one at a time, since the others see the same and do the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tandem.client.hubs.checkpoint_store import Ownership

__all__ = ["choose_claims"]


def choose_claims(
    partition_ids: Sequence[str],
    ownerships: Sequence[Ownership],
    owner_id: str,
    now_s: float,
    expiry_s: float,
    choose: Callable[[Sequence[str]], str],
) -> list[Ownership]:
    """What `owner_id` should claim now: what it has, to keep it, and what it should have besides."""
    known = {one.partition_id: one for one in ownerships}
    owned: dict[str, list[str]] = {owner_id: []}
    free: list[str] = []
    for partition_id in partition_ids:
        one = known.get(partition_id)
        if one is None or not one.owner_id or one.renewed_at_s + expiry_s <= now_s:
            free.append(partition_id)
        else:
            owned.setdefault(one.owner_id, []).append(partition_id)
    mine = owned[owner_id]
    wanted = list(mine)
    room = _share(owned, owner_id, len(partition_ids)) - len(mine)
    while free and room > 0:
        partition_id = choose(free)
        free.remove(partition_id)
        wanted.append(partition_id)
        room -= 1
    if room > 0 and len(wanted) == len(mine):
        wanted += _steal(owned, owner_id, choose)
    return [_claim(partition_id, known.get(partition_id), owner_id, now_s) for partition_id in wanted]


def _share(owned: dict[str, list[str]], owner_id: str, partition_count: int) -> int:
    """How many this one should have. The remainder goes to those who have one more already, then to who asks."""
    least, extra = divmod(partition_count, len(owned))
    with_more = sum(1 for other, theirs in owned.items() if other != owner_id and len(theirs) > least)
    return least + (1 if with_more < extra else 0)


def _steal(owned: dict[str, list[str]], owner_id: str, choose: Callable[[Sequence[str]], str]) -> list[str]:
    """One of those of who has most. It must have two more than we: otherwise we would only change places."""
    most = max(owned.values(), key=len)
    return [choose(most)] if len(most) >= len(owned[owner_id]) + 2 else []


def _claim(partition_id: str, before: Ownership | None, owner_id: str, now_s: float) -> Ownership:
    return Ownership(partition_id, owner_id, now_s, None if before is None else before.etag)
