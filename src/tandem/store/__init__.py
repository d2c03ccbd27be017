"""Durability: the only package that touches files or SQL.

base      what every store promises
sqlite    on disk: one SQLite database, one transaction per batch
memory    the same in memory, for tests and simulations
commit    batches, one after the other, with the fsync off the event loop
check     reads a store from end to end and says what contradicts what
"""
