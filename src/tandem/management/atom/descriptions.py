"""Queues, topics and subscriptions as XML, element by element, in the order in which the service writes them.

The settings, their elements and the order are in `tandem.entity_settings`. What a client sends may be a whole answer
that it got, with a few elements changed: those that cannot be set are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote

from tandem.addresses import parse_address, scheme_of
from tandem.auth import AuthorizationRule
from tandem.auth.keys import right_names
from tandem.durations import date_text, iso_duration, read_duration_ms
from tandem.engine.description import EntityDescription, QueueDescription
from tandem.engine.queue import Queue
from tandem.engine.topic import Topic
from tandem.entity_settings import DESCRIPTIONS, ELEMENTS, KINDS_WITH_RULES, Form, Setting, scheme_field, settings_of
from tandem.errors import ArgumentError
from tandem.management.atom.values import read_boolean, read_number
from tandem.management.atom.xml import Element, element, escaped
from tandem.rules import CorrelationFilter

__all__ = [
    "INSTANCE",
    "SERVICE_BUS",
    "Fields",
    "authorization_rules_xml",
    "elements_xml",
    "entity_xml",
    "read_settings",
    "with_chosen_size",
]

SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
_COUNTS: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"

# In the order in which clients write them, and expect them back.
_ACCESS_RIGHTS: Final = ("Manage", "Send", "Listen")

# The api-version that brought the counts of filters. Clients of older ones read by position.
_FILTER_COUNT_VERSION: Final = "2024-05"

# The scheme of a target that was written as a bare name, or set by another way than Atom: every SDK can read it.
_DEFAULT_SCHEME: Final = "https"

Fields = dict[str, object]

# --- reading --------------------------------------------------------------------------------------------------------


def _read_text(text: str, _field: str) -> object:
    return text


def _read_address(text: str, field: str) -> object:
    """Return the name of an entity of this namespace from its name or its URI."""
    address = parse_address(text)
    if not address.path:
        raise ArgumentError(f"{field} is {text!r:.80}, which names no entity")
    return address.path


Read = Callable[[str, str], object]

_READERS: Final[Mapping[Form, Read]] = {
    Form.DURATION: read_duration_ms,
    Form.NUMBER: read_number,
    Form.FLAG: read_boolean,
    Form.TEXT: _read_text,
    Form.STATUS: _read_text,
    Form.ADDRESS: _read_address,
}


def read_settings(kind: str, description: Element, readers: Mapping[str, Read] | None = None) -> Fields:
    """Return the settings, rules and keys of a document. `readers` are for elements in a form of their own."""
    known = {one.element: one for one in settings_of(kind) if one.element}
    fields: Fields = {}
    for child in description.children:
        setting = known.get(child.name)
        if setting is None or child.is_nil:
            continue
        # A text that users write for themselves is kept to the last blank.
        text = child.text if setting.form is Form.TEXT else child.text.strip()
        if text:
            read = (readers or {}).get(child.name) or _READERS[setting.form]
            fields[setting.name] = read(text, child.name)
            scheme = scheme_of(text) if setting.form is Form.ADDRESS else None
            if scheme is not None:
                fields[scheme_field(setting.name)] = scheme
    return {**fields, **_read_authorization(description)} if kind in KINDS_WITH_RULES else fields


def with_chosen_size(fields: Fields, current: QueueDescription) -> Fields:
    """Return the fields of an update. Clients send back what they got: the size of all partitions together."""
    if fields.get("max_size_in_megabytes") != current.total_size_in_megabytes:
        return fields
    return {**fields, "max_size_in_megabytes": current.max_size_in_megabytes}


def _read_authorization(description: Element) -> Fields:
    """Return the rules of this entity alone. Without the element, those it has stay."""
    parent = description.find("AuthorizationRules")
    if parent is None:
        return {}
    rules: list[object] = []
    for child in parent.find_all("AuthorizationRule"):
        rights = child.find("Rights")
        rules.append(
            {
                "name": child.text_of("KeyName") or "",
                "rights": [one.text.strip() for one in rights.find_all("AccessRights")] if rights is not None else [],
                "primary_key": child.text_of("PrimaryKey") or "",
                "secondary_key": child.text_of("SecondaryKey") or "",
            }
        )
    return {"authorization_rules": rules}


# --- writing --------------------------------------------------------------------------------------------------------


def entity_xml(entity: Queue, host: str, version: str, is_new: bool = False) -> str:
    """Return the description of an entity for an api-version. Right after its creation there are no counts."""
    reported = {**_REPORTED, **(_OF_TOPICS if isinstance(entity, Topic) else {})}
    # A subscription has all of them from the start.
    left_out = _NOT_WHEN_NEW if is_new and entity.description.kind in KINDS_WITH_RULES else ()
    if version < _FILTER_COUNT_VERSION:
        left_out = (*left_out, "SqlFilterCount", "CorrelationFilterCount")
    written = {name: "" if name in left_out else write(entity) for name, write in reported.items()}
    return elements_xml(entity.description, written, host, version)


def elements_xml(description: EntityDescription, reported: Mapping[str, str], host: str, version: str) -> str:
    """Return a whole description: its settings and, from `reported`, the elements that are not settings."""
    kind = description.kind
    settings = {one.element: one for one in settings_of(kind) if one.element and version >= one.since}
    inner = ""
    for name in dict.fromkeys((*ELEMENTS[kind], *settings)):
        if name in reported:
            inner += reported[name]
        elif name in settings:
            inner += _setting_xml(settings[name], description, host)
    return element(DESCRIPTIONS[kind], inner, {"xmlns": SERVICE_BUS, "xmlns:i": INSTANCE})


def _setting_xml(setting: Setting, description: EntityDescription, host: str) -> str:
    value = description.values[setting.name]
    if setting.form is Form.DURATION:
        assert value is None or isinstance(value, int)
        return element(setting.element, iso_duration(value))
    if value is None:
        return ""
    if isinstance(value, bool):
        return element(setting.element, _boolean(value))
    if setting.form is Form.ADDRESS:
        # The service answers with the URI that was sent, and the SDKs count on it: those of Go, JavaScript and Python
        # write `sb`, that of Java writes `https` and cannot read `sb`.
        scheme = description.schemes.get(setting.name, _DEFAULT_SCHEME)
        return element(setting.element, escaped(f"{scheme}://{host}/{quote(str(value))}"))
    return element(setting.element, escaped(str(value)))


def _boolean(flag: bool) -> str:
    return "true" if flag else "false"


def _supports_ordering(queue: Queue) -> bool:
    return queue.description.values.get("support_ordering") is not False and not queue.description.enable_partitioning


def _count_details(queue: Queue) -> str:
    counts = queue.message_counts
    details = {
        # Deferred messages are in the queue, and nowhere else in this list.
        "ActiveMessageCount": counts.active + counts.deferred,
        "DeadLetterMessageCount": counts.dead_letter,
        "ScheduledMessageCount": counts.scheduled,
        "TransferMessageCount": counts.transfer,
        "TransferDeadLetterMessageCount": counts.transfer_dead_letter,
    }
    inner = "".join(element(f"d2p1:{name}", str(count)) for name, count in details.items())
    return element("CountDetails", inner, {"xmlns:d2p1": _COUNTS})


def authorization_rules_xml(rules: Iterable[AuthorizationRule], created_at_ms: int, updated_at_ms: int) -> str:
    """Return the rules and keys of an entity that was created and updated at these times."""
    inner = "".join(_authorization_rule(rule, created_at_ms, updated_at_ms) for rule in rules)
    return element("AuthorizationRules", inner)


def _authorization_rule(rule: AuthorizationRule, created_at_ms: int, updated_at_ms: int) -> str:
    rights = "".join(element("AccessRights", name) for name in _ACCESS_RIGHTS if name in right_names(rule.rights))
    return element(
        "AuthorizationRule",
        element("ClaimType", "SharedAccessKey")
        + element("ClaimValue", "None")
        + element("Rights", rights)
        + element("CreatedTime", date_text(created_at_ms))
        + element("ModifiedTime", date_text(updated_at_ms))
        + element("KeyName", escaped(rule.name))
        + element("PrimaryKey", escaped(rule.primary_key))
        + element("SecondaryKey", escaped(rule.secondary_key)),
        {"i:type": "SharedAccessAuthorizationRule"},
    )


def _subscription_count(queue: Queue) -> int:
    assert isinstance(queue, Topic)
    return len(queue.subscriptions)


def _filter_count(queue: Queue, is_correlation: bool) -> int:
    assert isinstance(queue, Topic)
    rules = [rule for subscription in queue.subscriptions.values() for rule in subscription.rules.values()]
    return sum(isinstance(rule.filter, CorrelationFilter) is is_correlation for rule in rules)


# The elements that are not settings as they are, of queues, topics and subscriptions.
_REPORTED: Final[Mapping[str, Callable[[Queue], str]]] = {
    "MaxSizeInMegabytes": lambda one: element("MaxSizeInMegabytes", str(one.description.total_size_in_megabytes)),
    "SizeInBytes": lambda one: element("SizeInBytes", str(one.size_bytes)),
    "MessageCount": lambda one: element("MessageCount", str(one.message_counts.total)),
    "FilteringMessagesBeforePublishing": lambda _: element("FilteringMessagesBeforePublishing", "false"),
    "IsAnonymousAccessible": lambda _: element("IsAnonymousAccessible", "false"),
    "AuthorizationRules": lambda one: authorization_rules_xml(
        one.authorization_rules, one.created_at_ms, one.updated_at_ms
    ),
    "CreatedAt": lambda one: element("CreatedAt", date_text(one.created_at_ms)),
    "UpdatedAt": lambda one: element("UpdatedAt", date_text(one.updated_at_ms)),
    "AccessedAt": lambda one: element("AccessedAt", date_text(one.accessed_at_ms)),
    "SupportOrdering": lambda one: element("SupportOrdering", _boolean(_supports_ordering(one))),
    "CountDetails": _count_details,
    "EntityAvailabilityStatus": lambda _: element("EntityAvailabilityStatus", "Available"),
    "EnableSubscriptionPartitioning": lambda _: element("EnableSubscriptionPartitioning", "false"),
}
_OF_TOPICS: Final[Mapping[str, Callable[[Queue], str]]] = {
    "SubscriptionCount": lambda one: element("SubscriptionCount", str(_subscription_count(one))),
    "SqlFilterCount": lambda one: element("SqlFilterCount", str(_filter_count(one, is_correlation=False))),
    "CorrelationFilterCount": lambda one: element(
        "CorrelationFilterCount", str(_filter_count(one, is_correlation=True))
    ),
}
_NOT_WHEN_NEW: Final = ("AccessedAt", "CountDetails", *_OF_TOPICS)
