"""The handlers of the management API: which verb on which URL does what.

    GET     an entry, or a page of a list; a queue, topic or event hub that does not exist is an empty list with status
            200, and a missing part of one that exists is 404: both as in the service
    PUT     create (201); with `If-Match: *` replace the description (200)
    DELETE  with all it holds (200)

All of it needs the right Manage. A bad request is answered with an error in XML that says which element is wrong.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import hdrs, web

from tandem.arguments import ARGUMENT_HEADER
from tandem.arrow import require_arrow
from tandem.auth import Right
from tandem.auth.keys import KEY_BYTES, make_key
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subscription import Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tandem.entity_settings import DESCRIPTIONS, HUB, QUEUE, SERVICE_WORDS, SUBSCRIPTION, TOPIC
from tandem.errors import ArgumentError, EntityAlreadyExists, NotFound, ProtocolError
from tandem.limits import MAX_SKIP, MAX_XML_BYTES
from tandem.management.atom.descriptions import (
    Fields,
    entity_xml,
    read_settings,
    with_chosen_size,
)
from tandem.management.atom.documents import (
    ENTRY_TYPE,
    ERROR_TYPE,
    FEED_TYPE,
    Entry,
    error_document,
    feed_document,
    nothing_found,
)
from tandem.management.atom.hubs import ConsumerGroupOf, consumer_group_xml, hub_xml, put_hub, read_hub
from tandem.management.atom.namespaces import namespace_xml
from tandem.management.atom.paths import Noun, Path, parse_path
from tandem.management.atom.rules import read_rule_xml, rule_xml
from tandem.management.atom.xml import Element, read_xml
from tandem.management.gate import Gate
from tandem.management.hubs import add_consumer_group, delete_hub, own_hubs, remove_consumer_group
from tandem.management.metered import count_refusal
from tandem.management.requests import DEFAULT_PAGE_ENTITIES, query_number, read_body
from tandem.wire_names import ticks_of

__all__ = ["AtomService"]

logger = logging.getLogger(__name__)

_NOT_HOSTED: Final = "No service is hosted at the specified address."
_VISIT: Final = "To know more visit https://aka.ms/sbResourceMgrExceptions."
_NO_OPERATION: Final = f"SubCode=40400. Not Found. The Operation doesn't exist. {_VISIT}"
_CONFLICT: Final = (
    "SubCode=40900. Conflict. You're requesting an operation that isn't allowed in the resource's current state. "
    f"{_VISIT}"
)
_CONFLICT_PREFIX: Final = "SubCode=40900. Conflict. "
# Characters. HTTP clients refuse headers of more than 8 KB.
_MAX_ARGUMENT_CHARACTERS: Final = 4_096
# What a request without an api-version asks for.
_NEWEST_VERSION: Final = "2024-05"
_LISTS: Final = {
    Noun.EVERYTHING,
    Noun.QUEUES,
    Noun.TOPICS,
    Noun.EVENT_HUBS,
    Noun.SUBSCRIPTIONS,
    Noun.RULES,
    Noun.CONSUMER_GROUPS,
}


class AtomService:
    """Answers whatever URL is left when all others have had their turn."""

    def __init__(self, gate: Gate, created_at_ms: int) -> None:
        self._gate = gate
        self._created_at_ms = created_at_ms

    async def answer(self, request: web.Request) -> web.StreamResponse:
        path = parse_path(request.rel_url.raw_path)
        try:
            return await self._answer(request, path)
        except ProtocolError as error:
            count_refusal(request, error)
            answer = self._error(error.http_status, _detail(error), path)
            if isinstance(error, ArgumentError) and error.argument is not None:
                argument = json.dumps(error.argument.to_fields())
                if len(argument) <= _MAX_ARGUMENT_CHARACTERS:
                    answer.headers[ARGUMENT_HEADER] = argument
            return answer
        except web.HTTPException as error:
            if error.status < 400:
                raise
            answer = self._error(error.status, error.text or error.reason, path)
            if hdrs.ALLOW in error.headers:
                answer.headers[hdrs.ALLOW] = error.headers[hdrs.ALLOW]
            return answer
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            return self._error(500, "The server was unable to process the request; its log says why.", path)

    async def _answer(self, request: web.Request, path: Path) -> web.StreamResponse:
        if path.noun is Noun.NOTHING:
            raise NotFound(_NOT_HOSTED)
        self._gate.admit(request, path.resource, Right.MANAGE, path.entity)
        self._gate.throttle(request, path.resource)
        if path.noun is Noun.SUB_QUEUE:
            return await self._refuse_verb(request, path)
        allowed = [hdrs.METH_GET]
        if path.noun in {Noun.ENTITY, Noun.SUBSCRIPTION, Noun.RULE, Noun.CONSUMER_GROUP}:
            allowed += [hdrs.METH_PUT, hdrs.METH_DELETE]
        if request.method not in allowed:
            raise web.HTTPMethodNotAllowed(request.method, allowed)
        if request.method == hdrs.METH_GET:
            return await self._get(request, path)
        if request.method == hdrs.METH_PUT:
            return await self._put(request, path)
        await self._gate.perform(lambda namespace: _delete(namespace, path))
        return web.Response(status=200)

    def _error(self, status: int, detail: str, path: Path) -> web.Response:
        text = error_document(status, self._gate.tracker.text(detail, path.resource))
        return web.Response(body=text.encode(), status=status, headers={hdrs.CONTENT_TYPE: ERROR_TYPE})

    async def _refuse_verb(self, request: web.Request, path: Path) -> web.Response:
        """Answer for a part of an entity, as the service does: it has no description, and cannot be made or deleted."""
        if await self._gate.perform(lambda namespace: namespace.find_any(path.resource)) is None:
            return _answer(nothing_found(self._gate.now_ms()), FEED_TYPE)
        raise web.HTTPBadRequest(text=f"The specified HTTP verb ({request.method}) is not valid. {_VISIT}")

    # --- reading --------------------------------------------------------------------------------------------

    async def _get(self, request: web.Request, path: Path) -> web.Response:
        url = _Url(request)
        if path.noun is Noun.NAMESPACE:
            name, limits = await self._gate.perform(lambda namespace: (namespace.name, namespace.limits))
            content = namespace_xml(name, limits, self._created_at_ms)
            entry = Entry(name, url.text, name, self._created_at_ms, self._created_at_ms, content)
            return _entry_answer(entry, 200)
        if path.noun in _LISTS:
            return await self._list(request, path, url)
        found = await self._gate.perform(lambda namespace: _find_entry(namespace, path, url))
        if found is None:
            return _answer(nothing_found(self._gate.now_ms()), FEED_TYPE)
        return _entry_answer(found, 200)

    async def _list(self, request: web.Request, path: Path, url: _Url) -> web.Response:
        skip = query_number(request, "$skip", 0, 0, MAX_SKIP)
        top = query_number(request, "$top", DEFAULT_PAGE_ENTITIES, 0, DEFAULT_PAGE_ENTITIES)

        def read(namespace: Namespace) -> tuple[list[Entry], int]:
            found = _all(namespace, path)
            return [_entry(one, namespace, url) for one in found[skip : skip + top]], len(found)

        entries, count = await self._gate.perform(read)
        is_last = skip + top >= count or not top
        next_url = None if is_last else url.with_page(skip + top, top)
        document = feed_document(path.noun.value, url.text, next_url, entries, self._gate.now_ms())
        return _answer(document, FEED_TYPE)

    # --- writing --------------------------------------------------------------------------------------------

    async def _put(self, request: web.Request, path: Path) -> web.Response:
        is_update = request.headers.get(hdrs.IF_MATCH) == "*"
        description = _description(await read_body(request, MAX_XML_BYTES))
        url = _Url(request)
        write = self._writer(request, path, description, is_update)
        if description.name == DESCRIPTIONS[HUB] and not is_update:
            # Without pyarrow the events could not be sealed or read. In a thread: the check takes a moment.
            await asyncio.to_thread(require_arrow)

        def run(namespace: Namespace) -> Entry:
            return _entry(write(namespace), namespace, url, is_new=not is_update)

        return _entry_answer(await self._gate.perform(run), 200 if is_update else 201)

    def _writer(
        self, request: web.Request, path: Path, description: Element, is_update: bool
    ) -> Callable[[Namespace], Found]:
        """Return the step that writes. Everything that can be wrong with the text is found before the engine acts."""
        if path.noun is Noun.RULE:
            _require("RuleDescription", description)
            rule = read_rule_xml(path.rule, description, self._gate.now_ms())
            return lambda namespace: _put_rule(namespace, path, rule, is_update)
        if path.noun is Noun.SUBSCRIPTION:
            _require(DESCRIPTIONS[SUBSCRIPTION], description)
            fields = read_settings(SUBSCRIPTION, description)
            self._gate.admit_forwarding(request, fields)
            rules = _default_rules(description, self._gate.now_ms())
            return lambda namespace: _put_subscription(namespace, path, fields, rules, is_update)
        if path.noun is Noun.CONSUMER_GROUP:
            _require("ConsumerGroupDescription", description)
            return lambda namespace: _put_consumer_group(namespace, path, is_update)
        if description.name == DESCRIPTIONS[HUB]:
            fields = read_hub(description)
            _fill_keys(fields)
            return lambda namespace: put_hub(namespace, path.entity, fields, is_update)
        is_topic = description.name == DESCRIPTIONS[TOPIC]
        if not is_topic:
            _require(DESCRIPTIONS[QUEUE], description)
        fields = read_settings(TOPIC if is_topic else QUEUE, description)
        self._gate.admit_forwarding(request, fields)
        _fill_keys(fields)
        return lambda namespace: _put_entity(namespace, path.entity, fields, is_topic, is_update)


class _Url:
    """The URL of the request, as it is repeated in answers."""

    def __init__(self, request: web.Request) -> None:
        self.host = request.host
        self.text = f"{request.scheme}://{request.host}{request.raw_path}"
        self._base = f"{request.scheme}://{request.host}"
        self._path = request.rel_url.raw_path
        self.version = request.query.get("api-version", _NEWEST_VERSION)

    def of(self, path: str) -> str:
        return f"{self._base}/{path}?api-version={self.version}"

    def with_page(self, skip: int, top: int) -> str:
        return f"{self._base}{self._path}?api-version={self.version}&$skip={skip}&$top={top}"


class _RuleOf:
    """A rule, and whose it is."""

    def __init__(self, subscription: Subscription, rule: Rule) -> None:
        self.subscription = subscription
        self.rule = rule


Found = Queue | _RuleOf | EventHub | ConsumerGroupOf


def _answer(document: str, content_type: str, status: int = 200) -> web.Response:
    return web.Response(body=document.encode(), status=status, headers={hdrs.CONTENT_TYPE: content_type})


def _entry_answer(entry: Entry, status: int) -> web.Response:
    response = _answer(entry.document(), ENTRY_TYPE, status)
    response.headers[hdrs.ETAG] = str(ticks_of(entry.updated_at_ms))
    return response


def _detail(error: ProtocolError) -> str:
    """In the words that clients know, with what is wrong in ours."""
    argument = error.argument if isinstance(error, ArgumentError) else None
    description = error.description if argument is None else SERVICE_WORDS.sentence(argument)
    if error.http_status == 409 and description.startswith(_CONFLICT_PREFIX):
        return f"{_CONFLICT} {description.removeprefix(_CONFLICT_PREFIX)}"
    if error.http_status == 400 and not description.startswith("SubCode="):
        return f"SubCode=40000. Bad Request. {description}"
    return description


# --- finding --------------------------------------------------------------------------------------------------------


def _all(namespace: Namespace, path: Path) -> Sequence[Found]:
    if path.noun is Noun.EVERYTHING:
        everything: list[Queue | EventHub] = [*namespace.queues, *namespace.topics, *own_hubs(namespace)]
        return sorted(everything, key=lambda one: one.name.lower())
    if path.noun is Noun.QUEUES:
        return namespace.queues
    if path.noun is Noun.TOPICS:
        return namespace.topics
    if path.noun is Noun.EVENT_HUBS:
        return own_hubs(namespace)
    if path.noun is Noun.CONSUMER_GROUPS:
        hub = namespace.hubs.get(path.entity)
        return [ConsumerGroupOf(hub, name) for name in sorted(hub.description.consumer_groups)]
    if path.noun is Noun.SUBSCRIPTIONS:
        subscriptions = namespace.topic(path.entity).subscriptions
        return [subscriptions[name] for name in sorted(subscriptions)]
    subscription = namespace.subscription(path.entity, path.subscription)
    return [_RuleOf(subscription, subscription.rules[name]) for name in sorted(subscription.rules)]


def _find(namespace: Namespace, path: Path) -> Found:
    if path.noun is Noun.ENTITY:
        return namespace.find(path.entity) or namespace.hubs.get(path.entity)
    if path.noun is Noun.CONSUMER_GROUP:
        hub = namespace.hubs.get(path.entity)
        return ConsumerGroupOf(hub, hub.consumer_group(path.consumer_group))
    subscription = namespace.subscription(path.entity, path.subscription)
    return subscription if path.noun is Noun.SUBSCRIPTION else _RuleOf(subscription, subscription.rule(path.rule))


def _find_entry(namespace: Namespace, path: Path, url: _Url) -> Entry | None:
    """Return the entry at a path; None if there is no queue, topic or event hub of that name."""
    if namespace.find(path.entity) is None and namespace.hubs.find(path.entity) is None:
        return None
    try:
        return _entry(_find(namespace, path), namespace, url)
    except NotFound:
        raise _missing(namespace, path) from None


def _entry(found: Found, namespace: Namespace, url: _Url, *, is_new: bool = False) -> Entry:
    if isinstance(found, ConsumerGroupOf):
        hub, location = found.hub, url.of(f"{found.hub.name}/ConsumerGroups/{found.name}")
        return Entry(found.name, location, "", hub.created_at_ms, hub.updated_at_ms, consumer_group_xml(found))
    if isinstance(found, EventHub):
        times = found.created_at_ms, found.updated_at_ms
        return Entry(found.name, url.of(found.name), namespace.name, *times, hub_xml(found))
    if isinstance(found, _RuleOf):
        rule = found.rule
        location = url.of(f"{found.subscription.name}/Rules/{rule.name}")
        return Entry(rule.name, location, "", rule.created_at_ms, rule.created_at_ms, rule_xml(rule))
    title, author = found.name, namespace.name
    if isinstance(found, Subscription):
        title, author = found.subscription_description.subscription_name, ""
    content = entity_xml(found, url.host, url.version, is_new)
    return Entry(title, url.of(found.name), author, found.created_at_ms, found.updated_at_ms, content)


# --- changing -------------------------------------------------------------------------------------------------------


def _description(body: bytes) -> Element:
    """What is in the content of the entry that was sent."""
    root = read_xml(body)
    content = root.find("content") if root.name == "entry" else None
    if content is None or len(content.children) != 1:
        raise ArgumentError("the body must be an Atom entry, with one description in its content")
    return content.children[0]


def _require(name: str, description: Element) -> None:
    if description.name != name:
        raise ArgumentError(f"the content is {description.name!r:.80}; at this URL it must be {name}")


def _default_rules(description: Element, now_ms: int) -> list[Rule] | None:
    default = description.find("DefaultRuleDescription")
    if default is None:
        return None
    return [read_rule_xml(default.text_of("Name") or "$Default", default, now_ms)]


def _fill_keys(fields: Fields) -> None:
    """Rules that came without keys get new ones."""
    rules = fields.get("authorization_rules")
    for rule in rules if isinstance(rules, list) else []:
        for key in ("primary_key", "secondary_key"):
            rule[key] = rule[key] or make_key(secrets.token_bytes(KEY_BYTES))


def _put_entity(namespace: Namespace, name: str, fields: Fields, is_topic: bool, is_update: bool) -> Queue:
    if not is_update:
        if is_topic:
            return namespace.create_topic(TopicDescription.from_fields({**fields, "name": name}))
        return namespace.create_queue(QueueDescription.from_fields({**fields, "name": name}))
    entity = namespace.find(name)
    if entity is None or isinstance(entity, Topic) is not is_topic:
        raise NotFound(_NO_OPERATION)
    fields = {**with_chosen_size(fields, entity.description), "name": entity.name}
    description = TopicDescription.from_fields(fields) if is_topic else QueueDescription.from_fields(fields)
    namespace.update_queue(entity, description)
    return entity


def _put_subscription(
    namespace: Namespace, path: Path, fields: Fields, rules: list[Rule] | None, is_update: bool
) -> Queue:
    names: Fields = {"topic_name": path.entity, "name": path.subscription}
    if not is_update:
        description = SubscriptionDescription.from_fields({**fields, **names})
        try:
            return namespace.create_subscription(description, rules)
        except EntityAlreadyExists:
            raise _duplicate(namespace, path) from None
    try:
        subscription = namespace.subscription(path.entity, path.subscription)
    except NotFound:
        raise _missing(namespace, path) from None
    description = subscription.subscription_description
    names = {"topic_name": description.topic_name, "name": description.subscription_name}
    namespace.update_queue(subscription, SubscriptionDescription.from_fields({**fields, **names}))
    return subscription


def _put_rule(namespace: Namespace, path: Path, rule: Rule, is_update: bool) -> _RuleOf:
    if not is_update:
        subscription = namespace.subscription(path.entity, path.subscription)
        try:
            subscription.add_rule(rule)
        except EntityAlreadyExists:
            raise _duplicate(namespace, path) from None
        return _RuleOf(subscription, rule)
    try:
        subscription = namespace.subscription(path.entity, path.subscription)
        old = subscription.rule(path.rule)
    except NotFound:
        raise _missing(namespace, path) from None
    rule.name = old.name
    subscription.replace_rule(rule)
    return _RuleOf(subscription, rule)


def _put_consumer_group(namespace: Namespace, path: Path, is_update: bool) -> ConsumerGroupOf:
    """Create a consumer group. An update changes nothing: a group has no properties."""
    hub = namespace.hubs.get(path.entity)
    if not is_update:
        add_consumer_group(namespace, hub, path.consumer_group)
    return ConsumerGroupOf(hub, hub.consumer_group(path.consumer_group))


def _missing(namespace: Namespace, path: Path) -> NotFound:
    return NotFound(f"Entity '{_qualified(namespace, path)}' was not found. {_VISIT}")


def _duplicate(namespace: Namespace, path: Path) -> EntityAlreadyExists:
    return EntityAlreadyExists(f"The messaging entity '{_qualified(namespace, path)}' already exists. {_VISIT}")


def _qualified(namespace: Namespace, path: Path) -> str:
    """Return the name of a part of a topic or of an event hub as it stands in errors of the service."""
    kind = "EventHub" if path.consumer_group else "Topic"
    parts = [part for part in (path.entity, path.subscription, path.rule, path.consumer_group) if part]
    return f"{namespace.name}:{kind}:{'|'.join(parts)}"


def _delete(namespace: Namespace, path: Path) -> None:
    try:
        found = _find(namespace, path)
    except NotFound:
        raise NotFound(_NOT_HOSTED) from None
    if isinstance(found, _RuleOf):
        found.subscription.remove_rule(found.rule.name)
    elif isinstance(found, ConsumerGroupOf):
        remove_consumer_group(namespace, found.hub, found.name)
    elif isinstance(found, EventHub):
        delete_hub(namespace, found)
    else:
        namespace.delete(found)
