"""`tandem bench queue` runs, and its figures are figures. What they are is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from tandem.bench.entities.report import Figures, picture, tables
from tandem.bench.load.job import Job, Peer, percentile
from tandem.bench.measuring.contender import run_job
from tandem.bench.measuring.plot import Bars, Lines, draw

TANDEM = Path(sys.executable).parent / "tandem"


def tandem(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TANDEM, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def relay() -> Iterator[Peer]:
    command = [sys.executable, "-m", "tandem.bench.amqp.relay_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield Peer("127.0.0.1", int(process.stdout.readline().split()[1]), "user", "password")
        process.terminate()


# --- the load generator ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"mode": "send", "addresses": ["one-way"]},
        {"mode": "recv", "addresses": ["one-way"]},
        {"mode": "both", "addresses": ["both"]},
        {"mode": "both", "addresses": ["confirmed"], "is_confirmed": True},
        {"mode": "both", "addresses": ["many-connections"], "connections": 5},
        {"mode": "both", "addresses": [f"entity-{number}" for number in range(7)]},
    ],
    ids=["send", "receive", "both", "confirmed", "connections", "entities"],
)
def test_a_flood_moves_every_message(relay: Peer, fields: dict[str, Any]) -> None:
    if fields["mode"] == "recv":
        run_job(Job(kind="rate", peer=relay, count=1_003, **{**fields, "mode": "send"}))
    figures = run_job(Job(kind="rate", peer=relay, count=1_003, **fields))
    assert figures["messages_per_second"] == pytest.approx(1_003 / figures["seconds"])


def test_latencies_are_in_order(relay: Peer) -> None:
    one_by_one = run_job(Job(kind="round-trips", peer=relay, addresses=["trips"], count=50))
    assert 0 < one_by_one["send_p50_ms"] <= one_by_one["send_p99_ms"] <= one_by_one["send_max_ms"]
    paced = run_job(Job(kind="fixed-load", peer=relay, addresses=["paced"], count=200, rate_per_second=1_000))
    for what in ("send", "delivery"):
        assert 0 < paced[f"{what}_p50_ms"] <= paced[f"{what}_p99_ms"] <= paced[f"{what}_max_ms"]


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (51.0, 100.0, 7.0)


# --- the command ----------------------------------------------------------------------------------------------------


def test_bench_queue_prints_and_saves_a_rate_for_every_mode(tmp_path: Path) -> None:
    arguments = ("--messages", "500", "--rounds", "1", "--against", "none", "--only", "rates")
    run = tandem("bench", "queue", *arguments, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "both at once" in run.stdout
    figures = msgspec.json.decode((tmp_path / "build/bench/queue.json").read_bytes(), type=Figures)
    assert set(figures.rates) == {"tandem"}
    assert set(figures.rates["tandem"]) == {"send", "recv", "both", "recv-confirmed"}
    assert all(rate > 0 for rates in figures.rates["tandem"].values() for rate in rates)
    ElementTree.parse(tmp_path / "build/bench/queue.svg")


def test_bench_queue_measures_latency_connections_and_entities(tmp_path: Path) -> None:
    parts = "latency,connections,entities"
    arguments = ("--messages", "400", "--rounds", "1", "--against", "none", "--only", parts, "--json", "-")
    run = tandem("bench", "queue", *arguments, folder=tmp_path)
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert set(figures["latency"]) == {"machine", "tandem"}
    assert set(figures["connections"]["tandem"]) == {"1", "4", "16", "64"}
    assert set(figures["entities"]["tandem"]) == {"1", "10", "100"}
    assert figures["idle_connections"]["alive"] == figures["idle_connections"]["connections"]


@pytest.mark.parametrize(
    "option, value, allowed",
    [
        ("--only", "speed", "rates, latency, backlog, connections, entities, operations"),
        ("--against", "kafka", "classic, quorum"),
    ],
)
def test_a_word_that_is_not_known_is_one_clear_line(option: str, value: str, allowed: str, tmp_path: Path) -> None:
    run = tandem("bench", "queue", option, value, folder=tmp_path)
    assert (run.returncode, run.stderr) == (1, f"tandem: {option} '{value}' is not one of {allowed}\n")


# --- the report -----------------------------------------------------------------------------------------------------


def whole_report() -> Figures:
    rates = {"send": [10.0, 30.0, 20.0], "recv": [1.0], "both": [2.0]}
    backlog = {"messages": 1_000.0, "resident_mb": 50.0, "resident_mb_after_restart": 40.0}
    backlog |= {"resident_mb_after_receiving": 51.0, "peak_mb": 60.0, "send_per_second": 9.0, "receive_per_second": 8.0}
    backlog |= {"short_receive_per_second": 8.5, "restart_s": 0.5, "restart_s_after_kill": 0.6}
    idle = {"connections": 5.0, "alive": 5.0, "bytes_each": 2_048.0}
    idle |= {"send_p50_ms_alone": 1.0, "send_p50_ms_beside": 1.5, "both_per_second_beside": 7.0}
    return Figures(
        machine="a machine",
        form="compiled",
        load_generator="ours",
        messages=10,
        body_bytes=1_024,
        rounds=3,
        rates={"tandem": {**rates, "recv-confirmed": [3.0]}, "rabbitmq classic": rates},
        ratios={"rabbitmq classic": {"send": 1.0, "recv": 1.0, "both": 1.0}},
        latency={
            "machine": {"send_p50_ms": 0.2, "send_p99_ms": 1.0},
            "tandem": {"send_p50_ms": 0.3, "times_the_machine": 1.5},
        },
        backlog=[backlog],
        connections={"tandem": {1: 5.0, 4: 6.0}},
        entities={"tandem": {1: 5.0}},
        idle_connections=idle,
    )


def test_every_part_of_a_report_has_a_table_and_a_panel() -> None:
    figures = whole_report()
    assert len(list(tables(figures))) == 6
    drawn = ElementTree.fromstring(picture(figures))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}g")) == 6


def test_a_report_is_read_back_as_it_was_written() -> None:
    figures = whole_report()
    assert msgspec.json.decode(msgspec.json.encode(figures), type=Figures) == figures


def test_a_picture_escapes_what_it_is_given_and_leaves_out_what_is_missing() -> None:
    bars = Bars("a < b", ["x"], {"one": [1.0], "two": [None]})
    lines = Lines("lines", [1.0, 10.0], {"one": [0.0, 5.0]})
    drawn = ElementTree.fromstring(draw("<title> & more", [bars, lines]))
    of_the_second = drawn.findall(".//{http://www.w3.org/2000/svg}rect[@class='bar s1']")
    assert len(of_the_second) == 1  # the one in the legend
