"""The figures of `tandem bench queue`: as JSON, as tables for a terminal, as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import median

import msgspec
from rich.table import Table

from tandem.bench.entities.operations import METERED
from tandem.bench.measuring.contender import TANDEM
from tandem.bench.measuring.plot import Bars, Lines, draw

__all__ = ["Figures", "picture", "tables"]

_RATE_NAMES = {
    "send": "sends/s",
    "recv": "receives/s",
    "both": "both at once, /s",
    "recv-confirmed": "receives/s, confirmed",
}
_RATE_LABELS = {"send": "send", "recv": "receive", "both": "both", "recv-confirmed": "confirmed"}
_LATENCY_NAMES = {
    "send_p50_ms": "one at a time p50",
    "send_p99_ms": "one at a time p99",
    "loaded_send_p50_ms": "1,000/s send p50",
    "loaded_send_p99_ms": "1,000/s send p99",
    "loaded_delivery_p50_ms": "1,000/s arrive p50",
    "loaded_delivery_p99_ms": "1,000/s arrive p99",
}
_BACKLOG_NAMES = {
    "resident_mb": "memory, MB",
    "resident_mb_after_restart": "memory after a restart, MB",
    "resident_mb_after_receiving": "memory after receiving, MB",
    "peak_mb": "memory at most, MB",
    "send_per_second": "sends/s",
    "receive_per_second": "receives + completes/s",
    "short_receive_per_second": "… at a short queue",
    "restart_s": "restart to first message, s",
    "restart_s_after_kill": "… after a kill, s",
}


class Figures(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything one run has measured. Parts that were not asked for are empty."""

    machine: str
    form: str
    load_generator: str
    messages: int
    body_bytes: int
    rounds: int
    # Messages per second by contender and mode, a figure per round; and how many times a peer's median ours is.
    rates: dict[str, dict[str, list[float]]] = {}
    ratios: dict[str, dict[str, float]] = {}
    # Milliseconds by contender, `machine` among them: its own fdatasync and loopback round trip.
    latency: dict[str, dict[str, float]] = {}
    backlog: list[dict[str, float]] = []
    # Messages per second by contender, by number of connections or entities.
    connections: dict[str, dict[int, float]] = {}
    entities: dict[str, dict[int, float]] = {}
    idle_connections: dict[str, float] = {}
    # Sends per second with and without metering, a figure per turn; and the median of the turns' ratios.
    operations: dict[str, list[float]] = {}
    operations_ratio: float | None = None


def tables(figures: Figures) -> Iterator[Table]:
    if figures.rates:
        yield _rates_table(figures)
    if figures.latency:
        yield _latency_table(figures)
    if figures.backlog:
        yield _backlog_table(figures)
    if figures.connections:
        yield _counted_table("Both at once, messages/s, by connections on each side", figures.connections)
    if figures.entities:
        yield _counted_table("Both at once, messages/s, by queues", figures.entities)
    if figures.idle_connections:
        yield _idle_table(figures.idle_connections)
    if figures.operations:
        yield _operations_table(figures)


def _rates_table(figures: Figures) -> Table:
    table = Table(title=f"Durable queues of {_all_names(figures.rates)}, {figures.body_bytes} byte messages")
    table.add_column("")
    for name in figures.rates:
        table.add_column(_brief(name), justify="right")
        if name in figures.ratios:
            table.add_column("ratio", justify="right")
    for mode, label in _RATE_NAMES.items():
        if mode not in figures.rates[TANDEM]:
            continue
        cells: list[str] = []
        for name, rates in figures.rates.items():
            cells.append(f"{median(rates[mode]):,.0f}" if mode in rates else "")
            if name in figures.ratios:
                cells.append(f"{figures.ratios[name][mode]:.1f} ×" if mode in figures.ratios[name] else "")
        table.add_row(label, *cells)
    return table


def _all_names(names: Iterable[str]) -> str:
    """tandem, rabbitmq classic and quorum: the columns then need one word each."""
    first, *others = names
    return f"{first} and RabbitMQ ({', '.join(_brief(name) for name in others)})" if others else first


def _brief(name: str) -> str:
    return name.removeprefix("rabbitmq ")


def _latency_table(figures: Figures) -> Table:
    table = Table(title="Latency, ms; the machine: its fdatasync + loopback round trip")
    table.add_column("")
    for name in figures.latency:
        table.add_column(_brief(name), justify="right")
    for figure, label in _LATENCY_NAMES.items():
        cells: list[str] = []
        for latency in figures.latency.values():
            cell = f"{latency[figure]:.2f}" if figure in latency else ""
            if figure == "send_p50_ms" and "times_the_machine" in latency:
                cell += f"  ({latency['times_the_machine']:.1f} ×)"
            cells.append(cell)
        table.add_row(label, *cells)
    return table


def _backlog_table(figures: Figures) -> Table:
    table = Table(title=f"Tandem against its backlog of {figures.body_bytes} byte messages")
    table.add_column("messages waiting")
    for backlog in figures.backlog:
        table.add_column(f"{backlog['messages']:,.0f}", justify="right")
    for figure, label in _BACKLOG_NAMES.items():
        digits = 1 if figure.startswith("restart") else 0
        table.add_row(label, *(f"{backlog[figure]:,.{digits}f}" for backlog in figures.backlog))
    return table


def _counted_table(title: str, rates: Mapping[str, Mapping[int, float]]) -> Table:
    table = Table(title=title)
    table.add_column("")
    for count in next(iter(rates.values())):
        table.add_column(str(count), justify="right")
    for name, by_count in rates.items():
        table.add_row(name, *(f"{rate:,.0f}" for rate in by_count.values()))
    return table


def _idle_table(idle: Mapping[str, float]) -> Table:
    table = Table(title=f"{idle['connections']:,.0f} idle connections", show_header=False)
    table.add_row("still alive at the end", f"{idle['alive']:,.0f}")
    table.add_row("memory each, KB", f"{idle['bytes_each'] / 1024:.1f}")
    table.add_row("another client's send, p50, ms: alone", f"{idle['send_p50_ms_alone']:.2f}")
    table.add_row("… beside them", f"{idle['send_p50_ms_beside']:.2f}")
    table.add_row("another client's messages/s, both at once", f"{idle['both_per_second_beside']:,.0f}")
    return table


def _operations_table(figures: Figures) -> Table:
    turns = len(figures.operations[METERED])
    table = Table(title=f"What metering costs: sends/s, {turns} turns each", show_header=False)
    for name, rates in figures.operations.items():
        table.add_row(name, f"{median(rates):,.0f}")
    table.add_row("ratio, turn by turn", f"{figures.operations_ratio:.3f} ×")
    return table


def picture(figures: Figures) -> str:
    """An SVG with a panel for each part that was measured."""
    panels: list[Bars | Lines] = []
    if figures.rates:
        modes = [mode for mode in _RATE_LABELS if mode in figures.rates[TANDEM]]
        series = {
            _brief(name): [median(rates[mode]) if mode in rates else None for mode in modes]
            for name, rates in figures.rates.items()
        }
        panels.append(Bars("Messages per second", [_RATE_LABELS[mode] for mode in modes], series))
    if figures.latency:
        shown = ("send_p50_ms", "send_p99_ms", "loaded_delivery_p50_ms", "loaded_delivery_p99_ms")
        # The machine last, so that the brokers have the colours of the other panels.
        in_order = sorted(figures.latency, key=lambda name: name == "machine")
        latency = {_brief(name): [figures.latency[name].get(figure) for figure in shown] for name in in_order}
        panels.append(Bars("Latency, ms", ["one p50", "one p99", "1,000/s p50", "1,000/s p99"], latency))
    if figures.backlog:
        sizes = [backlog["messages"] for backlog in figures.backlog]
        memory = {"filled": "resident_mb", "at most": "peak_mb"}
        panels.append(Lines("Memory by backlog, MB", sizes, _by_backlog(figures, memory)))
        receiving = {"this backlog": "receive_per_second", "short queue": "short_receive_per_second"}
        panels.append(Lines("Receives per second by backlog", sizes, _by_backlog(figures, receiving)))
    for title, rates in (("connections", figures.connections), ("queues", figures.entities)):
        if rates:
            counts = list(next(iter(rates.values())))
            lines = {_brief(name): list(by_count.values()) for name, by_count in rates.items()}
            panels.append(Lines(f"Both at once per second, by {title}", counts, lines))
    if figures.operations:
        sends = {name: [median(rates)] for name, rates in figures.operations.items()}
        panels.append(Bars("Sends per second, with and without metering", ["send"], sends))
    names = _all_names(figures.rates or figures.connections or figures.entities or [TANDEM])
    return draw(f"Durable queues, {figures.body_bytes} byte messages: {names}", panels)


def _by_backlog(figures: Figures, lines: Mapping[str, str]) -> dict[str, list[float]]:
    return {name: [backlog[figure] for backlog in figures.backlog] for name, figure in lines.items()}
