"""Atom documents in tests: how they are written, sent and read."""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree as ET

from tests.management.http_api import Http, Reply

ATOM: Final = "{http://www.w3.org/2005/Atom}"
SERVICE_BUS: Final = "{http://schemas.microsoft.com/netservices/2010/10/servicebus/connect}"
COUNTS: Final = "{http://schemas.microsoft.com/netservices/2011/06/servicebus}"
INSTANCE: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
UPDATE: Final = {"If-Match": "*"}
ENTRY: Final = "application/atom+xml;type=entry;charset=utf-8"
FEED: Final = "application/atom+xml;type=feed;charset=utf-8"


def entry(description: str, content: str = "") -> str:
    return (
        '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml">'
        f'<{description} xmlns="{SERVICE_BUS[1:-1]}" xmlns:i="{INSTANCE[1:-1]}">{content}</{description}>'
        "</content></entry>"
    )


async def put(http: Http, path: str, description: str, content: str = "", *, is_update: bool = False) -> Reply:
    return await http.ask("PUT", path, entry(description, content), UPDATE if is_update else {})


def elements(reply: Reply, description: str) -> list[str]:
    """The names of the elements, in their order."""
    root = ET.fromstring(reply.body)
    found = root.find(f"{ATOM}content/{SERVICE_BUS}{description}")
    assert found is not None
    return [child.tag.partition("}")[2] for child in found]


def value(reply: Reply, description: str, name: str) -> str | None:
    return ET.fromstring(reply.body).findtext(f"{ATOM}content/{SERVICE_BUS}{description}/{SERVICE_BUS}{name}")
