"""Where Spark finds the format `servicebus` by itself: it looks into every package that is named like this one."""

from tandem.spark.servicebus import ServiceBusDataSource as DefaultSource

__all__ = ["DefaultSource"]
