"""Fork Spark's Python workers from a process that has imported what they need: pandas, Arrow and Tandem.

Spark's own daemon imports nothing before it forks, so each worker spends a second of processor time on these modules
before its first row. The threads that they start do not survive a fork: OpenBLAS and jemalloc start theirs anew in the
child.

When a query has rows enough, as `take` and `limit` have, Spark closes its connections to the workers that still write.
Spark's own daemon prints a traceback for each of them.

Spark runs this module when it is the setting `spark.python.daemon.module`.
"""

from __future__ import annotations

import socket
from typing import Final

import pandas  # type: ignore[import-untyped] # noqa: F401 - all of these are for the workers
import pyarrow  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark import daemon

import tandem.spark.capture_source
import tandem.spark.servicebus
import tandem.spark.source  # noqa: F401

# What ends a worker instead of keeping it for the next task.
_ENDED: Final = 1

_run_worker: Final = daemon.worker


def run_worker(sock: socket.socket, authenticated: bool) -> int:
    """Run a worker after the fork, and end it in silence if Spark wants nothing more of it."""
    try:
        return _run_worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return _ENDED


if __name__ == "__main__":
    daemon.worker = run_worker
    daemon.manager()
