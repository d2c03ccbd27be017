"""Failing on purpose: what one entity or the whole namespace does wrong for a while, and how. `tandem.fault_kinds` has
the kinds and their errors.

fault         one fault: what it covers, until when, how often it was met
faults        those that are set, and what an operation meets
links         stand between links and their nodes while there is a fault, and only then
stalls        operations that go on later
restarting    the serving of an entity begins anew
http          HTTP requests that are answered late or not at all
desk          setting, listing and clearing them, with what that does to clients
"""

from __future__ import annotations

from tandem.fault_kinds import ERRORS, FaultKind
from tandem.server.faults.active_faults import Encounter, Faults, Verdict
from tandem.server.faults.desk import FaultDesk, FaultsNotAllowed
from tandem.server.faults.fault import Fault, FaultSettings

__all__ = [
    "ERRORS",
    "Encounter",
    "Fault",
    "FaultDesk",
    "FaultKind",
    "FaultSettings",
    "Faults",
    "FaultsNotAllowed",
    "Verdict",
]
