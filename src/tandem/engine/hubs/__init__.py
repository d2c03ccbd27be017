"""Event hubs: streams that are appended to and read, and from which nothing is ever taken.

description   what the owner of a hub decides
hub           one hub: its partitions and consumer groups, and which partition an event goes to
hubs          all hubs of a namespace
partition     one stream: the numbers it gives, its young tail in memory, and who reads it
receiver      one reader: where it is, and what it was granted
ownership     who may read: epochs, and how many may read without one
progress      what processors tell each other through the hub: ownerships and checkpoints
producers     idempotent producers: what each of them sent last
record        the events of one transfer, as they are appended
event         one event, as it is delivered
rows          events as rows, before they are columns
arrivals      events as they come over AMQP, into rows
position      where a reader wants to begin
partition_key the service's own hash from a key to a partition
"""
