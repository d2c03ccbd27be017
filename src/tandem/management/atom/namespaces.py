"""The description of the namespace itself."""

from __future__ import annotations

from tandem.durations import date_text
from tandem.engine.tiers import Tier, TierLimits
from tandem.management.atom.descriptions import SERVICE_BUS
from tandem.management.atom.xml import element, escaped

__all__ = ["namespace_xml"]


def namespace_xml(name: str, limits: TierLimits, created_at_ms: int) -> str:
    """Describe the namespace and its tier. The tier `tandem` is reported as Standard: SDKs know no other names.

    How large the messages of an entity may be is an element of Tandem's own, which the official clients pass over.
    """
    is_premium = limits.tier is Tier.PREMIUM
    return element(
        "NamespaceInfo",
        element("CreatedTime", date_text(created_at_ms))
        + element("MaxMessageSizeInKilobytes", str(limits.max_message_size_in_kilobytes))
        + element("MessagingSKU", limits.messaging_sku)
        # Only Premium is sold by units.
        + (element("MessagingUnits", "1") if is_premium else "")
        + element("ModifiedTime", date_text(created_at_ms))
        + element("Name", escaped(name))
        + element("NamespaceType", "Messaging"),
        {"xmlns": SERVICE_BUS, "xmlns:i": "http://www.w3.org/2001/XMLSchema-instance"},
    )
