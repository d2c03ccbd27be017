"""A deterministic simulation of the broker: one seed, one run.

loop           the event loop that the broker's runner runs on, with virtual time
disk           the store behind commits that take time, fail, and are cut off by crashes
ledger         what the broker must hold, kept apart from it: every message and what became of it
auditor        reads what the engine decides, as it decides it, and judges it against the ledger
clients        simulated clients: connections, receivers, transactions
actions        what clients do
world          all of it together: one step after the other
run            many seeds: python -m tests.sim.run
canaries       deliberate bugs that the simulation must find: python -m tests.sim.canaries
"""
