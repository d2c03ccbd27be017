"""Durability: the only package that touches files or SQL.

base      what every store promises
sqlite    on disk: one SQLite database, one transaction per batch
events    the events of hubs beside the messages: a log of them
log       the log of events
check     reads a store from end to end and says what contradicts what
"""
