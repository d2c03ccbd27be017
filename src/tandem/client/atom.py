"""Descriptions as the XML of the service's management API, in both directions."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

# What is read comes from the service that the program was told to trust, and expat bounds what entities unfold to.
from xml.etree import ElementTree

from tandem.client.descriptions import (
    NEVER,
    ConsumerGroupDescription,
    EntityStatus,
    EventHubDescription,
    Kind,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
    element_of,
)
from tandem.client.errors import MessagingError
from tandem.durations import iso_duration, read_duration_ms

__all__ = [
    "ATOM",
    "INSTANCE",
    "SERVICE_BUS",
    "description_element",
    "entries_of",
    "entry_xml",
    "find",
    "insert_before",
    "local_name",
    "parse_xml",
    "read_description",
    "read_duration",
    "read_moment",
    "read_path",
    "text_of",
]

ATOM: Final = "http://www.w3.org/2005/Atom"
SERVICE_BUS: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
INSTANCE: Final = "http://www.w3.org/2001/XMLSchema-instance"

_MILLISECOND: Final = timedelta(milliseconds=1)

Description = (
    QueueDescription | TopicDescription | SubscriptionDescription | EventHubDescription | ConsumerGroupDescription
)
Described = TypeVar("Described", bound=Description)


def parse_xml(data: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(data)  # noqa: S314 - see the import
    except ElementTree.ParseError as error:
        raise MessagingError(f"the service answered with something that is no XML: {error}") from None


def local_name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def find(element: ElementTree.Element, name: str) -> ElementTree.Element | None:
    """The child of a name, whatever its namespace: services and versions differ in prefixes, and in nothing else."""
    return next((child for child in element if local_name(child) == name), None)


def text_of(element: ElementTree.Element, name: str) -> str | None:
    child = find(element, name)
    return None if child is None else child.text


def entries_of(document: ElementTree.Element) -> list[tuple[str, ElementTree.Element]]:
    """The title of each entry of a document, and the description in it; none if nothing was found."""
    entries = [document] if local_name(document) == "entry" else [e for e in document if local_name(e) == "entry"]
    found: list[tuple[str, ElementTree.Element]] = []
    for entry in entries:
        content = find(entry, "content")
        if content is None or not len(content):
            raise MessagingError("the service answered with an entry that describes nothing")
        found.append((text_of(entry, "title") or "", content[0]))
    return found


def entry_xml(description: ElementTree.Element) -> bytes:
    """The document around a description."""
    entry = ElementTree.Element(f"{{{ATOM}}}entry")
    content = ElementTree.SubElement(entry, f"{{{ATOM}}}content", {"type": "application/xml"})
    content.append(description)
    return bytes(ElementTree.tostring(entry, encoding="utf-8", xml_declaration=True))


def description_element(description: Description) -> ElementTree.Element:
    """What can be chosen about an entity, element by element in the order of the service."""
    root = ElementTree.Element(f"{{{SERVICE_BUS}}}{type(description).__name__}")
    for field in dataclasses.fields(description):
        what = element_of(field)
        if what is None or not what[2]:
            continue
        value = getattr(description, field.name)
        if value is not None:
            ElementTree.SubElement(root, f"{{{SERVICE_BUS}}}{what[0]}").text = _write(value)
    if description.authorization_rules_xml is not None:
        rules = ElementTree.fromstring(description.authorization_rules_xml)  # noqa: S314 - our own writing
        insert_before(root, "Status", rules)
    return root


def insert_before(root: ElementTree.Element, name: str, element: ElementTree.Element) -> None:
    """Put an element where the service expects it: it reads by position."""
    names = [local_name(child) for child in root]
    root.insert(names.index(name) if name in names else len(names), element)


def read_description(made: Described, element: ElementTree.Element) -> Described:
    """Fill a description with what the service says."""
    counts = find(element, "CountDetails")
    for field in dataclasses.fields(made):
        what = element_of(field)
        if what is None:
            continue
        name, kind, _ = what
        parent = counts if kind is Kind.COUNT else element
        text = None if parent is None else text_of(parent, name)
        if text:
            setattr(made, field.name, _read(text, name, kind))
    rules = find(element, "AuthorizationRules")
    if rules is not None and len(rules):
        made.authorization_rules_xml = ElementTree.tostring(rules, encoding="unicode")
    return made


# Any: what an attribute of a description is.
def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return iso_duration(None if value == NEVER else value // _MILLISECOND)
    if isinstance(value, EntityStatus):
        return value.value
    return str(value)


def _read(text: str, name: str, kind: Kind) -> object:
    try:
        return _READERS[kind](text, name)
    except (ValueError, KeyError) as error:
        raise MessagingError(f"the service answered with {name} as {text!r:.80}, which cannot be read") from error


def read_duration(text: str, name: str) -> timedelta:
    value_ms = read_duration_ms(text.strip(), name)
    return NEVER if value_ms is None else timedelta(milliseconds=value_ms)


def read_moment(text: str, _name: str) -> datetime | None:
    """.NET writes seven digits of a second, Python reads six; the year 1 is "never"."""
    whole, point, rest = text.strip().rstrip("Z").partition(".")
    moment = datetime.fromisoformat(f"{whole}.{rest[:6]}" if point else whole)
    return None if moment.year == 1 else moment.replace(tzinfo=moment.tzinfo or UTC)


def read_path(text: str) -> str:
    """Return the path of an entity. Services answer with the whole URI of an entity where its path was written."""
    return unquote(urlsplit(text).path.strip("/")) if "://" in text else text


_READERS: Final[dict[Kind, Any]] = {
    Kind.DURATION: read_duration,
    Kind.BOOLEAN: lambda text, _: {"true": True, "false": False}[text.strip().lower()],
    Kind.NUMBER: lambda text, _: int(text),
    Kind.COUNT: lambda text, _: int(text),
    Kind.TEXT: lambda text, _: text,
    Kind.STATUS: lambda text, _: EntityStatus(text.strip()),
    Kind.MOMENT: read_moment,
    Kind.ADDRESS: lambda text, _: read_path(text),
}
