"""Strangers that mean no good are refused, and another client does not notice."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path

import pytest

from tandem.amqp import ACCEPTED, Settings
from tandem.amqp.message import encode_message
from tandem.bench.measuring.machine import resident_bytes
from tandem.driver import Client
from tandem.errors import RemoteError, TandemError
from tandem.testing import Broker
from tests.load.clients import HOST, anonymous, connect, others_go_on
from tests.markers import mission
from tests.patience import PATIENCE_S

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"


async def _is_hung_up_on(said: bytes, broker: Broker, pause_s: float = 0.4) -> bool:
    """Say these bytes, one at a time, then nothing; wait until the broker hangs up."""
    reader, writer = await asyncio.open_connection(HOST, broker.port)
    try:
        for position in range(len(said)):
            writer.write(said[position : position + 1])
            # Whatever the broker answers is read, so that only its end can end the wait.
            with_pause = asyncio.wait_for(reader.read(65_536), pause_s)
            try:
                if await with_pause == b"":
                    return True
            except TimeoutError:
                continue
        while await asyncio.wait_for(reader.read(65_536), PATIENCE_S):
            pass
        return True
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    finally:
        writer.close()


async def test_a_slow_loris_is_hung_up_on_at_every_stage_while_another_client_works(broker: Broker, queue: str) -> None:
    stages = {
        "silence": b"",
        "half a protocol header": SASL_HEADER[:3],
        "a protocol header": SASL_HEADER,
        "an AMQP header": AMQP_HEADER,
        "half a request": b"GET / HT",
        "half a TLS record": b"\x16\x03\x01",
    }
    async with others_go_on(broker, queue):
        hung_up = await asyncio.gather(*(_is_hung_up_on(said, broker) for said in stages.values() for _ in range(10)))
    outcomes = [all(hung_up[start : start + 10]) for start in range(0, len(hung_up), 10)]
    assert dict(zip(stages, outcomes, strict=True)) == dict.fromkeys(stages, True)


async def test_an_oversized_frame_is_refused_on_its_header_while_another_client_works(
    broker: Broker, queue: str
) -> None:
    gigabyte_frame = struct.pack(">IBBH", 1 << 30, 2, 0, 0)
    async with others_go_on(broker, queue):
        before = resident_bytes(broker.pid)
        for header in (SASL_HEADER, AMQP_HEADER):
            reader, writer = await asyncio.open_connection(HOST, broker.port)
            writer.write(header + gigabyte_frame + b"x" * 100_000)
            try:
                while await asyncio.wait_for(reader.read(65_536), PATIENCE_S):
                    pass
            except ConnectionError:
                pass  # Hung up on before it had said everything, which is as good.
            writer.close()
        assert resident_bytes(broker.pid) - before < 50_000_000


@mission("M17")
async def test_an_attach_without_a_token_is_refused_while_another_client_works(broker: Broker, queue: str) -> None:
    async with others_go_on(broker, queue):
        for wanted in ("sender", "receiver"):
            stranger = await anonymous(broker)
            with pytest.raises(RemoteError) as refused:
                await (stranger.sender(queue) if wanted == "sender" else stranger.receiver(queue))
            assert refused.value.condition == "amqp:unauthorized-access"
            await stranger.close()


async def test_a_wrong_key_is_refused_while_another_client_works(broker: Broker, queue: str) -> None:
    async with others_go_on(broker, queue):
        settings = Settings("thief", user="RootManageSharedAccessKey", password="guessed")
        with pytest.raises(TandemError):
            await Client.connect(HOST, broker.port, settings)
        async with await connect(broker, "honest"):
            pass


class PoorBroker(Broker):
    """One that the system gives few file descriptors."""

    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128)); from tandem.cli import main; main()"
    )


class ModestBroker(Broker):
    """One that the system gives few file descriptors, and more if it asks for them."""

    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (128, 4096)); from tandem.cli import main; main()"
    )


def test_a_broker_asks_for_as_many_descriptors_as_the_system_allows(tmp_path: Path) -> None:
    with ModestBroker(tmp_path) as broker:
        limits = Path(f"/proc/{broker.pid}/limits").read_text(encoding="ascii")
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3] == "4096"


@mission("M17")
async def test_more_idle_strangers_than_descriptors_do_not_stop_the_broker(tmp_path: Path) -> None:
    with PoorBroker(tmp_path) as broker:
        broker.create_queue("orders")
        broker.create_hub("hub", partition_count=1)
        async with others_go_on(broker, "orders"):
            strangers = [await asyncio.open_connection(HOST, broker.port) for _ in range(200)]
            async with await connect(broker, "late") as client:
                # The first event makes the first file of the journal.
                events = await client.sender("hub")
                for number in range(20):
                    assert await events.send(encode_message(data=b"%d" % number)) == ACCEPTED
        assert broker.is_running
        for _, writer in strangers:
            writer.close()
