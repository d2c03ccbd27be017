"""`tandem fault inject` with its defaults, as a drill uses it: a paired client fails over, and comes back."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tandem.client import BrokeredMessage
from tandem.testing import Broker
from tests.cli.program import tandem_here
from tests.markers import mission
from tests.pairing.hurry import PairUnderTest, heal, impatient_factory
from tests.patience import until

DIRECTLY = timedelta(0)

# For sends that are not answered, or with a transient error that the client repeats: an attempt is given up after a
# third of it, and the first has to connect by then.
SOON = timedelta(seconds=9)


@mission("M12", "M15", "M16", "M22")
@pytest.mark.parametrize(
    "arguments",
    [
        ("refuse-sends",),
        ("refuse-sends", "{queue}"),
        ("refuse-everything",),
        ("timeout",),
        ("timeout", "{queue}"),
        ("drop-connections",),
        ("restart-entity", "{queue}", "--for", "1h"),
    ],
    ids=" ".join,
)
async def test_a_fault_with_its_defaults_makes_a_paired_client_fail_over(
    pair: PairUnderTest, queue: str, primary: Broker, arguments: tuple[str, ...]
) -> None:
    async with impatient_factory(primary, SOON) as factory:
        await factory.pair_namespace(pair.options(failover_interval=DIRECTLY))
        client = factory.create_queue_client(queue)
        await client.send(BrokeredMessage("to the primary"))
        given = [argument.format(queue=queue) for argument in arguments]
        injected = await asyncio.to_thread(
            tandem_here, "fault", "inject", *given, connection_string=primary.connection_string
        )
        assert injected.returncode == 0, injected.stderr
        await client.send(BrokeredMessage("takes the detour"))
        await until(lambda: sum(pair.backlog().values()) == 1, "the backlog has it")
        heal(primary)
    assert primary.queue(queue)["active_message_count"] == 1
    assert [event["entity"] for event in pair.told("failed-over")] == [queue]


@mission("M13", "M22")
async def test_throttling_with_its_default_never_does(pair: PairUnderTest, queue: str, primary: Broker) -> None:
    await pair.pair(failover_interval=DIRECTLY)
    client = pair.primary.create_queue_client(queue)
    await client.send(BrokeredMessage("0"))
    injected = await asyncio.to_thread(
        tandem_here, "fault", "inject", "throttle", queue, "--rate", "1", connection_string=primary.connection_string
    )
    assert injected.returncode == 0, injected.stderr
    for number in range(1, 4):
        await client.send(BrokeredMessage(str(number)))
    heal(primary)
    assert primary.queue(queue)["active_message_count"] == 4
    assert pair.told("failed-over") == []
