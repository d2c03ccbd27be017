"""Where Spark finds the format `eventhubs` by itself: it looks into every package that is named like this one."""

from tandem.spark.source import EventHubsDataSource as DefaultSource

__all__ = ["DefaultSource"]
