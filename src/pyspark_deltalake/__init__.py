"""Where Spark finds the format `deltalake`: in installed modules whose names begin with `pyspark_`."""

from tandem.spark.deltalake_source import DeltaLakeDataSource as DefaultSource

__all__ = ["DefaultSource"]
