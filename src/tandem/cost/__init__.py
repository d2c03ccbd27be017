"""What operations cost: prices, and what a pair of namespaces costs by them. Nothing here needs Spark or a broker.

tariff      a price list that a user can edit
estimate    empty polls, pings and detours of a workload, counted by hand
money       an amount as people read it
"""
