"""`tandem pipeline run`: captures and results of a bus for as long as it runs, in one Spark session.

configuration    one TOML file: namespaces, captures, jobs, where results go
result_tables    the tables of results: which sums, by which windows
queries          streaming queries, each with its own checkpoint
supervisor       starts queries, starts those again that failed, stops all of them
pages            health, metrics and the live report over HTTP
"""
