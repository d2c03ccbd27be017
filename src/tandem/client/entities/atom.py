"""Descriptions as the XML of the service's management API, in both directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar
from urllib.parse import unquote, urlsplit

# What is read comes from the service that the program was told to trust, and expat bounds what entities unfold to.
from xml.etree import ElementTree

from tandem.arguments import Argument, Words
from tandem.client.entities.entity import NEVER, ConsumerGroupDescription
from tandem.client.entities.generated import (
    EventHubDescription,
    QueueDescription,
    SubscriptionDescription,
    TopicDescription,
)
from tandem.client.errors import MessagingError
from tandem.durations import iso_duration, read_duration_ms
from tandem.entity_settings import (
    DESCRIPTIONS,
    ELEMENTS,
    SERVICE_WORDS,
    SETTINGS,
    EntityStatus,
    Form,
    Setting,
    settings_of,
)
from tandem.errors import ArgumentError

__all__ = [
    "ATOM",
    "INSTANCE",
    "SERVICE_BUS",
    "description_element",
    "entries_of",
    "entry_xml",
    "find",
    "in_attributes",
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

_KINDS: Final = {name: kind for kind, name in DESCRIPTIONS.items()}

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
    """Return what can be chosen about an entity, element by element in the order of the service, which reads by
    position."""
    name = type(description).__name__
    root = ElementTree.Element(f"{{{SERVICE_BUS}}}{name}")
    settings = _settings(description)
    for element in dict.fromkeys((*ELEMENTS.get(_KINDS.get(name, ""), ()), *settings)):
        if element == "AuthorizationRules" and description.authorization_rules_xml is not None:
            root.append(ElementTree.fromstring(description.authorization_rules_xml))  # noqa: S314 - our own writing
        value = getattr(description, settings[element].attribute_name) if element in settings else None
        if value is not None:
            ElementTree.SubElement(root, f"{{{SERVICE_BUS}}}{element}").text = _write(value)
    return root


def _settings(description: Description) -> dict[str, Setting]:
    """Return the settings that a description has, by element."""
    kind = _KINDS.get(type(description).__name__, "")
    return {one.element: one for one in settings_of(kind) if one.element}


def insert_before(root: ElementTree.Element, name: str, element: ElementTree.Element) -> None:
    """Put an element where the service expects it: it reads by position."""
    names = [local_name(child) for child in root]
    root.insert(names.index(name) if name in names else len(names), element)


def read_description(made: Described, element: ElementTree.Element) -> Described:
    """Fill a description with what the service says."""
    for name, setting in _settings(made).items():
        _fill(made, setting.attribute_name, element, name, int if setting.is_in_days else _READERS[setting.form])
    counts = find(element, "CountDetails")
    for field in dataclasses.fields(made):
        name = field.metadata.get("element", "")
        if name:
            is_below = counts is not None and find(counts, name) is not None
            parent = counts if counts is not None and is_below else element
            _fill(made, field.name, parent, name, read_moment if name.endswith("At") else int)
    rules = find(element, "AuthorizationRules")
    if rules is not None and len(rules):
        made.authorization_rules_xml = ElementTree.tostring(rules, encoding="unicode")
    return made


def _fill(
    made: Description, attribute: str, parent: ElementTree.Element, name: str, read: Callable[[str], Any]
) -> None:
    text = text_of(parent, name)
    if text:
        try:
            setattr(made, attribute, read(text))
        except (ArgumentError, ValueError, KeyError) as error:
            raise MessagingError(f"the service answered with {name} as {text!r:.80}, which cannot be read") from error


# Any: what an attribute of a description is.
def _write(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return iso_duration(None if value == NEVER else value // _MILLISECOND)
    if isinstance(value, EntityStatus):
        return value.value
    return str(value)


def read_duration(text: str) -> timedelta:
    value_ms = read_duration_ms(text.strip(), "a duration")
    return NEVER if value_ms is None else timedelta(milliseconds=value_ms)


def read_moment(text: str) -> datetime | None:
    """.NET writes seven digits of a second, Python reads six; the year 1 is "never"."""
    whole, point, rest = text.strip().rstrip("Z").partition(".")
    moment = datetime.fromisoformat(f"{whole}.{rest[:6]}" if point else whole)
    return None if moment.year == 1 else moment.replace(tzinfo=moment.tzinfo or UTC)


def read_path(text: str) -> str:
    """Return the path of an entity. Services answer with the whole URI of an entity where its path was written."""
    return unquote(urlsplit(text).path.strip("/")) if "://" in text else text


_READERS: Final[dict[Form, Callable[[str], Any]]] = {
    Form.DURATION: read_duration,
    Form.FLAG: lambda text: {"true": True, "false": False}[text.strip().lower()],
    Form.NUMBER: int,
    Form.TEXT: str,
    Form.STATUS: lambda text: EntityStatus(text.strip()),
    Form.ADDRESS: read_path,
}


def in_attributes(detail: str, argument: Argument) -> str:
    """Return an error of the service in the words of descriptions: `lock_duration is 0:10:00`."""
    return detail.replace(SERVICE_WORDS.sentence(argument), _ATTRIBUTE_WORDS.sentence(argument))


def _attribute(field: str) -> str:
    found = [one.attribute_name for one in SETTINGS if field in {one.name, one.element}]
    return found[0] if found else field


def _timedelta_text(value_ms: int | None) -> str:
    if value_ms is None or abs(value_ms) >= NEVER // _MILLISECOND:
        return "NEVER"
    return str(timedelta(milliseconds=value_ms))


_ATTRIBUTE_WORDS: Final = Words(_attribute, _timedelta_text)
