"""An exported document becomes entities: those that are missing, or all as they are in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from aiohttp import web

from tandem.addresses import subscription_path
from tandem.auth import Right
from tandem.desired_state import Outcome, Planner, Step, Wanted, finish, make
from tandem.engine.namespace import Namespace
from tandem.engine.stored_description import description_of
from tandem.entity_settings import durations_as_ms
from tandem.errors import ArgumentError, ProtocolError
from tandem.limits import MAX_IMPORT_BYTES
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.hubs import new_hub
from tandem.management.json_api.described import Operation, describes
from tandem.management.json_api.entity_shapes import EntityReport, ImportReport, ImportRequest
from tandem.management.json_api.exports import EXPORT_VERSION
from tandem.management.json_api.reading import read_request
from tandem.management.rule_lists import read_rules

__all__ = ["ImportHandlers"]

# Entities that are planned or made in one step of the engine.
_STEP_ENTITIES: Final = 20

_Kind = Literal["queue", "topic", "subscription", "hub"]


@dataclass
class _Item:
    """One entity of the document, and what has become of it."""

    kind: _Kind
    path: str
    fields: dict[str, object]
    rules: object = None
    # What is planned; None if the item cannot be read.
    step: Step | None = None
    error: str | None = None

    def read(self, now_ms: int) -> Wanted:
        fields = durations_as_ms(self.kind, self.fields)
        description = new_hub(fields) if self.kind == "hub" else description_of(self.kind, fields)
        return Wanted(description, None if self.rules is None else read_rules("rules", self.rules, now_ms))

    @property
    def outcome(self) -> Outcome:
        return Outcome.FAILED if self.step is None else self.step.outcome

    def report(self) -> EntityReport:
        error = self.error if self.step is None or self.step.error is None else self.step.error.description
        return EntityReport(kind=self.kind, name=self.path, outcome=self.outcome.value, error=error)


class ImportHandlers:
    """`/import`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "POST",
            "/import",
            "import",
            "Make the entities of an exported document, with a report of what became of each.",
            "Manage on the namespace",
            ImportReport,
            body=ImportRequest,
            tag="namespace",
        )
    )
    async def take(self, request: web.Request) -> web.Response:
        self._gate.admit(request, "", Right.MANAGE)
        self._gate.throttle(request, "")
        order = await read_request(request, ImportRequest, MAX_IMPORT_BYTES)
        items = _items(order.document)
        planner = Planner({item.path: item.kind for item in items}, updates=order.mode == "replace")
        if any(item.kind == "hub" for item in items):
            await asyncio.to_thread(planner.check_arrow)
        await self._by_steps(items, partial(_plan, planner))
        if not order.dry_run:
            await self._by_steps(items, partial(_perform, make))
            await self._by_steps(items, partial(_perform, finish))
        counts = {one.value: sum(item.outcome is one for item in items) for one in Outcome}
        return json_answer(ImportReport(dry_run=order.dry_run, entities=[item.report() for item in items], **counts))

    async def _by_steps(self, items: list[_Item], do: Callable[[Namespace, _Item], None]) -> None:
        for start in range(0, len(items), _STEP_ENTITIES):
            page = items[start : start + _STEP_ENTITIES]

            def step(namespace: Namespace, page: list[_Item] = page) -> None:
                for item in page:
                    do(namespace, item)

            await self._gate.perform(step)


def _plan(planner: Planner, namespace: Namespace, item: _Item) -> None:
    try:
        item.step = planner.step(namespace, item.read(namespace.now_ms))
    except ProtocolError as error:
        planner.forget(item.path)
        item.error = error.description


def _perform(do: Callable[[Namespace, Step], None], namespace: Namespace, item: _Item) -> None:
    if item.step is not None:
        try:
            do(namespace, item.step)
        except ProtocolError as error:
            item.step.fail(error)


# --- the document ---------------------------------------------------------------------------------------------------


def _items(document: dict[str, Any]) -> list[_Item]:
    """Queues and topics before subscriptions: these need their topic."""
    unknown = sorted(document.keys() - {"version", "namespace", "exported_at_ms", "queues", "topics", "hubs"})
    if unknown:
        raise ArgumentError(f"document.{unknown[0]:.80} is not known; allowed are version, queues, topics and hubs")
    version = document.get("version", EXPORT_VERSION)
    if version != EXPORT_VERSION:
        raise ArgumentError(f"document.version is {version!r:.40}; this Tandem reads version {EXPORT_VERSION}")
    queues, topics, subscriptions = [], [], []
    for where, fields in _objects("document.queues", document.get("queues", [])):
        queues.append(_Item("queue", _name(where, fields), fields))
    for where, fields in _objects("document.topics", document.get("topics", [])):
        below = _objects(f"{where}.subscriptions", fields.pop("subscriptions", []))
        topic = _Item("topic", _name(where, fields), fields)
        topics.append(topic)
        for at, one in below:
            rules = one.pop("rules", None)
            one["topic_name"] = topic.path
            subscriptions.append(_Item("subscription", subscription_path(topic.path, _name(at, one)), one, rules))
    hubs = [_Item("hub", _name(where, one), one) for where, one in _objects("document.hubs", document.get("hubs", []))]
    items = [*queues, *topics, *subscriptions, *hubs]
    seen: set[str] = set()
    for item in items:
        if item.path.lower() in seen:
            raise ArgumentError(f"the document has two entities named {item.path!r:.80}")
        seen.add(item.path.lower())
    return items


def _objects(where: str, value: object) -> list[tuple[str, dict[str, object]]]:
    if not isinstance(value, list):
        raise ArgumentError(f"{where} must be a list, got {value!r:.80}")
    found: list[tuple[str, dict[str, object]]] = []
    for number, one in enumerate(value):
        if not isinstance(one, dict):
            raise ArgumentError(f"{where}[{number}] must be an object, got {one!r:.80}")
        found.append((f"{where}[{number}]", dict(one)))
    return found


def _name(where: str, fields: dict[str, object]) -> str:
    name = fields.get("name")
    if not isinstance(name, str):
        raise ArgumentError(f"{where}.name must be a text, got {name!r:.80}")
    return name
