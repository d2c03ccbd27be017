"""One namespace of a broker: its store, engine and keys, and what its connections share.

A broker may host several. Each has a folder of its own, and so its own entities, keys and quotas. One whose memory
cannot be trusted any more is closed and opened again without the others; a disk that fails ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from tandem.errors import StoreDamaged, StoreFailed
from tandem.ids import Nonces
from tandem.namespace_identity import NamespaceIdentity
from tandem.server.keys import load_or_make_keys, protect_keys, save_keys
from tandem.server.operations import OperationsRecorder
from tandem.server.restoring import restore
from tandem.server.runner import Asker, Runner
from tandem.server.services import Services
from tandem.server.throttle import Throttle
from tandem.store.opening import DATABASE_NAME
from tandem.store.quarantine import read_reports
from tandem.store.scrub import Scrubber
from tandem.store.sqlite import SqliteStore

__all__ = ["HostedNamespace", "mend_store"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

# How often a store is opened while damage shows as it is read: once for what opening finds, once for what reading does.
_MAX_OPENINGS: Final = 3

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
        self.damages = [] if is_dev else protect_keys(data_dir)
        self._open_store(clock, tier, is_default=is_default)
        for damage in self.damages:
            logger.error("damage in the namespace '%s': %s", name, damage.sentence)
        # Damage of earlier starts counts as long as the folder with the damaged files is there.
        self.damages = [one for report in read_reports(data_dir) for one in report.damages]
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
        self._scrubber: Scrubber | None = None

    def _open_store(self, clock: Clock, tier: Tier | None, *, is_default: bool) -> None:
        """Open the store and restore the namespace from it. Damage that shows on the way is salvaged."""
        for attempts_left in reversed(range(_MAX_OPENINGS)):
            self.store = SqliteStore(self.data_dir)
            self.damages += self.store.damages
            try:
                self.identity = NamespaceIdentity(self.name, _load_or_make_id(self.store), is_default)
                nonces = Nonces(lambda: os.urandom(4_096))
                chosen = _keep_or_load_tier(self.store, tier)
                self.namespace = Namespace(self.name, nonces, clock.now_ms(), self.key_ring, chosen)
                restore(self.namespace, self.store)
            except StoreDamaged:
                self.store.close()
                if not attempts_left:
                    raise
            else:
                return

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
        if self.store.has_page_checksums:
            loop = asyncio.get_running_loop()

            def on_damage(what: str) -> None:
                with contextlib.suppress(RuntimeError):
                    # Raised when the loop is closed: then the broker has stopped.
                    loop.call_soon_threadsafe(self._on_damage_found, what)

            self._scrubber = Scrubber(self.data_dir / DATABASE_NAME, on_damage)
            self._scrubber.start()

    def _on_damage_found(self, what: str) -> None:
        self.runner.fail_as_damaged(self.store.damaged(what))

    async def close(self) -> None:
        """Finish what was accepted."""
        self._stop_scrubbing()
        self.operations.stop()
        await self.runner.close()

    async def give_up(self) -> None:
        """Let go of the store with nothing but what was committed, so that it can be opened anew.

        Nothing is acknowledged any more, whatever a commit in progress comes to.
        """
        self._stop_scrubbing()
        self.operations.abandon()
        self.runner.abandon()
        await self.runner.close()

    def _stop_scrubbing(self) -> None:
        if self._scrubber is not None:
            self._scrubber.stop()

    def keep_rules_of(self, other: HostedNamespace) -> None:
        """Take over the rules of the namespace itself: a broker for development has them in memory only."""
        self.key_ring.replace_entity("", [rule for rule in other.key_ring if not rule.scope])

    async def perform(self, function: Callable[[Namespace], Result]) -> Result:
        """Run a function as one step of the engine; its result comes when what it did is on disk."""
        return await self.runner.perform(function)

    async def ask(self, function: Callable[[Namespace, Asker], None]) -> object:
        """Run a command that is answered later, and wait for its answer."""
        return await self.runner.ask(function)


def mend_store(data_dir: Path) -> None:
    """Open the store of a namespace that is closed, so that whatever is damaged is salvaged, and close it."""
    store = SqliteStore(data_dir)
    for damage in store.damages:
        logger.error("damage in %s: %s", data_dir, damage.sentence)
    store.close()


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
