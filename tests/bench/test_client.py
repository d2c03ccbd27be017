"""`tandem bench client` runs with both libraries, and its figures are figures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from tandem.bench.client import comparison as client
from tandem.bench.client.comparison import (
    ClientFigures,
    Rates,
    client_picture,
    client_steps,
    client_tables,
    measure_clients,
)
from tandem.bench.client.load import AZURE, MODES, RECEIVES, TANDEM_CLIENT, ClientJob
from tandem.bench.measuring.contender import run_program
from tandem.bench.measuring.peers import BenchmarkFailed
from tandem.testing import Broker


def test_both_libraries_are_measured_and_leave_an_empty_queue() -> None:
    steps: list[str] = []
    figures = measure_clients(20, 100, 10, 1, steps.append)
    assert len(steps) == client_steps(1) == 2 * len(MODES)
    for mode in MODES:
        assert list(figures.rates[mode]) == [TANDEM_CLIENT, AZURE]
        for rates in figures.rates[mode].values():
            assert min(rates.messages_per_second + rates.client_cpu_us) > 0
        ours, theirs = (figures.rates[mode][name].messages_per_second[0] for name in (TANDEM_CLIENT, AZURE))
        assert figures.ratio(mode) == pytest.approx(ours / theirs)
    assert msgspec.json.decode(msgspec.json.encode(figures), type=ClientFigures) == figures


@pytest.fixture
def figures() -> ClientFigures:
    rates = {TANDEM_CLIENT: Rates(messages_per_second=[10.0, 30.0, 20.0], client_cpu_us=[1.0, 3.0, 2.0])}
    return ClientFigures(
        machine="", form="compiled", messages=1, body_bytes=1, in_flight=1, rounds=3, rates=dict.fromkeys(MODES, rates)
    )


def test_without_the_official_sdk_there_is_no_ratio(figures: ClientFigures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "has_official_sdk", lambda: False)
    assert client_steps(2) == 2 * len(MODES)
    assert figures.ratio(RECEIVES) is None
    console = Console(record=True, width=100)
    for table in client_tables(figures):
        console.print(table)
    assert "20" in console.export_text()
    assert ElementTree.fromstring(client_picture(figures)).tag.endswith("svg")


@pytest.mark.parametrize("library", [TANDEM_CLIENT, AZURE])
def test_messages_that_do_not_come_fail_the_run(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(tmp_path) as broker:
        broker.create_queue("empty")
        job = ClientJob(
            library=library,
            mode=RECEIVES,
            connection_string=broker.connection_string,
            queue="empty",
            count=3,
            body_bytes=1,
            in_flight=1,
            receive_timeout_s=0.2,
        )
        with pytest.raises(BenchmarkFailed, match="3 of 3 messages did not come"):
            run_program("tandem.bench.client.load", job)
