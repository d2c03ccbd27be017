"""A broker that watches itself: measures, refuses what is too much, and restarts the smallest part that helps.

settings     the limits, with their defaults
facet        what is measured, and what counts as too much
gauge        one facet over time: well, strained, overloaded, easing
shedding     which entities are refused while a facet is overloaded, the heaviest first
memory       the memory of this process
ladder       which part a trouble restarts: an entity, the host of a namespace, the process
vital_signs  all facets, measured at each beat of the event loop
watchdog     notices a blocked event loop, from a thread of its own
repairs      restarts what failed or stalled
reporter     describes a broker for an operator
diagnosis    the file in which that is written down, and which `tandem diagnose` reads
monitor      puts these together
"""

from __future__ import annotations

from tandem.server.health.settings import OFF, HealthSettings

__all__ = ["OFF", "HealthSettings"]
