"""Atom around what is answered: one entry, a feed of entries, or an error."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tandem.durations import date_text
from tandem.management.atom.xml import element, escaped

__all__ = ["ATOM", "ENTRY_TYPE", "ERROR_TYPE", "FEED_TYPE", "Entry", "error_document", "feed_document", "nothing_found"]

ATOM: Final = "http://www.w3.org/2005/Atom"

ENTRY_TYPE: Final = "application/atom+xml;type=entry;charset=utf-8"
FEED_TYPE: Final = "application/atom+xml;type=feed;charset=utf-8"
ERROR_TYPE: Final = "application/xml; charset=utf-8"


@dataclass(frozen=True)
class Entry:
    """One description, and where it is found. Only queues and topics say whose they are."""

    title: str
    url: str
    author: str
    created_at_ms: int
    updated_at_ms: int
    content: str

    def document(self) -> str:
        return self._xml({"xmlns": ATOM})

    def within(self, base: str) -> str:
        """As a part of a feed."""
        return self._xml({"xml:base": base})

    def _xml(self, attributes: dict[str, str]) -> str:
        parts = [
            element("id", escaped(self.url)),
            element("title", escaped(self.title), {"type": "text"}),
            element("published", date_text(self.created_at_ms)),
            element("updated", date_text(self.updated_at_ms)),
        ]
        if self.author:
            parts.append(element("author", element("name", escaped(self.author))))
        parts.append(element("link", "", {"rel": "self", "href": self.url}))
        parts.append(element("content", self.content, {"type": "application/xml"}))
        return element("entry", "".join(parts), attributes)


def feed_document(title: str, url: str, next_url: str | None, entries: Sequence[Entry], now_ms: int) -> str:
    """A page of a list. Clients go on while there is a second link."""
    parts = [
        element("title", escaped(title), {"type": "text"}),
        element("id", escaped(url)),
        element("updated", date_text(now_ms)),
        element("link", "", {"rel": "self", "href": url}),
    ]
    if next_url is not None:
        parts.append(element("link", "", {"rel": "next", "href": next_url}))
    parts += [entry.within(url) for entry in entries]
    return element("feed", "".join(parts), {"xmlns": ATOM})


def nothing_found(now_ms: int) -> str:
    """What the service answers for an entity that does not exist: a list of everything public, which is empty."""
    return element(
        "feed",
        element("title", "Publicly Listed Services", {"type": "text"})
        + element("subtitle", "This is the list of publicly-listed services currently available.", {"type": "text"})
        + element("id", f"uuid:{uuid.uuid4()};id=1")
        + element("updated", date_text(now_ms))
        + element("generator", "Service Bus 1.1"),
        {"xmlns": ATOM},
    )


def error_document(status: int, detail: str) -> str:
    return element("Error", element("Code", str(status)) + element("Detail", escaped(detail)))
