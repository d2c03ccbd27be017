"""The description of the namespace itself."""

from __future__ import annotations

from tandem.durations import date_text
from tandem.limits import MAX_MESSAGE_SIZE_KILOBYTES
from tandem.management.atom.descriptions import SERVICE_BUS
from tandem.management.atom.xml import element, escaped

__all__ = ["namespace_xml"]


def namespace_xml(name: str, created_at_ms: int) -> str:
    """Describe the namespace: of the tier Standard, whose limits and features are those of Tandem.

    Standard knows no large messages, and Tandem does: how large they may be is an element of Tandem's own, which the
    official clients pass over.
    """
    return element(
        "NamespaceInfo",
        element("CreatedTime", date_text(created_at_ms))
        + element("MaxMessageSizeInKilobytes", str(MAX_MESSAGE_SIZE_KILOBYTES))
        + element("MessagingSKU", "Standard")
        + element("ModifiedTime", date_text(created_at_ms))
        + element("Name", escaped(name))
        + element("NamespaceType", "Messaging"),
        {"xmlns": SERVICE_BUS, "xmlns:i": "http://www.w3.org/2001/XMLSchema-instance"},
    )
