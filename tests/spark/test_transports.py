"""Both wires to a hub, without Spark: the same events from either, and a broker that goes away in between."""

from __future__ import annotations

import pickle
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tandem.client.errors import CertificateNotTrustedError
from tandem.client.sync import BrokeredMessage, EventData, EventHubClient
from tandem.engine.hubs.rows import head_properties
from tandem.errors import RemoteError, TandemError
from tandem.event_columns import HEAD, PUBLIC_SCHEMA
from tandem.spark.offsets import DataLoss, EventRange
from tandem.spark.options import EventHubsOptions
from tandem.spark.places import chosen_extent, ending_offset, starting_offset
from tandem.spark.reaching import ServiceUnreachable
from tandem.spark.transport import HubTransport, open_transport
from tandem.testing import Broker
from tests.markers import mission
from tests.spark.conftest import MakeHub
from tests.spark.filling import fill

TRANSPORTS = pytest.mark.parametrize("transport", ["arrow", "amqp"])


def options(broker: Broker, hub: str, transport: str, **more: str) -> EventHubsOptions:
    given = {"connectionString": broker.connection_string, "eventHub": hub, "transport": transport, **more}
    return EventHubsOptions.parse(given, is_stream="maxEventsPerTrigger" in more)


def opened(broker: Broker, hub: str, transport: str, **more: str) -> HubTransport:
    # As it reaches an executor.
    made: HubTransport = pickle.loads(pickle.dumps(open_transport(options(broker, hub, transport, **more), hub)))
    return made


def part(transport: HubTransport, partition: str, first: int, end: int) -> EventRange:
    extent = transport.extent()
    return EventRange(extent.hub, extent.incarnation, partition, first, end)


def read(transport: HubTransport, partition: str, first: int, end: int) -> Any:
    batches = list(transport.read(part(transport, partition, first, end), PUBLIC_SCHEMA.names))
    return pa.Table.from_batches(batches) if batches else None


def bodies(table: Any) -> list[bytes]:
    found: list[bytes] = table["body"].to_pylist()
    return found


@mission("M11", "M30")
@TRANSPORTS
def test_a_range_is_read_as_often_as_one_likes(broker: Broker, make_hub: MakeHub, transport: str) -> None:
    hub = opened(broker, make_hub(20), transport)
    assert {partition: (one.begin, one.next) for partition, one in hub.extent().partitions.items()} == {
        "0": (0, 10),
        "1": (0, 10),
    }
    for _ in range(2):
        assert bodies(read(hub, "1", 3, 6)) == [b"7", b"9", b"11"]
    assert read(hub, "0", 0, 10)["sequenceNumber"].to_pylist() == list(range(10))


@mission("M30")
def test_both_wires_say_the_same_of_every_kind_of_event(broker: Broker, make_hub: MakeHub) -> None:
    hub = make_hub()
    with EventHubClient.from_connection_string(broker.connection_string, hub) as client, client.create_producer() as to:
        to.send(EventData("plain"), partition_id="0")
        to.send(EventData(b"\x00\xff", properties={"n": 1, "f": 1.5, "t": "text", "b": True}), partition_key="k")
        to.send(EventData("x", content_type="text/plain", message_id="m-1", correlation_id="c-1"), partition_id="0")
        to.send_batch([EventData(str(number), properties={"n": number}) for number in range(50)], partition_key="other")
    arrow, amqp = (opened(broker, hub, one) for one in ("arrow", "amqp"))
    compared = 0
    for partition, bounds in arrow.extent().partitions.items():
        if bounds.next:
            expected = read(arrow, partition, 0, bounds.next)
            assert read(amqp, partition, 0, bounds.next).to_pylist() == expected.to_pylist()
            assert read(amqp, partition, 0, bounds.next).schema.equals(expected.schema)
            compared += bounds.next
    assert compared == 53


@TRANSPORTS
def test_a_time_and_an_offset_are_found(broker: Broker, make_hub: MakeHub, transport: str) -> None:
    name = make_hub(6)
    hub = opened(broker, name, transport)
    middle_ms = 1 + max(int(moment.timestamp() * 1_000) for moment in read(hub, "0", 0, 3)["enqueuedTime"].to_pylist())
    while time.time() * 1_000 <= middle_ms:
        time.sleep(0.001)
    fill(broker, name, range(6, 8))
    # Partition 1 has one event too, and may have got its first three later.
    assert hub.numbers_at_time(middle_ms)["0"] == 3
    assert hub.numbers_at_time(0) == {"0": 0, "1": 0}
    assert hub.number_at_offset("0", "2") == 2


@TRANSPORTS
def test_positions_become_numbers(broker: Broker, make_hub: MakeHub, transport: str) -> None:
    name = make_hub(8)
    chosen = options(
        broker,
        name,
        transport,
        startingPositions='{"1": {"seqNo": 1, "isInclusive": false}}',
        endingPositions='{"0": {"offset": "3"}}',
    )
    hub = open_transport(chosen, name)
    extent = chosen_extent(chosen, hub)
    assert starting_offset(chosen, hub, extent).next_numbers == {"0": 0, "1": 2}
    assert ending_offset(chosen, hub, extent).next_numbers == {"0": 3, "1": 4}
    wrong = options(broker, name, transport, startingOffsets=f'{{"{name}": {{"0": 99}}}}')
    with pytest.raises(TandemError, match="partition 0 is 99; its next event will have number 4"):
        starting_offset(wrong, hub, extent)
    with pytest.raises(TandemError, match="partitions names 7"):
        chosen_extent(options(broker, name, transport, partitions="7"), hub)


@mission("M30")
@TRANSPORTS
def test_a_hub_that_was_made_again_is_not_mistaken_for_the_old_one(
    broker: Broker, make_hub: MakeHub, transport: str
) -> None:
    name = make_hub(4)
    hub = opened(broker, name, transport)
    planned = part(hub, "1", 0, 2)
    broker.delete_hub(name)
    # With fewer partitions: what was planned cannot even be asked for.
    broker.create_hub(name, partition_count=1)
    fill(broker, name, range(4), partition_count=1)
    assert hub.extent().incarnation != planned.incarnation
    with pytest.raises(DataLoss, match="deleted and made again"):
        list(hub.read(planned, ["body"]))
    tolerant = opened(broker, name, transport, failOnDataLoss="false")
    assert list(tolerant.read(planned, ["body"])) == []


@mission("M30")
def test_events_that_a_restored_backup_does_not_have_are_missed_or_left_out(tmp_path: Path) -> None:
    """Spark reads a batch as it was planned, again and again, until that succeeds."""
    with Broker(tmp_path / "data") as broker:
        broker.create_hub("logs", partition_count=1)
        fill(broker, "logs", range(6), 1)
        broker.stop()
        shutil.copytree(tmp_path / "data", tmp_path / "backup")
        broker.start()
        fill(broker, "logs", range(6, 10), 1)
        strict, tolerant = (
            {transport: opened(broker, "logs", transport, failOnDataLoss=fails) for transport in ("arrow", "amqp")}
            for fails in ("true", "false")
        )
        planned = {transport: [part(hub, "0", 0, 10), part(hub, "0", 8, 10)] for transport, hub in strict.items()}
        broker.kill()
        shutil.rmtree(tmp_path / "data")
        shutil.copytree(tmp_path / "backup", tmp_path / "data")
        broker.start()
        for transport, ranges in planned.items():
            for wanted, left in zip(ranges, ([0, 1, 2, 3, 4, 5], []), strict=True):
                with pytest.raises(DataLoss, match="ends before event 6, and had events up to 9"):
                    list(strict[transport].read(wanted, ["body"]))
                numbers = [
                    number
                    for batch in tolerant[transport].read(wanted, ["body"])
                    for number in batch.column("sequenceNumber").to_pylist()
                ]
                assert numbers == left


@TRANSPORTS
def test_types_of_properties_are_in_the_heads(tmp_path: Path, transport: str) -> None:
    with Broker(tmp_path) as broker:
        broker.create_hub("typed", partition_count=1)
        sent: list[dict[str, object]] = [{"n": number, "t": str(number)} for number in range(30)]
        with EventHubClient.from_connection_string(broker.connection_string, "typed") as client:
            client.create_producer().send_batch([EventData("x", properties=one) for one in sent], partition_id="0")
        hub = opened(broker, "typed", transport)
        batches = list(hub.read(part(hub, "0", 3, 30), ["sequenceNumber", HEAD]))
        heads = [head for batch in batches for head in batch.column(HEAD).to_pylist()]
        assert [head_properties(head) for head in heads] == sent[3:]


def test_what_does_not_exist_is_said_at_once(broker: Broker) -> None:
    with pytest.raises(RemoteError, match="not-found"):
        opened(broker, "nowhere", "arrow").extent()


@TRANSPORTS
def test_a_certificate_that_is_not_trusted_is_said_at_once(broker: Broker, make_hub: MakeHub, transport: str) -> None:
    name = make_hub()
    secure = broker.connection_string.replace("UseDevelopmentEmulator=true", "").replace("127.0.0.1", "localhost")
    given = {"connectionString": secure, "eventHub": name, "transport": transport, "operationTimeout": "20s"}
    hub = open_transport(EventHubsOptions.parse(given), name)
    with pytest.raises(CertificateNotTrustedError, match=r"is not trusted: .*SSL_CERT_FILE"):
        hub.extent()


def test_a_broker_that_never_comes_is_waited_for_as_long_as_was_said(tmp_path: Path) -> None:
    never = Broker(tmp_path)
    with pytest.raises(ServiceUnreachable, match=r"tried for 0\.5 s"):
        opened(never, "orders", "arrow", operationTimeout="500ms").extent()


@mission("M30")
@TRANSPORTS
def test_a_read_goes_on_where_it_was_when_the_broker_was_killed(tmp_path: Path, transport: str) -> None:
    with Broker(tmp_path) as broker:
        broker.create_hub("logs", partition_count=1)
        # More than what sockets hold on the way.
        fill(broker, "logs", range(20_000), 1, body_bytes=1_024)
        hub = opened(broker, "logs", transport, operationTimeout="30s", prefetchCount="500")
        extent = hub.extent()
        wanted = EventRange("logs", extent.incarnation, "0", 0, 20_000)
        batches: Iterator[Any] = hub.read(wanted, PUBLIC_SCHEMA.names)
        seen = [next(batches)]
        broker.kill()
        again = threading.Thread(target=broker.start)
        again.start()
        seen += batches
        again.join()
        numbers = pa.Table.from_batches(seen)["sequenceNumber"].to_pylist()
        assert numbers == list(range(20_000))


def test_messages_and_events_are_not_confused(broker: Broker, make_hub: MakeHub) -> None:
    # What Tandem's own client sends to a hub as a message is an event with its properties.
    name = make_hub()
    from tandem.client.sync import MessagingFactory

    with MessagingFactory.from_connection_string(broker.connection_string) as factory:
        factory.create_message_sender(name).send(BrokeredMessage("hello", label="greeting", message_id="1"))
    hub = opened(broker, name, "arrow")
    tables = [read(hub, partition, 0, one.next) for partition, one in hub.extent().partitions.items() if one.next]
    assert dict(tables[0]["systemProperties"].to_pylist()[0]) == {"message-id": "1", "subject": "greeting"}
