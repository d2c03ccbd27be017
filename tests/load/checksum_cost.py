"""`python -m tests.load.checksum_cost [--rounds 9] [--messages 60000] [--before DIR]`: what checksums cost a queue.

The rates of `tandem bench queue`, of a broker as it is and of one that keeps no checksums, in turn, so that a busy
moment of the machine hits both alike. `--before` names a checkout of an earlier commit, made ready with `make setup`,
whose broker takes part too. Prints a table in Markdown, and asserts nothing: the figures depend on the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import tandem
from tandem.bench.entities.queue import MODES, RATES_QUEUE
from tandem.bench.load.job import Job
from tandem.bench.measuring.contender import TandemBroker, run_job
from tandem.pages.origin import machine_text
from tandem.testing import Broker
from tests.load.checkouts import broker_of, broker_without_checksums

__all__: list[str] = []

BODY_BYTES: Final = 1_024

AS_IT_IS: Final = "as it is"
WITHOUT: Final = "without checksums"
BEFORE: Final = "before"


def measure(kinds: dict[str, type[Broker]], rounds: int, count: int) -> dict[str, dict[str, list[float]]]:
    """Messages per second by kind of broker and by mode, a figure for each round."""
    rates: dict[str, dict[str, list[float]]] = {name: {mode: [] for mode in MODES} for name in kinds}
    with contextlib.ExitStack() as stack:
        brokers: dict[str, TandemBroker] = {}
        for name, kind in kinds.items():
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tandem-checksums-"))
            brokers[name] = TandemBroker(stack.enter_context(kind(Path(folder))), [RATES_QUEUE])
        for number in range(rounds):
            # Who comes first changes: the first one after a pause is faster.
            order = list(kinds) if number % 2 == 0 else list(reversed(kinds))
            for mode in MODES:
                for name in order:
                    broker = brokers[name]
                    job = Job(
                        kind="rate",
                        peer=broker.peer,
                        addresses=[broker.address(RATES_QUEUE)],
                        body_bytes=BODY_BYTES,
                        mode=mode,
                        count=count,
                    )
                    rates[name][mode].append(run_job(job)["messages_per_second"])
                    if mode != "send":
                        broker.require_empty(RATES_QUEUE)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--messages", type=int, default=60_000, help="in each round and mode")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit")
    options = parser.parse_args()
    kinds = {AS_IT_IS: broker_of(None), WITHOUT: broker_without_checksums()}
    if options.before is not None:
        kinds[BEFORE] = broker_of(options.before)
    rates = measure(kinds, options.rounds, options.messages)
    print(f"{machine_text()}, {tandem.form()}; {options.rounds} rounds of {options.messages} messages of 1 KB.\n")
    print("| messages per second, medians | " + " | ".join(MODES) + " |")
    print("|---|" + "---|" * len(MODES))
    for name, figures in rates.items():
        print(f"| {name} | " + " | ".join(f"{median(figures[mode]):,.0f}" for mode in MODES) + " |")
    for other in list(kinds)[1:]:
        ratios = [median(rates[AS_IT_IS][mode]) / median(rates[other][mode]) for mode in MODES]
        print(f"| {AS_IT_IS} / {other} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")


if __name__ == "__main__":
    main()
