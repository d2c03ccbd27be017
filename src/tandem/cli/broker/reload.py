"""A configuration becomes entities and keys of a running broker: at the start, and again on SIGHUP."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from functools import partial
from pathlib import Path
from typing import Final

from tandem.config import (
    Configuration,
    NamespaceSettings,
    apply_entities,
    authorization_changes,
    plan_entities,
    read_configuration,
)
from tandem.engine.tiers import Tier
from tandem.errors import TandemError
from tandem.server.broker import Broker
from tandem.server.hosted_namespace import HostedNamespace

__all__ = ["Reloader", "apply_configuration", "with_options"]

# Settings that a broker has for life.
_FIXED: Final = ("host", "port", "http_port", "listen", "tls", "credits_per_second", "health")


async def apply_configuration(broker: Broker, configuration: Configuration, *, updates: bool) -> list[str]:
    """Create what is missing; with `updates`, also change what the file says otherwise. Return what was done, in words.

    All namespaces are planned first: what is not possible is refused before anything is done.
    """
    served = [(_hosted(broker, one), one) for one in configuration.namespaces]
    known = [(hosted, one) for hosted, one in served if hosted is not None]
    # Without entities there is no turn of the engine, and so no commit before a broker is ready.
    plans = [
        await hosted.perform(partial(plan_entities, settings=settings, updates=updates))
        if settings.has_entities
        else []
        for hosted, settings in known
    ]
    done: list[str] = []
    for (hosted, settings), steps in zip(known, plans, strict=True):
        words = await _apply_tier(hosted, settings) if updates else []
        if steps:
            words += await hosted.perform(partial(apply_entities, steps=steps))
        words += _apply_keys(hosted, settings, updates)
        of_several = f" in the namespace {hosted.name}" if len(configuration.namespaces) > 1 else ""
        done += [f"{one}{of_several}" for one in words]
    return done + [f"the namespace {one.name} is served from the next start on" for hosted, one in served if not hosted]


def _hosted(broker: Broker, settings: NamespaceSettings) -> HostedNamespace | None:
    if settings.name is None:
        return broker.directory.default
    hosted = broker.directory.find(f"{settings.name}.localhost")
    # A name that the broker does not know means the default one.
    return hosted if hosted.name.lower() == settings.name.lower() else None


async def _apply_tier(hosted: HostedNamespace, settings: NamespaceSettings) -> list[str]:
    tier = settings.tier
    if tier is None or tier is hosted.namespace.limits.tier:
        return []
    await hosted.perform(lambda namespace: namespace.set_tier(tier))
    return [f"updated the tier: {tier.value}"]


def _apply_keys(hosted: HostedNamespace, settings: NamespaceSettings, updates: bool) -> list[str]:
    rules, words = authorization_changes(hosted.key_ring, settings, updates=updates)
    if rules:
        by_name = {rule.name: rule for rule in hosted.key_ring if not rule.scope}
        hosted.set_authorization_rules(list({**by_name, **{rule.name: rule for rule in rules}}.values()))
    return words


class Reloader:
    """Reads the file again when it is told to. A wrong file changes nothing."""

    def __init__(
        self, broker: Broker, path: Path | None, configuration: Configuration, default_name: str, tier: Tier | None
    ) -> None:
        """The name and the tier of the default namespace are those of the command line, if it has them."""
        self._broker = broker
        self._path = path
        self._configuration = configuration
        self._default_name = default_name
        self._tier = tier
        self._task: asyncio.Task[None] | None = None
        self._is_wanted = False

    def reload(self) -> None:
        """Called on SIGHUP. Who asks while a reload is under way gets another one after it."""
        self._is_wanted = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._reload_while_wanted())

    async def stop(self) -> None:
        if self._task is not None:
            await self._task

    async def _reload_while_wanted(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            try:
                words = await self._reload()
            except TandemError as error:
                words = [f"nothing was changed: {error}"]
            for one in words:
                print(f"tandem: reload: {one}", file=sys.stderr, flush=True)

    async def _reload(self) -> list[str]:
        if self._path is None:
            return ["there is nothing to read: start with --config FILE"]
        read = await asyncio.to_thread(read_configuration, self._path)
        # What the default namespace is called was chosen at the start.
        read = with_options(read, self._default_name, self._tier)
        words = await apply_configuration(self._broker, read, updates=True)
        words += [
            f"{setting} is {getattr(read, setting)!r} from the next start on"
            for setting in _FIXED
            if getattr(read, setting) != getattr(self._configuration, setting)
        ]
        return words or ["everything is as the file says"]


def with_options(configuration: Configuration, name: str, tier: Tier | None) -> Configuration:
    """Return a configuration whose default namespace is as the command line says."""
    default = configuration.default
    chosen = default.tier if tier is None else tier
    return dataclasses.replace(configuration, default=dataclasses.replace(default, name=name, tier=chosen))
