"""Paired namespaces: sends go on while the primary namespace cannot be sent to, by a detour through the secondary.

    secondary = MessagingFactory.from_connection_string(secondary_string)
    manager = NamespaceManager.from_connection_string(secondary_string)
    await primary.pair_namespace(SendAvailabilityPairedNamespaceOptions(manager, secondary))

From then on `primary` is used as before. `tandem.pairing.azure` does the same for the official SDK.
"""

from tandem.pairing.events import Listener, PairingEvent
from tandem.pairing.failover import FailoverState
from tandem.pairing.judging import FailoverRule
from tandem.pairing.options import PairedNamespaceOptions, SendAvailabilityPairedNamespaceOptions
from tandem.pairing.send_availability import DIVERTED, SendAvailabilityPairedNamespace
from tandem.pairing.syphon import Syphon

__all__ = [
    "DIVERTED",
    "FailoverRule",
    "FailoverState",
    "Listener",
    "PairedNamespaceOptions",
    "PairingEvent",
    "SendAvailabilityPairedNamespace",
    "SendAvailabilityPairedNamespaceOptions",
    "Syphon",
]
