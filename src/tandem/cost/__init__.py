"""Prices, and what a pair of namespaces costs and holds by them. Nothing here needs Spark or a broker.

tariff              a price list that a user can edit
estimate            empty polls, pings and detours of a workload, counted by hand
backlog_capacity    how long an outage the backlog queues absorb
money               an amount as people read it
"""
