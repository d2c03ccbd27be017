"""The fuzz target of the management API in XML: bytes become a description, a rule, or an `ArgumentError`.

The input is read three times: as a document; as a document in which each byte from 0x80 on stands for a piece of
markup; and as choices between the elements and types that there are. What could be read is written and read again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tandem.engine.description import QueueDescription
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.rule import Rule
from tandem.engine.subscription import Subscription
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic import Topic
from tandem.engine.topic_description import TopicDescription
from tandem.entity_settings import SERVICE_WORDS
from tandem.errors import ArgumentError
from tandem.ids import Nonces
from tandem.limits import MAX_XML_DEPTH, MAX_XML_ELEMENTS
from tandem.management.atom.descriptions import (
    entity_xml,
    read_settings,
    with_chosen_size,
)
from tandem.management.atom.rules import read_rule_xml, rule_xml
from tandem.management.atom.xml import Element, element, escaped, read_xml
from tests.fuzz.promises import promise
from tests.fuzz.reader import Reader

__all__ = ["fuzz_atom"]

_TYPES: Final = ("string", "int", "long", "boolean", "double", "dateTime", "duration", "short", "float", "anyURI", "?")
_KINDS: Final = ("SqlFilter", "CorrelationFilter", "TrueFilter", "FalseFilter", "SqlRuleAction", "EmptyRuleAction", "?")
_SETTINGS: Final = (
    *("LockDuration", "MaxSizeInMegabytes", "RequiresDuplicateDetection", "RequiresSession", "AutoDeleteOnIdle"),
    *("DefaultMessageTimeToLive", "DeadLetteringOnMessageExpiration", "DuplicateDetectionHistoryTimeWindow"),
    *("MaxDeliveryCount", "EnableBatchedOperations", "Status", "EnablePartitioning", "ForwardTo", "UserMetadata"),
    *("ForwardDeadLetteredMessagesTo", "MaxMessageSizeInKilobytes", "SupportOrdering", "CountDetails", "CreatedAt"),
    "DeadLetteringOnFilterEvaluationExceptions",
)
_CORRELATED: Final = ("CorrelationId", "MessageId", "To", "ReplyTo", "Label", "SessionId", "ContentType", "?")
_TEXTS: Final = (
    *("true", "false", "1", "0", "", "-1", "5", "1024", "9223372036854775807", "9223372036854775808", "1e308", "NaN"),
    *("INF", "-INF", "PT1M", "P1D", "PT5.0000001S", "-PT1S", "P10675199DT2H48M5.4775807S", "P", "PT", "PT1S1M"),
    *("Active", "Disabled", "SendDisabled", "2020-07-05T11:12:13.1234567Z", "2020-07-05", "0001-01-01T00:00:00+14:00"),
    *("9999-12-31T23:59:59.9999999-14:00", "20200705T111213Z", "2020-W01-1", "sb://host/q", "a = @p", "a = 1", "1=1"),
    *("SET a = @p", "SET x = 1; REMOVE y", "@p", "a", "Send", "Manage", "abc=", "\u0660", "\ufffd", " "),
)
_PIECES: Final = (
    *(
        "<!DOCTYPE a [",
        "<!ENTITY x 'y'>",
        "]>",
        "&x;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?x ",
        "?>",
        "&#65;",
        "&lt;",
    ),
    *(' xmlns="u"', ' xmlns:i="v"', ' i:nil="true"', "<i:a>", "<a>", "</a>", "<a/>", "<Key>@p</Key>", "<Value>"),
    *("</Value>", "<Filter ", "</Filter>", "<Action ", "</Action>", "<Parameters>", "</Parameters>", "<Properties>"),
    *(
        "</Properties>",
        "<KeyValueOfstringanyType>",
        "</KeyValueOfstringanyType>",
        "<SqlExpression>",
        "</SqlExpression>",
    ),
    *[f' i:type="t:{name}"' for name in (*_TYPES, *_KINDS)],
    *_TEXTS,
)
_NAMESPACE: Final = Namespace("fuzz", Nonces(lambda: bytes(4_096)), 0)
_TOPIC: Final = _NAMESPACE.create_topic(TopicDescription("t"))


def fuzz_atom(data: bytes) -> None:
    """Whatever the bytes are, they are read or refused; what was read says the same after it was written."""
    _judge(data)
    pieces = [_PIECES[(byte - 0x80) % len(_PIECES)] if byte >= 0x80 else chr(byte) for byte in data[:400]]
    _judge("".join(pieces).encode())
    _judge(_chosen(Reader(data)).encode())


def _chosen(reader: Reader) -> str:
    """A description that is well-formed, with whatever in it."""
    inner: list[str] = []
    while not reader.is_empty and len(inner) < 40:
        name = reader.pick(_SETTINGS)
        inner.append(element(name, escaped(_text(reader))))
    condition = _pairs(reader, "Parameters") + _pairs(reader, "Properties")
    condition += element("SqlExpression", escaped(_text(reader)))
    condition += element(reader.pick(_CORRELATED), escaped(_text(reader)))
    inner.append(element("Filter", condition, {"i:type": reader.pick(_KINDS)}))
    inner.append(element("Action", condition, {"i:type": reader.pick(_KINDS)}))
    rights = element("Rights", element("AccessRights", escaped(_text(reader))))
    rule = element(
        "AuthorizationRule", rights + element("KeyName", "k") + element("PrimaryKey", escaped(_text(reader)))
    )
    if reader.flag():
        inner.append(element("AuthorizationRules", rule))
    return element("QueueDescription", "".join(inner), {"xmlns": "u", "xmlns:i": "v"})


def _pairs(reader: Reader, name: str) -> str:
    pairs = []
    for _ in range(reader.below(4)):
        attributes = {"i:type": f"t:{reader.pick(_TYPES)}"}
        value = element("Value", escaped(_text(reader)), attributes)
        pairs.append(element("KeyValueOfstringanyType", element("Key", escaped(_text(reader))) + value))
    return element(name, "".join(pairs))


def _text(reader: Reader) -> str:
    return reader.text() if reader.byte() > 200 else reader.pick(_TEXTS)


def _judge(document: bytes) -> None:
    try:
        root = read_xml(document)
    except ArgumentError as error:
        promise(len(str(error)) < 300, "the error repeats the input")
        return
    promise(_depth(root) <= MAX_XML_DEPTH and _count(root) <= MAX_XML_ELEMENTS, "more was read than is allowed")
    description = _innermost(root)
    _judge_descriptions(description)
    try:
        rule = read_rule_xml("rule", description, 0)
    except ArgumentError as error:
        _render(error)
    else:
        _judge_rule(rule)


def _render(error: ArgumentError) -> None:
    if error.argument is not None:
        promise(len(SERVICE_WORDS.sentence(error.argument)) > 0, "an error says nothing")


def _innermost(root: Element) -> Element:
    """What entry and content are around."""
    while len(root.children) == 1 and root.children[0].children:
        (root,) = root.children
    return root


def _judge_descriptions(description: Element) -> None:
    for read in (_queue, _topic, _subscription):
        try:
            made = read(description)
        except ArgumentError as error:
            _render(error)
            continue
        # What is written of an entity, sent back as it is, changes nothing.
        again = read(read_xml(entity_xml(made, "localhost", "2024-05").encode()), made.description)
        before, after = _answered(made), again.description.stored_fields()
        promise(before == after, f"{before} became {after}")


def _queue(description: Element, current: QueueDescription | None = None) -> Queue:
    fields = {**_update(read_settings("queue", description), current), "name": "queue"}
    return Queue(_NAMESPACE, 2, QueueDescription.from_fields(fields), 0)


def _topic(description: Element, current: QueueDescription | None = None) -> Queue:
    fields = {**_update(read_settings("topic", description), current), "name": "topic"}
    return Topic(_NAMESPACE, 3, TopicDescription.from_fields(fields), 0)


def _subscription(description: Element, _current: QueueDescription | None = None) -> Queue:
    fields = {**read_settings("subscription", description), "topic_name": _TOPIC.name, "name": "subscription"}
    return Subscription(_NAMESPACE, 4, _TOPIC, SubscriptionDescription.from_fields(fields), 0)


def _update(fields: dict[str, object], current: QueueDescription | None) -> dict[str, object]:
    return fields if current is None else with_chosen_size(fields, current)


def _answered(made: Queue) -> dict[str, object]:
    """Return what is stored, with what the answer states where nothing was chosen."""
    fields = made.description.stored_fields()
    for field in ("forward_to", "forward_dead_lettered_messages_to"):
        if fields.get(field) is not None:
            fields[f"{field}_scheme"] = fields.get(f"{field}_scheme", "https")
    if fields.get("enable_partitioning") and "support_ordering" in fields:
        fields["support_ordering"] = False
    return fields


def _judge_rule(rule: Rule) -> None:
    again = read_rule_xml("rule", read_xml(rule_xml(rule).encode()), 0)
    before, after = rule.stored_fields(), again.stored_fields()
    promise(repr(before) == repr(after) or "\\r" in repr(before), f"{before!r:.500} became {after!r:.500}")
    # As it is kept on disk.
    stored = Rule.from_fields("rule", msgspec.json.decode(msgspec.json.encode(before), type=dict[str, object]), 0)
    promise(
        repr(stored.stored_fields()) == repr(before), f"{before!r:.500} is stored as {stored.stored_fields()!r:.500}"
    )


def _depth(root: Element) -> int:
    return 1 + max((_depth(child) for child in root.children), default=0)


def _count(root: Element) -> int:
    return 1 + sum(_count(child) for child in root.children)
