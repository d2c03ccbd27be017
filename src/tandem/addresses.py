"""What a client means by the address of a link, the audience of a token or the path of a URL.

The official SDKs write the same queue as `amqps://host:5672/Orders`, `sb://host/orders/`, `/orders` and `orders`. An
`Address` is what they have in common. It does not know which entities exist: since names may hold slashes, whether
`a/b` is one queue or something of `a` is for the namespace to say.
"""

from __future__ import annotations

import enum
import re
from typing import Final
from urllib.parse import unquote

from tandem.errors import ArgumentError
from tandem.limits import MAX_ADDRESS_CHARACTERS, MAX_ENTITY_NAME_CHARACTERS, MAX_SUBSCRIPTION_NAME_CHARACTERS
from tandem.wire_names import CBS_NODE, MANAGEMENT_NODE

__all__ = [
    "SUBSCRIPTIONS",
    "Address",
    "HubPath",
    "SubQueue",
    "is_within",
    "parse_address",
    "scheme_of",
    "split_hub_path",
    "split_subscription",
    "subscription_path",
    "validate_entity_name",
    "validate_rule_name",
    "validate_subscription_name",
]

# What stands between a topic and its subscription in a path.
SUBSCRIPTIONS: Final = "/Subscriptions/"

# Any scheme (RFC 3986, 3.1): a colon is never part of a name, so nothing else can be meant.
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")

# The service's own message: "Entity segments can contain only letters, numbers, periods (.), hyphens (-), and
# underscores (_)". It says nothing about the ends of a segment: its recordings have a queue `txt/.-_123`, and
# MassTransit makes topics such as `MassTransit/Fault--Orders--`. A tilde stands for a slash that cannot be written.
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._~-]+")
_SUBSCRIPTION_NAME: Final = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._$-]*")
# Names of rules begin with a dollar if the service itself made them: $Default.
_RULE_NAME: Final = re.compile(r"[$]?[A-Za-z0-9._-]+")

# HTTP clients resolve these segments of a URL before they send it: an entity of such a name could not be managed.
_RELATIVE: Final = (".", "..")

_PARTITIONS: Final = "partitions"
_CONSUMER_GROUPS: Final = "consumergroups"
_PUBLISHERS: Final = "publishers"

_DEAD_LETTER: Final = "$deadletterqueue"
_TRANSFER: Final = "$transfer"


class SubQueue(enum.Enum):
    """The part of an entity that an address names."""

    NONE = ""
    DEAD_LETTER = "$deadletterqueue"
    TRANSFER_DEAD_LETTER = "$transfer/$deadletterqueue"


class Address:
    """An address taken apart.

    `path` names the entity in the spelling of the client, and `entity` in lower case, which is how it is looked up;
    both are empty for `$cbs` and for the `$management` of the namespace. `resource` is everything behind the host in
    lower case, with sub-queue and `$management`: what a claim has to cover.
    """

    __slots__ = ("entity", "host", "is_cbs", "is_management", "path", "resource", "sub_queue")

    def __init__(self, host: str, path: str, sub_queue: SubQueue, is_management: bool, is_cbs: bool) -> None:
        self.host = host
        self.path = path
        self.entity = path.lower()
        self.sub_queue = sub_queue
        self.is_management = is_management
        self.is_cbs = is_cbs
        parts = [self.entity, sub_queue.value, MANAGEMENT_NODE if is_management else "", CBS_NODE if is_cbs else ""]
        self.resource = "/".join([part for part in parts if part])

    def __eq__(self, other: object) -> bool:
        """Whether both name the same thing, however it was spelled."""
        return isinstance(other, Address) and self.host == other.host and self.resource == other.resource

    def __hash__(self) -> int:
        return hash((self.host, self.resource))

    def __repr__(self) -> str:
        return f"Address({self.host!r}, {self.path!r}, {self.sub_queue}, {self.is_management}, {self.is_cbs})"


def parse_address(text: str) -> Address:
    """Whatever can be read as an address is one, of an entity that perhaps does not exist.

    Refused are only those that are too long to keep and those that would harm whoever reads them in a log.
    """
    if len(text) > MAX_ADDRESS_CHARACTERS:
        raise ArgumentError(f"address has {len(text):,} characters, more than {MAX_ADDRESS_CHARACTERS:,}")
    host, encoded_path = _split_host(text)
    path = unquote(encoded_path)
    if not path.isprintable() or not host.isprintable():
        raise ArgumentError(f"address {text!r} holds a character that cannot be printed")
    # Slashes are collapsed after decoding: clients that encode whole names encode the slashes in them too.
    segments = [segment for segment in path.split("/") if segment]
    if len(segments) == 1 and segments[0].lower() == CBS_NODE:
        return Address(host, "", SubQueue.NONE, is_management=False, is_cbs=True)
    is_management = _ends_with(segments, MANAGEMENT_NODE)
    if is_management:
        segments.pop()
    sub_queue = SubQueue.NONE
    if _ends_with(segments, _DEAD_LETTER):
        segments.pop()
        sub_queue = SubQueue.DEAD_LETTER
        if _ends_with(segments, _TRANSFER):
            segments.pop()
            sub_queue = SubQueue.TRANSFER_DEAD_LETTER
    return Address(host, "/".join(segments), sub_queue, is_management, is_cbs=False)


def scheme_of(text: str) -> str | None:
    """Return the scheme of an address in lower case; None for an address without one."""
    scheme = _SCHEME.match(text)
    return None if scheme is None else scheme.group(1).lower()


def is_within(resource: str, scope: str) -> bool:
    """Whether a path in lower case is the scope or lies below it. The empty scope is the whole namespace."""
    return not scope or resource == scope or resource.startswith(scope + "/")


def validate_entity_name(name: str, field: str = "name") -> None:
    """Refuse a name that no queue, topic or event hub can have. The error names the field."""
    if not 1 <= len(name) <= MAX_ENTITY_NAME_CHARACTERS:
        raise _wrong_length(name, field, MAX_ENTITY_NAME_CHARACTERS)
    for segment in name.split("/"):
        if segment.startswith("$"):
            template = "{field} {value}: the segment {segment} is reserved, as all that start with '$'"
            raise ArgumentError.of(template, field, value=name, segment=segment)
        if not segment or segment in _RELATIVE:
            template = "{field} {value}: the segment {segment} between slashes is not allowed"
            raise ArgumentError.of(template, field, value=name, segment=segment)
        if _SEGMENT.fullmatch(segment) is None:
            raise ArgumentError.of(
                "{field} {value}: allowed are the letters A to Z, digits, '.', '-', '_' and '~', and '/' between "
                "segments",
                field,
                value=name,
            )


def validate_subscription_name(name: str, field: str = "name") -> None:
    """Refuse a name that no subscription can have."""
    _validate_short_name(name, field, _SUBSCRIPTION_NAME, "'.', '-', '_' and, not as the first character, '$'")


def validate_rule_name(name: str, field: str = "name") -> None:
    """Refuse a name that no rule can have."""
    _validate_short_name(name, field, _RULE_NAME, "'.', '-' and '_', and '$' as the first character")


def _validate_short_name(name: str, field: str, pattern: re.Pattern[str], marks: str) -> None:
    if not 1 <= len(name) <= MAX_SUBSCRIPTION_NAME_CHARACTERS:
        raise _wrong_length(name, field, MAX_SUBSCRIPTION_NAME_CHARACTERS)
    if name in _RELATIVE or pattern.fullmatch(name) is None:
        raise ArgumentError.of(
            f"{{field}} {{value}}: allowed are the letters A to Z, digits, {marks}; '.' and '..' alone are not names",
            field,
            value=name,
        )


def _wrong_length(name: str, field: str, most: int) -> ArgumentError:
    return ArgumentError.of(
        "{field} has {value} characters; allowed are 1 to {most}", field, value=len(name), most=most
    )


def subscription_path(topic: str, subscription: str) -> str:
    """Where a subscription is found."""
    return f"{topic}{SUBSCRIPTIONS}{subscription}"


def split_subscription(entity: str) -> tuple[str, str] | None:
    """Topic and subscription of a path in lower case, if it can be one. Names hold slashes: the last mark counts."""
    topic, mark, subscription = entity.rpartition(SUBSCRIPTIONS.lower())
    return (topic, subscription) if mark and topic and subscription else None


class HubPath:
    """The parts of an event hub that an address may name; None for what it does not name."""

    __slots__ = ("consumer_group", "hub", "partition_id", "publisher")

    def __init__(self, hub: str, consumer_group: str | None, partition_id: str | None, publisher: str | None) -> None:
        self.hub = hub
        self.consumer_group = consumer_group
        self.partition_id = partition_id
        self.publisher = publisher


def split_hub_path(path: str) -> HubPath:
    """`hub`, `hub/Partitions/0`, `hub/Publishers/me` or `hub/ConsumerGroups/group/Partitions/0`. That there is a hub of
    this name is for the namespace to say; only what stands behind it is read."""
    segments = path.split("/")
    partition_id: str | None = None
    consumer_group: str | None = None
    publisher: str | None = None
    if len(segments) >= 3 and segments[-2].lower() == _PARTITIONS:
        partition_id = segments[-1]
        del segments[-2:]
    if len(segments) >= 3 and segments[-2].lower() == _CONSUMER_GROUPS:
        consumer_group = segments[-1]
        del segments[-2:]
    elif len(segments) >= 3 and partition_id is None and segments[-2].lower() == _PUBLISHERS:
        publisher = segments[-1]
        del segments[-2:]
    return HubPath("/".join(segments), consumer_group, partition_id, publisher)


def _split_host(text: str) -> tuple[str, str]:
    """The host in lower case without its port, and the rest. Without a scheme there is no host."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return "", text
    authority, _, path = text[scheme.end() :].partition("/")
    authority = authority.rpartition("@")[2]
    if authority.startswith("["):
        # An IPv6 address: its own colons are inside the brackets.
        host = authority.partition("]")[0] + "]"
    else:
        host = authority.partition(":")[0]
    return host.lower(), path


def _ends_with(segments: list[str], reserved: str) -> bool:
    return bool(segments) and segments[-1].lower() == reserved
