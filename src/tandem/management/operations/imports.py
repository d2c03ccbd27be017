"""An exported document becomes entities: those that are missing, or all as they are in it.

Entities forward to each other, in any order and in a ring: each is made first without those targets that are not there
yet, and given them at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from aiohttp import web

from tandem.addresses import subscription_path
from tandem.arrow import require_arrow
from tandem.auth import Right
from tandem.engine.description import QueueDescription
from tandem.engine.descriptions import description_of
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subscription import Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ArgumentError, ArrowUnavailable, ProtocolError
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.hub_fields import new_hub
from tandem.management.operations.described import Operation, describes
from tandem.management.operations.entity_shapes import EntityReport, ImportReport, ImportRequest
from tandem.management.operations.exports import EXPORT_VERSION
from tandem.management.operations.reading import read_request
from tandem.management.rule_lists import read_rules

__all__ = ["MAX_IMPORT_BYTES", "ImportHandlers"]

# Bytes. Ten thousand queues have about 6 MB.
MAX_IMPORT_BYTES: Final = 16_777_216

# Entities that are made in one step of the engine.
_STEP_ENTITIES: Final = 20

_TARGETS: Final = ("forward_to", "forward_dead_lettered_messages_to")

# What an entity has for life. The engine refuses to change them; a dry run has to know it without trying.
_FIXED: Final = ("requires_session", "requires_duplicate_detection", "enable_partitioning", "partition_count")

_Kind = Literal["queue", "topic", "subscription", "hub"]
_Outcome = Literal["created", "updated", "unchanged", "kept", "failed"]


@dataclass
class _Item:
    """One entity of the document, and what has become of it."""

    kind: _Kind
    path: str
    fields: dict[str, object]
    rules: object = None
    outcome: _Outcome = "failed"
    error: str | None = None
    # Its targets are still to be set.
    is_unfinished: bool = False

    def report(self) -> EntityReport:
        return EntityReport(kind=self.kind, name=self.path, outcome=self.outcome, error=self.error)


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
        importer = _Importer(items, is_replacing=order.mode == "replace", is_dry_run=order.dry_run)
        if any(item.kind == "hub" for item in items):
            importer.hub_refusal = await asyncio.to_thread(_hub_refusal)
        await self._by_steps(items, importer.make)
        await self._by_steps([item for item in items if item.is_unfinished], importer.finish)
        counts = {outcome: sum(item.outcome == outcome for item in items) for outcome in _OUTCOMES}
        return json_answer(ImportReport(dry_run=order.dry_run, entities=[item.report() for item in items], **counts))

    async def _by_steps(self, items: list[_Item], do: Callable[[Namespace, _Item], None]) -> None:
        for start in range(0, len(items), _STEP_ENTITIES):
            page = items[start : start + _STEP_ENTITIES]

            def step(namespace: Namespace, page: list[_Item] = page) -> None:
                for item in page:
                    try:
                        do(namespace, item)
                    except ProtocolError as error:
                        item.outcome, item.error = "failed", error.description

            await self._gate.perform(step)


_OUTCOMES: Final[tuple[_Outcome, ...]] = ("created", "updated", "unchanged", "kept", "failed")


def _hub_refusal() -> ArrowUnavailable | None:
    try:
        require_arrow()
    except ArrowUnavailable as error:
        return error
    return None


class _Importer:
    """Makes what the items of one document say."""

    def __init__(self, items: list[_Item], *, is_replacing: bool, is_dry_run: bool) -> None:
        self._is_replacing = is_replacing
        self._is_dry_run = is_dry_run
        # Raised for every hub that would have to be created.
        self.hub_refusal: ArrowUnavailable | None = None
        # Those that can be forwarded to, or have subscriptions, once they are made.
        self._coming = {item.path.lower(): item.kind for item in items if item.kind in {"queue", "topic"}}

    def make(self, namespace: Namespace, item: _Item) -> None:
        if item.kind == "hub":
            self._make_hub(namespace, item)
            return
        if namespace.hubs.find(item.path) is not None:
            raise ArgumentError("an event hub of this name exists already")
        existing = namespace.find_any(item.path)
        if existing is not None and existing.description.kind != item.kind:
            raise ArgumentError(f"a {existing.description.kind} of this name exists already")
        # In the spelling that it has here.
        fields = item.fields if existing is None else {**item.fields, **_names(existing.description)}
        description = description_of(item.kind, fields)
        rules = None if item.rules is None else read_rules("rules", item.rules, namespace.now_ms)
        self._check_targets(namespace, description)
        if existing is None:
            self._create(namespace, item, description, rules)
        elif self._is_replacing:
            self._replace(namespace, item, existing, description, rules)
        else:
            item.outcome = "kept"

    def _make_hub(self, namespace: Namespace, item: _Item) -> None:
        other = namespace.find_any(item.path)
        if other is not None:
            raise ArgumentError(f"a {other.description.kind} of this name exists already")
        existing = namespace.hubs.find(item.path)
        description = new_hub(item.fields if existing is None else {**item.fields, "name": existing.name})
        if existing is None:
            if self.hub_refusal is not None:
                raise self.hub_refusal
            item.outcome = "created"
            if not self._is_dry_run:
                namespace.hubs.create(description)
        elif self._is_replacing:
            is_same = _is_same(item, existing.description, description)
            item.outcome = "unchanged" if is_same else "updated"
            if not is_same and not self._is_dry_run:
                namespace.hubs.update(existing, description)
        else:
            item.outcome = "kept"

    def finish(self, namespace: Namespace, item: _Item) -> None:
        """Everything is there that will be: set the targets that were missing."""
        entity = namespace.get(item.path)
        namespace.update_queue(entity, description_of(item.kind, {**item.fields, **_names(entity.description)}))

    def _check_targets(self, namespace: Namespace, description: QueueDescription) -> None:
        for field in _TARGETS:
            target = getattr(description, field)
            if target is not None and target.lower() not in self._coming and namespace.find(target) is None:
                raise ArgumentError(f"{field} is {target!r:.80}, which neither exists nor is in the document")

    def _create(
        self, namespace: Namespace, item: _Item, description: QueueDescription, rules: list[Rule] | None
    ) -> None:
        if isinstance(description, SubscriptionDescription):
            topic = description.topic_name.lower()
            is_coming = self._is_dry_run and self._coming.get(topic) == "topic"
            if not is_coming:
                namespace.topic(topic)
        item.outcome = "created"
        if self._is_dry_run:
            return
        now = self._possible(namespace, item, description)
        if isinstance(now, SubscriptionDescription):
            namespace.create_subscription(now, rules)
        elif isinstance(now, TopicDescription):
            namespace.create_topic(now)
        else:
            namespace.create_queue(now)

    def _replace(
        self,
        namespace: Namespace,
        item: _Item,
        existing: Queue,
        description: QueueDescription,
        rules: list[Rule] | None,
    ) -> None:
        is_same = _is_same(item, existing.description, description)
        has_same_rules = not isinstance(existing, Subscription) or rules is None or _are_same(existing, rules)
        item.outcome = "unchanged" if is_same and has_same_rules else "updated"
        if self._is_dry_run:
            return
        if not is_same:
            namespace.update_queue(existing, self._possible(namespace, item, description))
        if isinstance(existing, Subscription) and rules is not None and not has_same_rules:
            _replace_rules(existing, rules)

    def _possible(self, namespace: Namespace, item: _Item, description: QueueDescription) -> QueueDescription:
        """Without the targets that are not there yet."""
        missing = [
            field
            for field in _TARGETS
            if getattr(description, field) is not None and namespace.find(getattr(description, field)) is None
        ]
        if not missing:
            return description
        item.is_unfinished = True
        return description_of(item.kind, {**description.stored_fields(), **dict.fromkeys(missing)})


def _names(description: QueueDescription) -> dict[str, object]:
    fields = description.to_fields()
    return {field: fields[field] for field in ("name", "topic_name") if field in fields}


def _is_same(
    item: _Item, existing: QueueDescription | EventHubDescription, wanted: QueueDescription | EventHubDescription
) -> bool:
    """Whether an entity is already as the document has it. Raises if it cannot become so."""
    before, after = existing.stored_fields(), wanted.stored_fields()
    if wanted.authorization_rules is None:
        # A document without keys leaves those that there are.
        before.pop("authorization_rules", None)
    for field in _FIXED:
        if field in before and before[field] != after[field]:
            raise ArgumentError(
                f"{field} is {before[field]!r} and cannot be changed to {after[field]!r}: delete the "
                f"{item.kind}, with all it holds, and import again"
            )
    return before == after


def _are_same(subscription: Subscription, rules: list[Rule]) -> bool:
    wanted = {rule.name.lower(): rule.stored_fields() for rule in rules}
    return wanted == {name: rule.stored_fields() for name, rule in subscription.rules.items()}


def _replace_rules(subscription: Subscription, rules: list[Rule]) -> None:
    wanted = {rule.name.lower() for rule in rules}
    for rule in list(subscription.rules.values()):
        if rule.name.lower() not in wanted:
            subscription.remove_rule(rule.name)
    for rule in rules:
        known = subscription.rules.get(rule.name.lower())
        if known is None:
            subscription.add_rule(rule)
        elif known.stored_fields() != rule.stored_fields():
            subscription.replace_rule(rule)


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
