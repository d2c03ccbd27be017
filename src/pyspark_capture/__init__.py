"""Where Spark finds the format `capture`: in installed modules whose names begin with `pyspark_`."""

from tandem.spark.capture_source import CaptureDataSource as DefaultSource

__all__ = ["DefaultSource"]
