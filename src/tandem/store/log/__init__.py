"""The log of event hubs: appended in groups with one fsync for all, sealed into columns, trimmed from its old end.

event_log      the whole: what is appended, committed, read, kept and dropped
journal/       what is young: one file for all partitions; its frames, the tail of each partition, the batch of the next
               commit, and the marks and reservations that notice a lost end
partitions/    the index: each partition with its segments and its tail, and the numbers that are missing
segments/      what is old: events of one partition in three files, their checksums, and how they are read
sealing/       from the journal to a segment: the job, the worker process, that process as the broker sees it
upkeep/        when to seal, what to drop, how damage is looked for, and which files must stay while they are read
snapshot       a range of events as an Arrow stream, from whatever holds them
recovery       what a start finds
check          reads all of it and says what contradicts what
damage_log     the damage that was found
files          the few things that are asked of a file system
log_limits     when a file is full, and a tail is long
"""
