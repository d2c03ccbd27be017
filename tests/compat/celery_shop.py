"""The Celery application of these tests, for the test and for its workers: `celery -A tests.compat.celery_shop`.

Each task writes one line to a file, in one write, so that lines of several processes do not mix: its name, its number,
and when it ran.
"""

from __future__ import annotations

import os
import time
from typing import Any, Final

from celery import Celery, Task

BROKER: Final = "SHOP_BROKER"
PREFIX: Final = "SHOP_PREFIX"
RECORD: Final = "SHOP_RECORD"

# Seconds. Short, so that a test need not wait long for the tasks of a worker that was killed.
LOCK_S: Final = 3

# Tasks that a worker process may have taken for each task that it runs.
PREFETCH_MULTIPLIER: Final = 4


def make_app(connection_string: str, prefix: str) -> Celery:
    app = Celery("shop", set_as_current=False)
    app.conf.update(
        broker_url=connection_string,
        broker_transport="tandem.celery:Transport",
        broker_transport_options={"queue_name_prefix": prefix, "lock_duration": LOCK_S},
        broker_connection_retry_on_startup=True,
        result_backend="rpc://",
        task_acks_late=True,
        task_ignore_result=True,
        worker_prefetch_multiplier=PREFETCH_MULTIPLIER,
        worker_cancel_long_running_tasks_on_connection_loss=False,
    )
    app.task(name="ship")(ship)
    app.task(name="pack")(pack)
    app.task(name="charge", bind=True, max_retries=3)(charge)
    app.task(name="add", ignore_result=False)(add)
    return app


def record(name: str, number: int) -> None:
    descriptor = os.open(os.environ[RECORD], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{name} {number} {time.time():.3f}\n".encode())
    finally:
        os.close(descriptor)


def ship(number: int) -> None:
    record("ship", number)


def pack(number: int, seconds: float) -> None:
    """Takes longer than a lock lasts."""
    record("packing", number)
    time.sleep(seconds)
    record("pack", number)


def charge(self: Task, number: int) -> None:
    """Fails at the first attempt, and succeeds at the second."""
    if self.request.retries == 0:
        record("declined", number)
        raise self.retry(countdown=0.2)
    record("charge", number)


def add(one: int, other: int) -> int:
    return one + other


# Any: what Celery looks for is a Celery, if the environment says where the broker is.
app: Any = make_app(os.environ[BROKER], os.environ[PREFIX]) if BROKER in os.environ else None
