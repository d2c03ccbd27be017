"""Benchmarks: what `tandem bench` runs. Figures are ratios between programs measured in the same run.

measuring   what every benchmark needs: the machine, the brokers, their processes, the pictures
load        load on brokers that speak AMQP, by Tandem's own driver
amqp        codec rates, and a relay in memory
entities    queues and topics
hub         event hubs
client      the client library beside the official SDK
spark       event hubs read by Spark
"""
