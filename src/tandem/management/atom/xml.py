"""XML in little: a reader with bounds, and a writer.

The reader takes what management clients send, elements with attributes and text, and refuses what they never do before
it costs anything: document types (and with them entities, of whatever kind), more than a bounded number of bytes,
elements, levels and attributes. One pass over the bytes, so the time is bounded by their number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.parsers import expat

from tandem.errors import ArgumentError
from tandem.limits import MAX_XML_ATTRIBUTES, MAX_XML_BYTES, MAX_XML_DEPTH, MAX_XML_ELEMENTS

__all__ = [
    "Element",
    "element",
    "escaped",
    "read_xml",
]

# Stands between namespace and name in what expat reports. No name holds one.
_SEPARATOR: Final = " "

# What XML 1.0 has no way to write.
_UNWRITABLE: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Element:
    """An element that was read: local names, since the namespaces of management clients carry no difference."""

    __slots__ = ("attributes", "children", "name", "text")

    def __init__(self, name: str, attributes: dict[str, str]) -> None:
        self.name = name
        self.attributes = attributes
        self.children: list[Element] = []
        self.text = ""

    def find(self, name: str) -> Element | None:
        for child in self.children:
            if child.name == name:
                return child
        return None

    def find_all(self, name: str) -> Iterator[Element]:
        return (child for child in self.children if child.name == name)

    def text_of(self, name: str) -> str | None:
        """The text of a child; None if there is no such child, or nothing in it."""
        child = self.find(name)
        return None if child is None else child.text.strip() or None

    @property
    def type(self) -> str:
        """The value of `i:type`, without the prefix that says where the type is from."""
        return self.attributes.get("type", "").rpartition(":")[2]

    @property
    def is_nil(self) -> bool:
        return self.attributes.get("nil") in {"true", "1"}


class _Reader:
    """The state of one pass."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._count = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > MAX_XML_ELEMENTS:
            raise ArgumentError(f"the XML has more than {MAX_XML_ELEMENTS:,} elements")
        if len(self._open) >= MAX_XML_DEPTH:
            raise ArgumentError(f"the XML is nested more than {MAX_XML_DEPTH} levels deep")
        if len(attributes) > MAX_XML_ATTRIBUTES:
            raise ArgumentError(f"the XML has an element with more than {MAX_XML_ATTRIBUTES} attributes")
        local = {key.rpartition(_SEPARATOR)[2]: value for key, value in attributes.items()}
        made = Element(name.rpartition(_SEPARATOR)[2], local)
        if self._open:
            self._open[-1].children.append(made)
        else:
            self.root = made
        self._open.append(made)
        self._texts.append([])

    def end(self, _name: str) -> None:
        self._open.pop().text = "".join(self._texts.pop())

    def characters(self, text: str) -> None:
        self._texts[-1].append(text)

    def refuse_doctype(self, *_: object) -> None:
        raise ArgumentError("the XML has a document type declaration, which is not allowed")


def read_xml(data: bytes) -> Element:
    """The root of a document. What cannot be read, or is more than allowed, raises ArgumentError."""
    if len(data) > MAX_XML_BYTES:
        raise ArgumentError(f"the XML has {len(data):,} bytes; at most {MAX_XML_BYTES:,} are allowed")
    reader = _Reader()
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.characters
    parser.StartDoctypeDeclHandler = reader.refuse_doctype
    parser.EntityDeclHandler = reader.refuse_doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code) or "it cannot be read"
        raise ArgumentError(f"the XML is wrong at line {error.lineno}, column {error.offset}: {what}") from None
    except (LookupError, ValueError) as error:
        raise ArgumentError(f"the XML cannot be decoded: {error}") from None
    if reader.root is None:
        raise ArgumentError("the XML has no element")
    return reader.root


def escaped(text: str) -> str:
    """Return a text as it stands in XML. What XML cannot write at all becomes the sign for that."""
    text = _UNWRITABLE.sub("\ufffd", text)
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    # As a character it would be read as the end of a line.
    return text.replace("\r", "&#13;")


def element(name: str, content: str = "", attributes: Mapping[str, str] | None = None) -> str:
    """An element around content that is XML already."""
    head = "".join(f' {key}="{escaped(value)}"' for key, value in (attributes or {}).items())
    return f"<{name}{head}>{content}</{name}>" if content else f"<{name}{head}/>"
