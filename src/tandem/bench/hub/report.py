"""The figures of `tandem bench hub`: as tables for a terminal, as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from rich.table import Table

from tandem.bench.hub.memory import Memory
from tandem.bench.hub.streams import PARTITIONS, Bulk, Ingest, Read
from tandem.bench.measuring.contender import TANDEM
from tandem.bench.measuring.plot import Bars, Lines, draw

__all__ = ["HubFigures", "hub_picture", "hub_tables"]

DISK: Final = "the disk"

_MEMORY_ROWS: Final = {
    "resident_megabytes": "memory, MB",
    "peak_megabytes": "memory at most, MB",
    "read_megabytes": "… after reading all of it, MB",
    "sealer_peak_megabytes": "the sealing process at most, MB",
    "journal_megabytes": "journal left, MB",
    "restart_s": "start, s",
    "restart_s_after_kill": "… after a kill, s",
}


class HubFigures(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything one run has measured. Parts that were not asked for are empty."""

    machine: str
    form: str
    megabytes: int
    rounds: int
    partitions: int = PARTITIONS
    # By case, such as `1 KB × 100`: body and events in a batch.
    ingest: dict[str, Ingest] = {}
    read: dict[str, Read] = {}
    bulk: Bulk | None = None
    memory: list[Memory] = []


def hub_tables(figures: HubFigures) -> Iterator[Table]:
    if figures.ingest:
        yield _ingest_table(figures.ingest)
        peers = list(next(iter(figures.ingest.values())).peers)
        if peers:
            yield _peers_table(figures.ingest, peers)
    if figures.read:
        yield _read_table(figures.read)
    if figures.bulk is not None:
        yield _bulk_table(figures.bulk)
    if figures.memory:
        yield _memory_table(figures.memory)


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column("", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _ingest_table(ingest: dict[str, Ingest]) -> Table:
    title = f"Sent to {PARTITIONS} partitions over one connection, beside the disk with the same syncs"
    table = _table(title, "events/s", "MB/s", "the disk, MB/s", "ratio", "KB a sync")
    for case, one in ingest.items():
        rates = (f"{one.events_per_second:,.0f}", f"{one.megabytes_per_second:,.1f}")
        disk = (f"{one.disk_megabytes_per_second:,.1f}", f"{one.disk_ratio:.2f} ×", f"{one.commit_kilobytes:,.0f}")
        table.add_row(case, *rates, *disk)
    return table


def _peers_table(ingest: dict[str, Ingest], peers: Sequence[str]) -> Table:
    headings = (heading for peer in peers for heading in (peer, "ratio"))
    table = _table("Sent, events/s, beside logs that sync every batch by itself", TANDEM, *headings)
    for case, one in ingest.items():
        cells = (cell for peer in peers for cell in (f"{one.peers[peer]:,.0f}", f"{one.peer_ratios[peer]:.1f} ×"))
        table.add_row(case, f"{one.events_per_second:,.0f}", *cells)
    return table


def _read_table(read: dict[str, Read]) -> Table:
    table = _table("Read from disk over AMQP, a receiver for each partition", "events/s", "MB/s")
    for case, one in read.items():
        table.add_row(case, f"{one.events_per_second:,.0f}", f"{one.megabytes_per_second:,.1f}")
    return table


def _bulk_table(bulk: Bulk) -> Table:
    kind = "sealed" if bulk.is_sealed else "too few to be sealed, so from the journal"
    table = Table(title=f"{bulk.events:,} events of 100 B read in bulk: {kind}", show_header=False)
    table.add_row("events/s", f"{bulk.events_per_second:,.0f}")
    table.add_row("events/s for each core of the broker's", f"{bulk.events_per_second_per_core:,.0f}")
    table.add_row("MB/s", f"{bulk.megabytes_per_second:,.1f}")
    return table


def _memory_table(memory: Sequence[Memory]) -> Table:
    table = _table("The broker against what its hub stores, MB", *(f"{one.stored_megabytes:,.0f}" for one in memory))
    for figure, label in _MEMORY_ROWS.items():
        digits = 2 if "restart" in figure else 0
        table.add_row(label, *(f"{getattr(one, figure):,.{digits}f}" for one in memory))
    return table


def hub_picture(figures: HubFigures) -> str:
    """An SVG with panels for each part that was measured."""
    panels: list[Bars | Lines] = []
    if figures.ingest:
        panels += _ingest_panels(figures.ingest)
    if figures.read:
        rates = {TANDEM: [one.events_per_second for one in figures.read.values()]}
        panels.append(Bars("Events read over AMQP per second", list(figures.read), rates))
    if figures.bulk is not None:
        of_bulk = [figures.bulk.events_per_second, figures.bulk.events_per_second_per_core]
        panels.append(Bars("Events read in bulk per second", ["in all", "each core"], {TANDEM: of_bulk}))
    if figures.memory:
        panels += _memory_panels(figures.memory)
    return draw(f"Event hubs with {figures.partitions} partitions", panels)


def _ingest_panels(ingest: dict[str, Ingest]) -> list[Bars | Lines]:
    of_all = list(ingest.values())
    megabytes = {
        TANDEM: [one.megabytes_per_second for one in of_all],
        DISK: [one.disk_megabytes_per_second for one in of_all],
    }
    events = {TANDEM: [one.events_per_second for one in of_all]}
    events |= {peer: [one.peers[peer] for one in of_all] for peer in of_all[0].peers}
    return [Bars("Sent, MB per second", list(ingest), megabytes), Bars("Events sent per second", list(ingest), events)]


def _memory_panels(memory: Sequence[Memory]) -> list[Bars | Lines]:
    stored = [one.stored_megabytes for one in memory]
    held = {
        "broker": [one.resident_megabytes for one in memory],
        "at most": [one.peak_megabytes for one in memory],
        "sealing": [one.sealer_peak_megabytes for one in memory],
    }
    starts = {
        "after a stop": [one.restart_s for one in memory],
        "after a kill": [one.restart_s_after_kill for one in memory],
    }
    return [Lines("Memory by MB stored, MB", stored, held), Lines("Start by MB stored, s", stored, starts)]
