"""From records to tables: DataFrame in, DataFrame out. Nothing here reads, writes or knows a session.

operations      the events of `$operations` as typed records
metering        units and cost, by day, namespace, entity, operation and stage
latency         percentiles over time, from buckets
availability    outages, failovers, the backlog, and what arrived how
"""
