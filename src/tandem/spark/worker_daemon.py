"""Fork Spark's Python workers from a process that has imported what they need: pandas, Arrow and Tandem.

Spark's own daemon imports nothing before it forks, so each worker spends a second of processor time on these modules
before its first row. The threads that they start do not survive a fork: OpenBLAS and jemalloc start theirs anew in the
child.

Spark runs this module when it is the setting `spark.python.daemon.module`.
"""

from __future__ import annotations

import pandas  # type: ignore[import-untyped] # noqa: F401 - all of these are for the workers
import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import tandem.spark.capture_source
import tandem.spark.servicebus
import tandem.spark.source  # noqa: F401

if __name__ == "__main__":
    manager()
