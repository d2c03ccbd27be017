"""Brokers with low limits, and the conditions that a diagnosis of theirs shows."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tests.patience import wait_until
from tests.server.health.sabotage import BrokenBroker

# Everything off, so that each test sets one limit; and one second is long already.
NO_LIMIT = (
    "max_event_loop_lag_ms = {lag}\nmax_commit_time_ms = {commit}\nmax_memory_megabytes = {memory}\n"
    "min_disk_megabytes = {disk}\nsustained_ms = 1_000\nstall_ms = 0"
)


def limits(*, lag: int = 0, commit: int = 0, memory: int = 0, disk: int = 0) -> str:
    return NO_LIMIT.format(lag=lag, commit=commit, memory=memory, disk=disk)


def facet(found: dict[str, Any], name: str) -> dict[str, Any]:
    facets: list[dict[str, Any]] = found["facets"]
    [one] = [one for one in facets if one["name"] == name]
    return one


def wait_for(broker: BrokenBroker, is_so: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def look() -> object:
        found.update(broker.diagnosis())
        return is_so(found)

    wait_until(look, what, lambda: str(found))
    return found


def wait_for_refusals(broker: BrokenBroker, name: str) -> dict[str, Any]:
    found = wait_for(broker, lambda found: found["refused_count"] > 0, f"for refusals because of {name}")
    assert found["status"] == "overloaded"
    assert facet(found, name)["condition"] in {"overloaded", "easing"}
    return found


def wait_until_well(broker: BrokenBroker) -> None:
    wait_for(broker, lambda found: found["status"] == "well" and not found["refused"], "for the end of the overload")


@contextlib.contextmanager
def in_background(*work: Callable[[], None]) -> Iterator[None]:
    """Run these in threads until all of them have come to their end. A failed test waits for none."""
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()
