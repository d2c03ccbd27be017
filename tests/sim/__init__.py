"""A deterministic simulation of the broker: one seed, one run.

loop           the event loop that the broker's runner runs on, with virtual time
disk           the store behind commits that take time, fail, and are cut off by crashes
vocabulary     what messages say and what rules ask of them: as the broker is given it, and as the ledger decides it
ledger         what the broker must hold, kept apart from it: every message and what became of it
auditor        reads what the engine decides, as it decides it, and judges it against the ledger
arrivals       the part of the auditor that looks at new messages
publishing     what a topic has to make of a message, subscription by subscription
inspection     what must hold whenever the broker is at rest
hub_books      the part of the ledger that is about event hubs
hub_inspection what must hold of event hubs at rest, and what must be on disk
clients        simulated clients: connections, receivers, transactions
hub_readers    simulated readers of event hubs
hubs           what clients do with event hubs
actions        what clients do
world          all of it together: one step after the other
run            many seeds: python -m tests.sim.run
canaries       deliberate bugs that the simulation must find: python -m tests.sim.canaries
"""
