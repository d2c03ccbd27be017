"""Jobs: read, transform, write, and nothing else. Each can be run again at any time, and does nothing twice.

capture         the events of a hub into files: Parquet, Delta or Avro
records         the hub of operations, captured or as it is: what the other jobs read
metering        what operations cost
availability    outages and failovers
latency         percentiles over time
everything      the three of them, over records that are read once
syphon          backlog queues drained in parallel
"""
