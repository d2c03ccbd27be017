"""The jobs, from a running broker to files and back to what people read."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tandem.client import BrokeredMessage as AsyncMessage
from tandem.client.sync import EventData, EventHubClient, MessagingFactory
from tandem.cost.tariff import DEFAULT_TARIFF
from tandem.errors import ConfigurationError
from tandem.lake.place import Place
from tandem.pairing.rewriting import rewrite
from tandem.spark.jobs import syphon as syphon_job
from tandem.spark.jobs.availability import availability
from tandem.spark.jobs.capture import CaptureFormat, CaptureOutput, capture, read_captured
from tandem.spark.jobs.latency import latency
from tandem.spark.jobs.metering import metering
from tandem.spark.jobs.records import read
from tandem.spark.jobs.syphon import syphon
from tandem.spark.report.results import read_results
from tandem.spark.transforms.availability import backlog_depth, outages
from tandem.spark.transforms.operations import pairing_events
from tandem.testing import Broker
from tests.markers import mission
from tests.patience import PATIENCE_S
from tests.spark.captured import captured_bodies, numbers_of
from tests.spark.conftest import MakeHub
from tests.spark.filling import fill
from tests.spark.scripted import LEDGER, do_workload, tell_outage, tell_pairing_events

pytestmark = pytest.mark.timeout(900)


# --- capture --------------------------------------------------------------------------------------------------------


@mission("M11", "M31")
@pytest.mark.parametrize("file_format", ["parquet", "delta", "avro"])
def test_a_capture_has_every_event_once_however_often_it_is_run(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path, file_format: CaptureFormat
) -> None:
    hub = make_hub(60)
    source = {"connectionString": broker.connection_string}
    output = CaptureOutput(Place.parse(tmp_path), file_format)
    for more in (range(0), range(60, 90), range(0)):
        fill(broker, hub, more)
        capture(spark, source, hub, output).awaitTermination()
    assert numbers_of(captured_bodies(output.place)) == Counter(range(90))
    rows = read_captured(spark, tmp_path).collect()
    assert Counter(int(row.body) for row in rows) == Counter(range(90))
    assert {(row.hub, row.date) for row in rows} == {(hub, f"{row.enqueuedTime:%Y-%m-%d}") for row in rows}
    assert {row.partition for row in rows} == {"0", "1"}


@mission("M31")
def test_a_capture_with_another_checkpoint_is_refused_before_it_writes_everything_again(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    hub = make_hub(10)
    source = {"connectionString": broker.connection_string}
    capture(spark, source, hub, CaptureOutput.parse(tmp_path / "out")).awaitTermination()
    other = CaptureOutput(Place.parse(tmp_path / "out"), checkpoint=Place.parse(tmp_path / "other"))
    with pytest.raises(ConfigurationError, match="would be written again"):
        capture(spark, source, hub, other)


@mission("M31")
def test_an_avro_capture_has_keys_and_properties_as_they_were_sent(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    hub = make_hub(0, 1)
    # A number, and texts that look like numbers.
    properties = {"amount": 5, "price": 1.5, "postcode": "50667", "count": "007", "is_new": True, "raw": b"\x00\xff"}
    with EventHubClient.from_connection_string(broker.connection_string, hub) as client:
        sent = EventData(b"chair", properties=properties, partition_key="customer-1")
        client.create_producer().send_batch([sent])
    output = CaptureOutput.parse(tmp_path, "avro")
    capture(spark, {"connectionString": broker.connection_string}, hub, output).awaitTermination()
    [file] = tmp_path.glob("tandem/**/*.avro")
    with file.open("rb") as opened:
        [record] = fastavro.reader(opened)
    assert isinstance(record, dict)
    assert record["Properties"] == {**properties, "is_new": "true"}
    assert record["SystemProperties"]["x-opt-partition-key"] == "customer-1"
    assert (record["SequenceNumber"], record["Offset"], record["Body"]) == (0, "0", b"chair")


@mission("M31")
def test_payloads_of_a_capture_are_columns_in_spark(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    hub = make_hub(0, 2)
    source = {"connectionString": broker.connection_string}
    output = CaptureOutput(Place.parse(tmp_path), options={"payload": "json"})
    for payloads in ([{"id": 1}], [{"id": 2, "shop": {"city": "Köln"}}, {"id": "three"}]):
        with EventHubClient.from_connection_string(broker.connection_string, hub) as client:
            client.create_producer().send_batch([EventData(json.dumps(one)) for one in payloads], partition_id="0")
        capture(spark, source, hub, output).awaitTermination()
    rows = read_captured(spark, tmp_path).orderBy("id").selectExpr("id", "shop.city").collect()
    assert [tuple(row) for row in rows] == [(1, None), (2, "Köln")]
    [aside] = read_captured(spark, tmp_path / "_quarantine").collect()
    assert (aside.sequenceNumber, aside.reason) == (2, "id is string, and its column is long")


@mission("M31")
def test_a_capture_goes_to_any_file_system_that_spark_has(
    spark: SparkSession, broker: Broker, make_hub: MakeHub, tmp_path: Path
) -> None:
    # A file system of Hadoop's that needs nothing else: names of its own for folders of this machine.
    settings = spark._jsc.hadoopConfiguration()
    settings.set("fs.viewfs.mounttable.default.link./lake", (tmp_path / "lake").as_uri())
    (tmp_path / "lake").mkdir()
    hub = make_hub(20)
    source = {"connectionString": broker.connection_string}
    output = CaptureOutput.parse("viewfs:///lake/captured")
    for _ in range(2):
        capture(spark, source, hub, output).awaitTermination()
    assert read_captured(spark, "viewfs:///lake/captured").count() == 20
    assert list((tmp_path / "lake" / "captured" / f"hub={hub}").glob("date=*/hour=*/*.parquet"))
    with pytest.raises(ConfigurationError, match="go to folders and s3://"):
        capture(spark, source, hub, CaptureOutput.parse("viewfs:///lake/other", "delta"))
    # A checkpoint may lie there, too.
    elsewhere = CaptureOutput(Place.parse(tmp_path / "out"), "avro", Place.parse("viewfs:///lake/checkpoint"))
    for _ in range(2):
        capture(spark, source, hub, elsewhere).awaitTermination()
    assert numbers_of(captured_bodies(elsewhere.place)) == Counter(range(20))


# --- cost and latency -----------------------------------------------------------------------------------------------


@mission("M26", "M29", "M31")
def test_the_cost_of_a_scripted_workload_is_known_to_the_unit(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(tmp_path / "data") as broker:
        do_workload(broker)
        # What was counted last is written when the broker stops.
        broker.restart()
        for _ in range(2):
            metering(spark, [broker.connection_string], tmp_path / "out", DEFAULT_TARIFF)
        latency(spark, [broker.connection_string], tmp_path / "out")
    results = read_results(tmp_path / "out")
    units: Counter[tuple[str, str, str]] = Counter()
    for row in results.costs:
        if row["entity_kind"] == "queue" and row["operation"] != "manage":
            place = "orders" if row["entity"] == "orders" else "backlog"
            units[place, row["operation"], row["stage"]] += row["units"]
    assert units == LEDGER
    charged = sum(count for (_, operation, _), count in units.items() if operation != "complete")
    cost = sum(
        (row["cost"] for row in results.costs if row["entity_kind"] == "queue" and row["operation"] != "manage"),
        Decimal(0),
    )
    assert cost == charged * Decimal("0.00000080")
    sends = [row for row in results.latencies if (row["entity"], row["operation"]) == ("orders", "send")]
    # Pings are an operation of their own, and not among the sends.
    assert sum(row["count"] for row in sends) == 8 + 5


# --- availability ---------------------------------------------------------------------------------------------------


@mission("M31")
def test_the_outage_of_a_script_is_told_as_it_was(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    entity = f"orders-{tmp_path.name}"
    start = tell_outage(broker, entity)
    sent, received = tmp_path / "sent.jsonl", tmp_path / "received.jsonl"
    for path, numbers in ((sent, [0, 1, 2]), (received, [0, 2, 1, 1])):
        lines = [
            {
                "entity": entity,
                "messageId": f"m{number}",
                "number": number,
                "time": (start + timedelta(seconds=at)).isoformat(),
            }
            for at, number in enumerate(numbers)
        ]
        path.write_text("\n".join(map(json.dumps, lines)))
    for _ in range(2):
        availability(spark, [broker.connection_string], tmp_path / "out", sent=sent, received=received)
    results = read_results(tmp_path / "out")
    [outage] = [row for row in results.outages if row["entity"] == entity]
    times = [outage[name].timestamp() for name in ("failing_at", "failed_over_at", "restored_at", "drained_at")]
    assert [moment - start.timestamp() for moment in times] == [0, 10, 71, 75]
    assert (outage["pings"], outage["diverted"], outage["syphoned"]) == (1, 100, 100)
    assert [row["depth"] for row in results.backlog if row["entity"] == entity] == [100, 0]
    [arrived] = results.arrivals
    assert (arrived["lost"], arrived["duplicates"], arrived["out_of_order"]) == (0, 1, 1)


# --- syphon ---------------------------------------------------------------------------------------------------------


def divert(broker: Broker, queue: str, path: str, count: int) -> None:
    """Messages as a paired client leaves them in a backlog queue, and one that nobody can restore."""
    broker.create_queue(queue)

    async def send() -> None:
        from tandem.client import MessagingFactory as AsyncFactory

        async with AsyncFactory.from_connection_string(broker.connection_string) as factory:
            diverted = [
                rewrite(AsyncMessage(str(number), message_id=f"m{number}", session_id=None, label="x"), path)
                for number in range(count)
            ]
            poison = AsyncMessage("whose?", message_id="poison")
            await factory.create_message_sender(queue).send_batch([*diverted[:2], poison, *diverted[2:]])

    asyncio.run(send())


def taken(broker: Broker, queue: str, count: int) -> Counter[str]:
    """So many messages, after which there are no more."""
    found: Counter[str] = Counter()
    with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        client = factory.create_queue_client(queue)
        while found.total() < count:
            messages = client.receive_batch(500, timeout=PATIENCE_S)
            assert messages, f"only {found.total()} of {count} came"
            for message in messages:
                assert message.properties == {}
                found[message.body.decode()] += 1
                message.complete()
    assert broker.queue(queue)["message_count"] == 0
    return found


@mission("M31")
def test_a_backlog_is_drained_in_parallel_and_what_cannot_be_restored_stays(
    spark: SparkSession, broker: Broker, make_queue: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = make_queue()
    queues = [f"{target}/x-servicebus-transfer/{number}" for number in range(2)]
    for queue in queues:
        divert(broker, queue, target, 30)
    bus = broker.connection_string
    # A client that spells the address of the primary in another way than the syphon does.
    pairing = {"primary": "sb://elsewhere", "primary_namespace": target}
    tell_pairing_events(
        broker,
        target,
        [(0, "failing", {}), (1, "failed-over", {}), (2, "diverted", {"count": 60, "queue": 0}), (3, "restored", {})],
        **pairing,
    )

    def drain() -> syphon_job.Drained:
        return syphon(spark, bus, bus, queues, tmp_path, tasks=3, round_messages=20)

    def crash(*_: object) -> int:
        raise RuntimeError("crashed before purging")

    with monkeypatch.context() as patched:
        real = syphon_job._purge
        patched.setattr(syphon_job, "_purge", lambda secondary, sent: crash() if list(sent) else real(secondary, []))
        with pytest.raises(RuntimeError, match="crashed before purging"):
            drain()
    # The first round was noted: it is purged, and not sent again.
    done = drain()
    assert (done.sent, done.purged) == (60 - 38, 60)
    assert [row["outcome"][:27] for row in done.left] == ["the message has no property"] * 2
    assert taken(broker, target, 60) == Counter({str(number): 2 for number in range(30)})
    assert [broker.queue(queue)["message_count"] for queue in queues] == [1, 1]
    assert drain().sent == 0
    # What was moved is known to whoever asks about the outage, once, although the first run crashed.
    told = read(spark, [bus]).transform(pairing_events).where(sql.col("entity") == target)
    [outage] = told.transform(outages).collect()
    assert (outage.primary, outage.diverted, outage.syphoned) == (target, 60, 60)
    assert outage.drained_at >= outage.restored_at
    assert told.transform(backlog_depth).orderBy("time").collect()[-1].depth == 0
    # A queue that is made again counts from 1: what an earlier run has purged says nothing about its messages.
    broker.delete_queue(queues[0])
    divert(broker, queues[0], target, 5)
    assert drain().sent == 5
    assert taken(broker, target, 5) == Counter(map(str, range(5)))
