"""The log of event hubs: appended in groups with one fsync for all, sealed into columns, trimmed from its old end.

event_log        the whole: what is appended, committed, read, kept and dropped
batch            what the next commit makes true
journal          what is young: one file for all partitions, its records framed and checksummed
frames           how a record lies in the journal
tail             where the young records of one partition lie
marks            how far the log has come, kept beside its folder
reservations     numbers that the tables know to be given
segment          what is old: events of one partition in three files, and what their name says of them
sums             the checksums of a segment
survey           where everything lies in the files of a segment
open_segment     a segment that is being read
row_columns      rows of a segment, read from its files with nothing trusted
partition_log    one partition: its segments, its tail, and where it begins
number_ranges    sequence numbers that are missing
damage_log       the damage that was found
scrub            reads old segments to find damage before somebody needs them
partition_table  all of them, and the idempotent producers
snapshot         a range of events as an Arrow stream, from whatever holds them
rows             events as rows: what stands in each column
columns          rows as Arrow record batches
job              what is to be sealed
seal             from records of the journal to a segment
sealer           the process that does it
sealing          that process, seen from the broker
upkeep           when to seal, what to drop, and how the journal stays short
removal          files that nobody needs any more
pins             files that are read and must stay
recovery         what a start finds
check            reads all of it and says what contradicts what
files            the few things that are asked of a file system
log_limits       when a file is full, and a tail is long
"""
