"""Event hubs: partitioned streams of events, kept for a time, read from any position by any number of readers.

event_data            an event, to be sent or as it was read
event_position        where to begin to read
event_hub_client      one hub: producers, consumers, what it says about itself
event_hub_producer    sends
event_hub_consumer    reads one partition
event_processor       reads all partitions, together with other processes
balancing             which partitions a processor takes: pure
checkpoint_store      where owners and positions are kept, as an interface
sqlite_store          in one SQLite file
file_store            in files of a directory
"""
