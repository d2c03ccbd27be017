"""`tandem bench hub` runs, and its figures are figures. What they are is not a test's business."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self
from xml.etree import ElementTree

import msgspec
import pytest

from bench.peers.kafka import Kafka, Redpanda
from bench.peers.kafka_load import KafkaJob, crc32c, record_batch
from tandem.bench.entities import operations
from tandem.bench.entities.operations import METERED, NOT_METERED, measure_operations
from tandem.bench.hub.folder import sequential_write_s
from tandem.bench.hub.memory import Memory, measure_memory
from tandem.bench.hub.report import HubFigures, hub_picture, hub_tables
from tandem.bench.hub.streams import (
    Bulk,
    Case,
    HubBroker,
    HubPeer,
    Ingest,
    Read,
    hub_broker,
    measure_streams,
    stream_steps,
)
from tandem.bench.measuring import machine
from tandem.bench.measuring.contender import run_program
from tandem.bench.measuring.peers import BenchmarkFailed, peer_program
from tandem.bench.measuring.process import HOST

TANDEM = Path(sys.executable).parent / "tandem"
PANEL = "{http://www.w3.org/2000/svg}g"


def tandem(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TANDEM, *arguments], cwd=folder, capture_output=True, text=True, check=False)


# --- the load and the folder ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hub() -> Iterator[HubBroker]:
    with hub_broker() as started:
        yield started


@pytest.mark.parametrize("case", [Case(100, 1), Case(64, 10)], ids=["singly", "in batches"])
def test_all_events_are_stored_and_read_again(hub: HubBroker, case: Case) -> None:
    before = sum(hub.stored_events())
    sent = hub.ingest(case, 400)
    assert sent["events_per_second"] == pytest.approx(400 / sent["seconds"])
    stored = hub.stored_events()
    assert sum(stored) == before + 400
    for read in (hub.read(case), hub.read_bulk(stored)):
        assert read["events_per_second"] == pytest.approx(sum(stored) / read["seconds"])


def test_a_bulk_read_that_gives_too_little_fails(hub: HubBroker) -> None:
    too_many = [count + 1 for count in hub.stored_events()]
    with pytest.raises(BenchmarkFailed, match="were expected"):
        hub.read_bulk(too_many)


def test_the_journal_tells_how_many_bytes_a_sync_was_for(hub: HubBroker) -> None:
    hub.ingest(Case(1_000, 1), 400)
    pattern = hub.folder.write_pattern()
    assert 100 < pattern.record_bytes <= pattern.commit_bytes <= hub.folder.journal_bytes


def test_the_broker_has_spent_cpu_time(hub: HubBroker) -> None:
    assert machine.cpu_seconds(hub.broker.pid) > 0
    assert 0 < machine.anonymous_bytes(hub.broker.pid) < machine.resident_bytes(hub.broker.pid)


def test_the_disk_alone_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    assert sequential_write_s(tmp_path, 100_001, 10_000) > 0
    assert list(tmp_path.iterdir()) == []


def test_cases_are_whole_batches_for_every_partition() -> None:
    assert [Case(100, 100).events(1), Case(1024, 100).events(1), Case(1024, 1).events(1)] == [10_000, 800, 1_000]
    assert [Case(100, 1).name, Case(1024, 100).name] == ["100 B", "1 KB × 100"]


# --- the parts ------------------------------------------------------------------------------------------------------


def test_bench_hub_saves_what_it_shows(tmp_path: Path) -> None:
    run = tandem("bench", "hub", "--megabytes", "1", "--rounds", "1", "--only", "bulk", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "10,000 events of 100 B read in bulk" in run.stdout
    figures = msgspec.json.decode((tmp_path / "build/bench/hub.json").read_bytes(), type=HubFigures)
    assert figures.bulk is not None
    # So few are not sealed.
    assert (figures.bulk.events, figures.bulk.is_sealed) == (10_000, False)
    assert figures.bulk.events_per_second_per_core > 0
    assert len(ElementTree.parse(tmp_path / "build/bench/hub.svg").findall(PANEL)) == 1


class _Peer(HubPeer):
    """Half as fast as anybody could count."""

    name = "another"
    is_up = False

    def __enter__(self) -> Self:
        self.is_up = True
        return self

    def __exit__(self, *_: object) -> None:
        self.is_up = False

    def events_per_second(self, case: Case, events: int) -> float:
        assert self.is_up
        return 0.5


def test_streams_are_measured_beside_the_disk_and_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.bench.hub.streams.CASES", (Case(1024, 10),))
    said: list[str] = []
    peers = [_Peer()]
    ingest, read = measure_streams(1, 1, peers, reads=True, advance=said.append)
    assert len(said) == stream_steps(1, peers, reads=True)
    one = ingest["1 KB × 10"]
    assert one.peer_ratios == {"another": pytest.approx(2 * one.events_per_second)}
    assert one.disk_ratio == pytest.approx(one.megabytes_per_second / one.disk_megabytes_per_second)
    assert one.commit_kilobytes > 10
    assert read["1 KB × 10"].events_per_second > 0
    assert not peers[0].is_up


def test_streams_that_nobody_wants_to_read_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.bench.hub.streams.CASES", (Case(100, 1),))
    said: list[str] = []
    ingest, read = measure_streams(1, 1, [], reads=False, advance=said.append)
    assert (list(ingest), read) == (["100 B"], {})
    assert len(said) == stream_steps(1, [], reads=False)


def test_memory_is_measured_while_a_hub_grows() -> None:
    said: list[str] = []
    small, large = measure_memory((1, 2), said.append)
    assert 0.5 < small.stored_megabytes < large.stored_megabytes < 2.5
    for one in (small, large):
        assert one.peak_megabytes >= one.resident_megabytes > 10
        assert one.journal_megabytes > one.stored_megabytes
        assert min(one.restart_s, one.restart_s_after_kill) > 0
    assert said[0] == "1 MB stored: sending"


def test_metering_is_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "TURNS_PER_ROUND", 1)
    rates, ratio = measure_operations(200, 100, 1, lambda _: None)
    assert ratio == rates[METERED][0] / rates[NOT_METERED][0] > 0


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--only", "speed"), "--only 'speed' is not one of ingest, read, bulk, memory"),
        (("--kafka", "nowhere"), "--kafka nowhere is not a program that can be started"),
    ],
)
def test_what_is_not_known_is_one_clear_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    run = tandem("bench", "hub", *arguments, folder=tmp_path)
    assert (run.returncode, run.stderr) == (1, f"tandem: {said}\n")


# --- the report -----------------------------------------------------------------------------------------------------


def whole_report() -> HubFigures:
    ingest = Ingest(
        events=10,
        events_per_second=5.0,
        megabytes_per_second=1.0,
        disk_megabytes_per_second=2.0,
        disk_ratio=0.5,
        commit_kilobytes=64.0,
        peers={"kafka": 2.5},
        peer_ratios={"kafka": 2.0},
    )
    memory = Memory(
        stored_megabytes=100.0,
        resident_megabytes=80.0,
        peak_megabytes=90.0,
        read_megabytes=85.0,
        sealer_peak_megabytes=120.0,
        journal_megabytes=64.0,
        restart_s=0.5,
        restart_s_after_kill=0.6,
    )
    return HubFigures(
        machine="a machine",
        form="compiled",
        megabytes=1,
        rounds=1,
        ingest={"1 KB": ingest},
        read={"1 KB": Read(events_per_second=3.0, megabytes_per_second=0.1)},
        bulk=Bulk(
            events=10,
            is_sealed=True,
            events_per_second=4.0,
            megabytes_per_second=0.2,
            events_per_second_per_core=8.0,
        ),
        memory=[memory],
    )


def test_every_part_of_a_report_has_tables_and_panels() -> None:
    figures = whole_report()
    tables = list(hub_tables(figures))
    assert len(tables) == 5
    assert [column.header for column in tables[1].columns] == ["", "tandem", "kafka", "ratio"]
    assert len(ElementTree.fromstring(hub_picture(figures)).findall(PANEL)) == 6


def test_a_report_is_read_back_as_it_was_written() -> None:
    figures = whole_report()
    assert msgspec.json.decode(msgspec.json.encode(figures), type=HubFigures) == figures


# --- Kafka's protocol -----------------------------------------------------------------------------------------------


def test_the_checksum_is_that_of_castagnoli() -> None:
    # The check value of CRC-32C.
    assert crc32c(b"123456789") == 0xE306_9283


def test_a_record_batch_says_what_it_holds() -> None:
    batch = record_batch(b"x" * 100, 3, 1_700_000_000_000)
    base, length, epoch, magic, crc = struct.unpack_from(">qiibI", batch)
    assert (base, length, epoch, magic, crc) == (0, len(batch) - 12, 0, 2, crc32c(batch[21:]))
    last, first_ms, last_ms = struct.unpack_from(">iqq", batch, 23)
    assert (last, first_ms, last_ms) == (2, 1_700_000_000_000, 1_700_000_000_000)
    # Zigzag: the length of a record in two bytes, no attributes, no delay, number, no key, length of the body.
    records = batch[61:]
    assert len(records) % 3 == 0
    second = records[len(records) // 3 :]
    assert second[:8] == bytes([0xD6, 0x01, 0, 0, 2, 1, 0xC8, 0x01])


class _Log(threading.Thread):
    """One connection of a log that speaks as much of Kafka's protocol as the load, and refuses the first batch."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server((HOST, 0))
        self.batches: list[tuple[int, bytes]] = []

    def run(self) -> None:
        connection, _ = self.listener.accept()
        with connection, connection.makefile("rwb") as stream:
            while length := stream.read(4):
                stream.write(self._answer(stream.read(int.from_bytes(length, "big"))))
                stream.flush()

    def _answer(self, request: bytes) -> bytes:
        api, version, number, client_length = struct.unpack_from(">hhih", request)
        body = request[10 + client_length :]
        if (api, version) == (19, 2):
            (name_length,) = struct.unpack_from(">h", body, 4)
            answer = struct.pack(">ii", 0, 1) + body[4 : 6 + name_length] + struct.pack(">hh", 0, -1)
        else:
            assert (api, version) == (0, 3)
            (name_length,) = struct.unpack_from(">h", body, 12)
            partition, batch_length = struct.unpack_from(">ii", body, 18 + name_length)
            batch = body[26 + name_length :]
            assert len(batch) == batch_length
            self.batches.append((partition, batch))
            # Error 6: it does not lead this partition, yet.
            outcome = struct.pack(">iihqq", 1, partition, 6 if len(self.batches) == 1 else 0, 0, -1)
            answer = struct.pack(">i", 1) + body[12 : 14 + name_length] + outcome + struct.pack(">i", 0)
        return struct.pack(">ii", 4 + len(answer), number) + answer


def test_the_load_sends_every_event_to_a_log_that_speaks_kafka() -> None:
    log = _Log()
    log.start()
    port: int = log.listener.getsockname()[1]
    with log.listener:
        job = KafkaJob(host=HOST, port=port, topic="t", partitions=2, events=4_000, body_bytes=9, batch_events=10)
        assert run_program(peer_program("kafka_load"), job)["events_per_second"] > 0
        log.join()
    # One that was refused, one more for each partition before the clock starts, and then all.
    assert [partition for partition, _ in log.batches[:5]] == [0, 0, 1, 0, 1]
    assert len(log.batches) == 3 + 400
    assert {batch[57:61] for _, batch in log.batches} == {struct.pack(">i", 10)}


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    program = tmp_path / "redpanda"
    program.write_text("#!/bin/sh\necho no memory for $1\nexit 3\n")
    program.chmod(0o700)
    with (
        pytest.raises(BenchmarkFailed, match=r"redpanda did not start:\nno memory for --redpanda-cfg\n"),
        Redpanda(program),
    ):
        pass
    with pytest.raises(BenchmarkFailed, match=r"kafka-storage\.sh is missing"), Kafka(program):
        pass
