"""`tandem bench client`: `tandem.client` beside the official SDK, against the same broker in one run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from statistics import median
from typing import Final

import msgspec
from rich.table import Table

import tandem
from tandem.bench.client.load import AZURE, BATCHES, MODES, ONE_BY_ONE, RECEIVES, SENDS, TANDEM_CLIENT, ClientJob
from tandem.bench.measuring.contender import TandemBroker, run_program, tandem_broker
from tandem.bench.measuring.peers import has_peers
from tandem.bench.measuring.plot import Bars, draw
from tandem.pages.origin import machine_text

__all__ = ["ClientFigures", "client_picture", "client_steps", "client_tables", "has_official_sdk", "measure_clients"]

QUEUE: Final = "clients"

_TITLES: Final = {
    SENDS: "sends, in flight together",
    ONE_BY_ONE: "sends, one after the other",
    BATCHES: "sends, in batches",
    RECEIVES: "receives, each completed",
}

# Of the messages of the other modes: each waits for an fsync of its own.
_ONE_BY_ONE_PART: Final = 20


class Rates(msgspec.Struct, kw_only=True):
    """What one library did in one mode, a figure for each round."""

    messages_per_second: list[float]
    # Microseconds of processor time that the library used for a message.
    client_cpu_us: list[float]


class ClientFigures(msgspec.Struct, kw_only=True):
    """Everything one run has measured."""

    machine: str
    form: str
    messages: int
    body_bytes: int
    in_flight: int
    rounds: int
    # By mode and library.
    rates: dict[str, dict[str, Rates]]

    def ratio(self, mode: str) -> float | None:
        by_library = self.rates[mode]
        if AZURE not in by_library:
            return None
        ours, theirs = (median(by_library[name].messages_per_second) for name in (TANDEM_CLIENT, AZURE))
        return ours / theirs


def has_official_sdk() -> bool:
    """Whether the official SDK can be measured here."""
    is_installed = importlib.util.find_spec("azure") and importlib.util.find_spec("azure.servicebus")
    return is_installed is not None and has_peers()


def _libraries() -> tuple[str, ...]:
    return (TANDEM_CLIENT, AZURE) if has_official_sdk() else (TANDEM_CLIENT,)


def client_steps(rounds: int) -> int:
    """How often `measure_clients` will call `advance`."""
    return rounds * len(MODES) * len(_libraries())


def measure_clients(
    messages: int, body_bytes: int, in_flight: int, rounds: int, advance: Callable[[str], None]
) -> ClientFigures:
    figures = ClientFigures(
        machine=machine_text(),
        form=tandem.form(),
        messages=messages,
        body_bytes=body_bytes,
        in_flight=in_flight,
        rounds=rounds,
        rates={
            mode: {library: Rates(messages_per_second=[], client_cpu_us=[]) for library in _libraries()}
            for mode in MODES
        },
    )
    with tandem_broker((QUEUE,)) as broker:
        for round_number in range(rounds):
            for library in _libraries():
                for mode in MODES:
                    advance(f"round {round_number + 1}: {library}, {_TITLES[mode]}")
                    _measure(figures, broker, library, mode)
                broker.require_empty(QUEUE)
    return figures


def _measure(figures: ClientFigures, broker: TandemBroker, library: str, mode: str) -> None:
    found = run_program("tandem.bench.client.load", _job(figures, broker, library, mode))
    rates = figures.rates[mode][library]
    rates.messages_per_second.append(found["messages_per_second"])
    rates.client_cpu_us.append(found["client_cpu_us"])


def _job(figures: ClientFigures, broker: TandemBroker, library: str, mode: str) -> ClientJob:
    one_by_one = max(1, figures.messages // _ONE_BY_ONE_PART)
    # Each way to send also sends one before it is timed, and of these the receiver takes one beforehand.
    sent = 2 * figures.messages + one_by_one + len(MODES) - 1
    counts = {SENDS: figures.messages, BATCHES: figures.messages, ONE_BY_ONE: one_by_one, RECEIVES: sent - 1}
    return ClientJob(
        library=library,
        mode=mode,
        connection_string=broker.broker.connection_string,
        queue=QUEUE,
        count=counts[mode],
        body_bytes=figures.body_bytes,
        in_flight=figures.in_flight,
    )


def client_tables(figures: ClientFigures) -> list[Table]:
    libraries = list(next(iter(figures.rates.values())))
    title = f"Messages/s of {figures.body_bytes} bytes with one queue, {figures.in_flight} in flight or in a batch"
    rates, cpu = Table(title=title), Table(title="Microseconds of the client's processor for each message")
    for table in (rates, cpu):
        table.add_column("", no_wrap=True)
        for library in libraries:
            table.add_column(library, justify="right")
    rates.add_column("ratio", justify="right")
    for mode, by_library in figures.rates.items():
        ratio = figures.ratio(mode)
        medians = [f"{median(one.messages_per_second):,.0f}" for one in by_library.values()]
        rates.add_row(_TITLES[mode], *medians, "" if ratio is None else f"{ratio:.1f} ×")
        cpu.add_row(_TITLES[mode], *(f"{median(one.client_cpu_us):,.0f}" for one in by_library.values()))
    return [rates, cpu]


def client_picture(figures: ClientFigures) -> str:
    libraries = list(next(iter(figures.rates.values())))
    series = {
        library: [median(by_library[library].messages_per_second) for by_library in figures.rates.values()]
        for library in libraries
    }
    panel = Bars("Messages per second", list(figures.rates), series)
    return draw(f"Client libraries, {figures.body_bytes} byte messages", [panel])
