"""What it costs that the broker writes down what it does: sends with metering and without, in turn."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final

from tandem.bench.load.job import Job
from tandem.bench.measuring.contender import TandemBroker, run_job, tandem_broker

__all__ = ["METERED", "NOT_METERED", "measure_operations", "operation_steps"]

METERED: Final = "with metering"
NOT_METERED: Final = "without"

QUEUE: Final = "operations"

# Turns in a round. The difference is a few percent and single rates scatter by more, so it takes many.
TURNS_PER_ROUND: Final = 4


def operation_steps(rounds: int) -> int:
    """How often `measure_operations` will call `advance`."""
    return 2 * TURNS_PER_ROUND * rounds


def measure_operations(
    messages: int, body_bytes: int, rounds: int, advance: Callable[[str], None]
) -> tuple[dict[str, list[float]], float]:
    """Sends per second of both, a figure per turn, and the median of how they compare within a turn."""
    rates: dict[str, list[float]] = {METERED: [], NOT_METERED: []}
    with tandem_broker((QUEUE,)) as metered, tandem_broker((QUEUE,), "--no-operations") as not_metered:
        brokers = {METERED: metered, NOT_METERED: not_metered}
        for turn in range(TURNS_PER_ROUND * rounds):
            # Who comes second finds a warmer disk, so both are second equally often.
            for name in sorted(brokers, reverse=turn % 2 == 1):
                advance(f"turn {turn + 1}: {name}")
                rates[name].append(_send_rate(brokers[name], messages, body_bytes))
    ratio = median(ours / theirs for ours, theirs in zip(rates[METERED], rates[NOT_METERED], strict=True))
    return rates, ratio


def _send_rate(tandem: TandemBroker, messages: int, body_bytes: int) -> float:
    """What is sent is received again, so that every turn finds an empty queue."""
    sending = Job(kind="rate", peer=tandem.peer, addresses=[QUEUE], mode="send", count=messages, body_bytes=body_bytes)
    rate = run_job(sending)["messages_per_second"]
    run_job(Job(kind="rate", peer=tandem.peer, addresses=[QUEUE], mode="recv", count=messages))
    tandem.require_empty(QUEUE)
    return rate
