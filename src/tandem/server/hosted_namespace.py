"""One namespace of a broker: its store, engine and keys, and what its connections share.

A broker may host several. Each has a folder of its own, and so its own entities, keys and quotas. One whose memory
cannot be trusted any more is closed and opened again without the others; a disk that fails ends the process.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from tandem.auth import AuthorizationRule, JwtValidator
from tandem.clock import Clock
from tandem.engine.namespace import Namespace
from tandem.engine.tiers import TIER_SETTING, Tier, tier_of
from tandem.errors import StoreFailed
from tandem.ids import Nonces
from tandem.namespace_identity import NamespaceIdentity
from tandem.server.keys import load_or_make_keys, protect_keys, save_keys
from tandem.server.operations import OperationsRecorder
from tandem.server.runner import Asker, Runner, restore
from tandem.server.services import Services
from tandem.server.throttle import Throttle
from tandem.store.sqlite import SqliteStore

__all__ = ["HostedNamespace"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# The setting of the store that keeps the id of its namespace.
_ID_SETTING: Final = "namespace id"


class HostedNamespace:
    """A namespace that is open."""

    def __init__(
        self,
        name: str,
        data_dir: Path,
        *,
        is_default: bool,
        is_dev: bool,
        jwt: JwtValidator,
        clock: Clock,
        tier: Tier | None,
        credits_per_second: int | None,
        authentication_timeout_s: float,
        on_failure: Callable[[StoreFailed], None],
    ) -> None:
        """Without a tier the namespace has the one that it had before."""
        self.name = name
        self.jwt = jwt
        self.data_dir = data_dir
        self._is_dev = is_dev
        self.key_ring = load_or_make_keys(data_dir, is_dev)
        damages = [] if is_dev else protect_keys(data_dir)
        self.store = SqliteStore(data_dir)
        for damage in [*damages, *self.store.new_damages]:
            logger.error("damage in the namespace '%s': %s", name, damage.sentence)
        self.identity = NamespaceIdentity(name, _load_or_make_id(self.store), is_default)
        nonces = Nonces(lambda: os.urandom(4_096))
        self.namespace = Namespace(name, nonces, clock.now_ms(), self.key_ring, _keep_or_load_tier(self.store, tier))
        restore(self.namespace, self.store)
        self.runner = Runner(self.namespace, self.store, clock, on_failure)
        self.throttle = Throttle(credits_per_second)
        self.services = Services(
            self.runner,
            self.key_ring,
            jwt,
            clock,
            self.throttle,
            f"{name}.servicebus.windows.net",
            authentication_timeout_s,
        )
        self.tracker = self.services.tracker
        self.operations = OperationsRecorder(self.runner)

    def set_authorization_rules(self, rules: list[AuthorizationRule]) -> None:
        """These are the rules of the namespace itself from now on; those of entities are kept with them.

        They count when they are on disk. A broker for development keeps nothing.
        """
        if not self._is_dev:
            save_keys(self.data_dir, rules)
        self.key_ring.replace_entity("", rules)

    def start(self) -> None:
        """Timers of what was on disk are set with the first turn."""
        self.operations.start()

    async def close(self) -> None:
        """Finish what was accepted."""
        self.operations.stop()
        await self.runner.close()

    async def give_up(self) -> None:
        """Let go of the store with nothing but what was committed, so that it can be opened anew.

        Nothing is acknowledged any more, whatever a commit in progress comes to.
        """
        self.operations.abandon()
        self.runner.abandon()
        await self.runner.close()

    def keep_rules_of(self, other: HostedNamespace) -> None:
        """Take over the rules of the namespace itself: a broker for development has them in memory only."""
        self.key_ring.replace_entity("", [rule for rule in other.key_ring if not rule.scope])

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        """Run a function as one step of the engine; its result comes when what it did is on disk."""
        return await self.runner.perform(function)

    async def ask(self, function: Callable[[Namespace, Asker], None]) -> object:
        """Run a command that is answered later, and wait for its answer."""
        return await self.runner.ask(function)


def _keep_or_load_tier(store: SqliteStore, chosen: Tier | None) -> Tier:
    """Return the tier of the namespace: the chosen one, which is kept with the messages, or else the one kept there."""
    kept = store.setting(TIER_SETTING)
    known = Tier.TANDEM if kept is None else tier_of(kept)
    if chosen is None or chosen is known:
        return known
    store.put_setting(TIER_SETTING, chosen.value)
    return chosen


def _load_or_make_id(store: SqliteStore) -> str:
    """Return the id of the namespace, which the first start makes. It lies beside the messages, so that it survives
    restarts and renaming, and moves with a copy of the data."""
    known = store.setting(_ID_SETTING)
    if known is not None:
        return known
    made = uuid.uuid4().hex
    store.put_setting(_ID_SETTING, made)
    return made
