"""Queues, topics and subscriptions as XML, element by element, in the order in which the service writes them.

Clients that were generated from contracts read by position, so the order is part of the contract. What a client sends
may be a whole answer that it got, with a few elements changed: those that cannot be set are passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final
from urllib.parse import quote

from tandem.addresses import parse_address, scheme_of
from tandem.auth import AuthorizationRule
from tandem.auth.keys import right_names
from tandem.durations import date_text, iso_duration, read_duration_ms
from tandem.engine.description import QueueDescription
from tandem.engine.queue import Queue
from tandem.engine.subscription import Subscription
from tandem.engine.topic import Topic
from tandem.errors import ArgumentError
from tandem.management.atom.values import read_boolean, read_number
from tandem.management.atom.xml import Element, element, escaped
from tandem.rules import CorrelationFilter

__all__ = [
    "INSTANCE",
    "SERVICE_BUS",
    "Read",
    "authorization_rules_xml",
    "entity_xml",
    "in_elements",
    "optional_text",
    "read_authorization",
    "read_properties",
    "read_queue",
    "read_subscription",
    "read_text",
    "read_topic",
    "with_chosen_size",
]

SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"
_COUNTS: Final = "http://schemas.microsoft.com/netservices/2011/06/servicebus"

# In the order in which clients write them, and expect them back.
_ACCESS_RIGHTS: Final = ("Manage", "Send", "Listen")

# The api-versions that brought an element. Clients of older ones read by position.
_MESSAGE_SIZE_VERSION: Final = "2021-05"
_FILTER_COUNT_VERSION: Final = "2024-05"

# The scheme of a target that was written as a bare name, or set by another way than Atom: every SDK can read it.
_DEFAULT_SCHEME: Final = "https"

Fields = dict[str, object]

# --- reading --------------------------------------------------------------------------------------------------------


def read_text(text: str, _field: str) -> object:
    return text


def _read_address(text: str, field: str) -> object:
    """Return the name of an entity of this namespace from its name or its URI."""
    address = parse_address(text)
    if not address.path:
        raise ArgumentError(f"{field} is {text!r:.80}, which names no entity")
    return address.path


Read = Callable[[str, str], object]

_VERBATIM: Final = "UserMetadata"

# Element, property, and how its text is read.
_SHARED: Final[Mapping[str, tuple[str, Read]]] = {
    "DefaultMessageTimeToLive": ("default_message_time_to_live_ms", read_duration_ms),
    "EnableBatchedOperations": ("enable_batched_operations", read_boolean),
    "Status": ("status", read_text),
    "AutoDeleteOnIdle": ("auto_delete_on_idle_ms", read_duration_ms),
    _VERBATIM: ("user_metadata", read_text),
}
_SENT_TO: Final[Mapping[str, tuple[str, Read]]] = {
    "MaxSizeInMegabytes": ("max_size_in_megabytes", read_number),
    "RequiresDuplicateDetection": ("requires_duplicate_detection", read_boolean),
    "DuplicateDetectionHistoryTimeWindow": ("duplicate_detection_history_time_window_ms", read_duration_ms),
    "EnablePartitioning": ("enable_partitioning", read_boolean),
    "EnableExpress": ("enable_express", read_boolean),
    "MaxMessageSizeInKilobytes": ("max_message_size_in_kilobytes", read_number),
}
_RECEIVED_FROM: Final[Mapping[str, tuple[str, Read]]] = {
    "LockDuration": ("lock_duration_ms", read_duration_ms),
    "RequiresSession": ("requires_session", read_boolean),
    "DeadLetteringOnMessageExpiration": ("dead_lettering_on_message_expiration", read_boolean),
    "MaxDeliveryCount": ("max_delivery_count", read_number),
    "ForwardTo": ("forward_to", _read_address),
    "ForwardDeadLetteredMessagesTo": ("forward_dead_lettered_messages_to", _read_address),
}
_FORWARDED: Final = {"ForwardTo": "forward_to", "ForwardDeadLetteredMessagesTo": "forward_dead_lettered_messages_to"}
_QUEUE: Final = {**_SHARED, **_SENT_TO, **_RECEIVED_FROM}
_TOPIC: Final = {**_SHARED, **_SENT_TO, "SupportOrdering": ("support_ordering", read_boolean)}
_SUBSCRIPTION: Final = {
    **_SHARED,
    **_RECEIVED_FROM,
    "DeadLetteringOnFilterEvaluationExceptions": ("dead_lettering_on_filter_evaluation_exceptions", read_boolean),
}

# The words of the engine's errors, and the words of who reads them here.
_ELEMENTS: Final = {
    **{field: name for name, (field, _) in (_QUEUE | _TOPIC | _SUBSCRIPTION).items()},
    "authorization_rules": "AuthorizationRules",
    "partition_count": "PartitionCount",
    "topic_name": "TopicName",
    "name": "Name",
}
# Not inside of quotes or of a path: there it is what somebody chose. Ordinary words are fields where an error begins.
_WORDS: Final = ("name", "status")
_FIELD: Final = re.compile(
    rf"(?:(?<![\w'\"/.-])({'|'.join(_ELEMENTS.keys() - _WORDS)})|^({'|'.join(_WORDS)}))(?![\w'\"/.-])"
)
_DURATION_RANGE: Final = re.compile(r"(?<=_ms is )(-?\d{1,19}); it must be from (\d{1,19}) to (\d{1,19})")


def in_elements(text: str) -> str:
    """An error of the engine in the words of XML: `LockDuration is P25D`, not `lock_duration_ms is 2160000000`."""
    text = _DURATION_RANGE.sub(_duration_range, text)
    return _FIELD.sub(lambda match: _ELEMENTS[match[0]], text)


def _duration_range(match: re.Match[str]) -> str:
    value, least, most = [iso_duration(int(number)) for number in match.groups()]
    return f"{value}; it must be from {least} to {most}"


def read_queue(description: Element) -> Fields:
    """Return the properties that were sent; those left out are the defaults."""
    schemes = _read_forward_schemes(description)
    return {**read_properties(description, _QUEUE), **schemes, **read_authorization(description)}


def read_topic(description: Element) -> Fields:
    return {**read_properties(description, _TOPIC), **read_authorization(description)}


def read_subscription(description: Element) -> Fields:
    return {**read_properties(description, _SUBSCRIPTION), **_read_forward_schemes(description)}


def with_chosen_size(fields: Fields, current: QueueDescription) -> Fields:
    """Return the fields of an update. Clients send back what they got: the size of all partitions together."""
    if fields.get("max_size_in_megabytes") != current.total_size_in_megabytes:
        return fields
    return {**fields, "max_size_in_megabytes": current.max_size_in_megabytes}


def _read_forward_schemes(description: Element) -> Fields:
    """Return the schemes of the URIs that were sent as targets of forwarding."""
    schemes: Fields = {}
    for name, field in _FORWARDED.items():
        scheme = scheme_of(description.text_of(name) or "")
        if scheme is not None:
            schemes[f"{field}_scheme"] = scheme
    return schemes


def read_properties(description: Element, known: Mapping[str, tuple[str, Read]]) -> Fields:
    """Return the properties that a document sets, of those that are known."""
    fields: Fields = {}
    for child in description.children:
        found = known.get(child.name)
        # What somebody writes for himself is kept to the last blank.
        text = child.text if child.name == _VERBATIM else child.text.strip()
        if found is not None and text and not child.is_nil:
            field, read = found
            fields[field] = read(text, child.name)
    return fields


def read_authorization(description: Element) -> Fields:
    """Rules of this entity alone. Without the element, those it has stay."""
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
    attributes = {"xmlns": SERVICE_BUS, "xmlns:i": INSTANCE}
    if isinstance(entity, Subscription):
        return element("SubscriptionDescription", _subscription(entity, host), attributes)
    if isinstance(entity, Topic):
        return element("TopicDescription", _topic(entity, version, is_new), attributes)
    return element("QueueDescription", _queue(entity, host, version, is_new), attributes)


def _queue(queue: Queue, host: str, version: str, is_new: bool) -> str:
    one = queue.description
    return "".join(
        (
            element("LockDuration", iso_duration(one.lock_duration_ms)),
            element("MaxSizeInMegabytes", str(one.total_size_in_megabytes)),
            element("RequiresDuplicateDetection", _boolean(one.requires_duplicate_detection)),
            element("RequiresSession", _boolean(one.requires_session)),
            element("DefaultMessageTimeToLive", iso_duration(one.default_message_time_to_live_ms)),
            element("DeadLetteringOnMessageExpiration", _boolean(one.dead_lettering_on_message_expiration)),
            element(
                "DuplicateDetectionHistoryTimeWindow", iso_duration(one.duplicate_detection_history_time_window_ms)
            ),
            element("MaxDeliveryCount", str(one.max_delivery_count)),
            element("EnableBatchedOperations", _boolean(one.enable_batched_operations)),
            element("SizeInBytes", str(queue.size_bytes)),
            element("MessageCount", str(queue.message_counts.total)),
            element("IsAnonymousAccessible", "false"),
            _authorization_rules(queue),
            element("Status", one.status.value),
            _times(queue, is_new),
            element("SupportOrdering", _boolean(not one.enable_partitioning)),
            "" if is_new else _count_details(queue),
            element("AutoDeleteOnIdle", iso_duration(one.auto_delete_on_idle_ms)),
            element("EnablePartitioning", _boolean(one.enable_partitioning)),
            element("EntityAvailabilityStatus", "Available"),
            element("EnableExpress", _boolean(one.enable_express)),
            _address("ForwardTo", one.forward_to, one.forward_to_scheme, host),
            optional_text("UserMetadata", one.user_metadata),
            _dead_letter_address(one, host),
            _max_message_size(one, version),
        )
    )


def _topic(topic: Topic, version: str, is_new: bool) -> str:
    one = topic.topic_description
    return "".join(
        (
            element("DefaultMessageTimeToLive", iso_duration(one.default_message_time_to_live_ms)),
            element("MaxSizeInMegabytes", str(one.total_size_in_megabytes)),
            element("RequiresDuplicateDetection", _boolean(one.requires_duplicate_detection)),
            element(
                "DuplicateDetectionHistoryTimeWindow", iso_duration(one.duplicate_detection_history_time_window_ms)
            ),
            element("EnableBatchedOperations", _boolean(one.enable_batched_operations)),
            element("SizeInBytes", str(topic.size_bytes)),
            element("FilteringMessagesBeforePublishing", "false"),
            element("IsAnonymousAccessible", "false"),
            _authorization_rules(topic),
            element("Status", one.status.value),
            _times(topic, is_new),
            element("SupportOrdering", _boolean(one.support_ordering and not one.enable_partitioning)),
            "" if is_new else _count_details(topic) + _topic_counts(topic, version),
            element("AutoDeleteOnIdle", iso_duration(one.auto_delete_on_idle_ms)),
            element("EnablePartitioning", _boolean(one.enable_partitioning)),
            element("EntityAvailabilityStatus", "Available"),
            element("EnableSubscriptionPartitioning", "false"),
            element("EnableExpress", _boolean(one.enable_express)),
            optional_text("UserMetadata", one.user_metadata),
            _max_message_size(one, version),
        )
    )


def _subscription(subscription: Subscription, host: str) -> str:
    one = subscription.subscription_description
    return "".join(
        (
            element("LockDuration", iso_duration(one.lock_duration_ms)),
            element("RequiresSession", _boolean(one.requires_session)),
            element("DefaultMessageTimeToLive", iso_duration(one.default_message_time_to_live_ms)),
            element("DeadLetteringOnMessageExpiration", _boolean(one.dead_lettering_on_message_expiration)),
            element(
                "DeadLetteringOnFilterEvaluationExceptions",
                _boolean(one.dead_lettering_on_filter_evaluation_exceptions),
            ),
            element("MessageCount", str(subscription.message_counts.total)),
            element("MaxDeliveryCount", str(one.max_delivery_count)),
            element("EnableBatchedOperations", _boolean(one.enable_batched_operations)),
            element("Status", one.status.value),
            _address("ForwardTo", one.forward_to, one.forward_to_scheme, host),
            _times(subscription, False),
            _count_details(subscription),
            _dead_letter_address(one, host),
            element("AutoDeleteOnIdle", iso_duration(one.auto_delete_on_idle_ms)),
            element("EntityAvailabilityStatus", "Available"),
            optional_text("UserMetadata", one.user_metadata),
        )
    )


def _topic_counts(topic: Topic, version: str) -> str:
    counts = element("SubscriptionCount", str(len(topic.subscriptions)))
    if version < _FILTER_COUNT_VERSION:
        return counts
    rules = [rule for subscription in topic.subscriptions.values() for rule in subscription.rules.values()]
    correlation_count = sum(isinstance(rule.filter, CorrelationFilter) for rule in rules)
    counts += element("SqlFilterCount", str(len(rules) - correlation_count))
    return counts + element("CorrelationFilterCount", str(correlation_count))


def _max_message_size(description: QueueDescription, version: str) -> str:
    if version < _MESSAGE_SIZE_VERSION:
        return ""
    return element("MaxMessageSizeInKilobytes", str(description.max_message_size_in_kilobytes))


def _boolean(flag: bool) -> str:
    return "true" if flag else "false"


def optional_text(name: str, text: str | None) -> str:
    """Return an element with a text, or nothing if there is none."""
    return "" if text is None else element(name, escaped(text))


def _address(name: str, path: str | None, scheme: str | None, host: str) -> str:
    """Return the URI of a target with the scheme in which it was written.

    The service answers with the URI that was sent, and the SDKs count on it: those of Go, JavaScript and Python write
    `sb`, that of Java writes `https` and cannot read `sb`.
    """
    return "" if path is None else element(name, escaped(f"{scheme or _DEFAULT_SCHEME}://{host}/{quote(path)}"))


def _dead_letter_address(description: QueueDescription, host: str) -> str:
    return _address(
        "ForwardDeadLetteredMessagesTo",
        description.forward_dead_lettered_messages_to,
        description.forward_dead_lettered_messages_to_scheme,
        host,
    )


def _times(queue: Queue, is_new: bool) -> str:
    times = element("CreatedAt", date_text(queue.created_at_ms)) + element("UpdatedAt", date_text(queue.updated_at_ms))
    return times if is_new else times + element("AccessedAt", date_text(queue.accessed_at_ms))


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


def _authorization_rules(queue: Queue) -> str:
    return authorization_rules_xml(queue.authorization_rules, queue.created_at_ms, queue.updated_at_ms)


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
