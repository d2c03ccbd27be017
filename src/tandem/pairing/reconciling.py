"""Learning which namespace the primary is, when it answers for the first time after a program started without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from tandem.client.entities.namespace_manager import NamespaceManager
from tandem.errors import TandemError
from tandem.pairing.backlog import ensure_backlog_queues, list_backlog_queues
from tandem.pairing.detour import Told
from tandem.pairing.ownership import BacklogOwner, BacklogQueue

__all__ = ["reconcile"]


async def reconcile(
    manager: NamespaceManager, used: BacklogOwner, found: BacklogOwner, count: int, tell: Callable[[Told], None]
) -> tuple[BacklogOwner, Sequence[BacklogQueue]]:
    """Mark the backlog queues that are `used` as those of the primary that was `found`, and report it.

    They stay in use under the name that they have: their marks lead the syphons of the primary to them. Returns the
    owner as it is known now, and the backlog queues at the secondary. If a queue could not be marked, or the address
    leads to another namespace than before, that is reported and the owner stays as it was.
    """
    details: dict[str, object] = {"used": used.name, "namespace": found.name, "id": found.id}
    if used.id is not None and used.id not in found.addresses:
        tell(Told("primary-changed", "", {**details, "expected_id": used.id}))
        return used, ()
    own = dataclasses.replace(found, name=used.name, is_name_given=used.is_name_given)
    try:
        queues = await list_backlog_queues(manager)
        await ensure_backlog_queues(manager, own, count, queues)
    except TandemError as error:
        tell(Told("primary-identified", "", {**details, "reason": str(error)[:500]}))
        return used, ()
    tell(Told("primary-identified", "", details))
    return own, queues
