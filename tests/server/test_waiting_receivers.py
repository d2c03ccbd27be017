"""Receivers that wait for a session when their entity is deleted, disabled, restarted or begins to forward."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tandem.amqp import ACCEPTED
from tandem.amqp.message import encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Symbol
from tandem.driver import Client, Receiver
from tandem.engine.description import EntityStatus, QueueDescription
from tandem.engine.effects import Notice
from tandem.engine.namespace import Namespace
from tandem.errors import RemoteError
from tandem.server.broker import Broker
from tandem.server.faults import FaultKind, FaultSettings
from tandem.server.nodes.acknowledging import Acknowledging
from tandem.server.nodes.egress import Egress
from tests.markers import mission
from tests.patience import until
from tests.server.test_broker import connect, make_queue, running

ANY_SESSION: Final = Source("queue", filter={Symbol("com.microsoft:session-filter"): None})


class Onlooker:
    """Supervises a broker, and restarts nothing."""

    def __init__(self, broker: Broker) -> None:
        self.entities: list[str] = []
        self.errors: list[Exception] = []
        broker.runner.supervise(self)
        broker.directory.default.services.supervisor = self

    def entity_failed(self, entity: str, error: Exception) -> None:
        self.entities.append(entity)

    def engine_failed(self, error: Exception) -> None:
        self.errors.append(error)


def delete(namespace: Namespace) -> None:
    namespace.delete(namespace.get("queue"))


def disable(namespace: Namespace) -> None:
    queue = namespace.get("queue")
    namespace.update_queue(
        queue, QueueDescription("queue", requires_session=True, status=EntityStatus.RECEIVE_DISABLED)
    )


def forward(namespace: Namespace) -> None:
    queue = namespace.get("queue")
    namespace.update_queue(queue, QueueDescription("queue", requires_session=True, forward_to="other"))


async def wait_for_sessions(broker: Broker, client: Client, count: int) -> list[asyncio.Task[Receiver]]:
    subqueue = broker.namespace.get("queue").main
    before = len(subqueue.consumers)
    tasks = [asyncio.create_task(client.receiver(ANY_SESSION)) for _ in range(count)]
    await until(lambda: len(subqueue.consumers) == before + count)
    return tasks


@mission("M7", "M17")
@pytest.mark.parametrize(
    "change, condition",
    [
        (delete, "amqp:not-found"),
        (disable, "com.microsoft:entity-disabled"),
        (forward, "amqp:not-allowed"),
    ],
)
async def test_a_receiver_that_waits_for_a_session_learns_what_became_of_its_queue(
    tmp_path: Path, change: Callable[[Namespace], None], condition: str
) -> None:
    async with running(tmp_path) as broker, await connect(broker) as client:
        await make_queue(broker, "other")
        await make_queue(broker, "queue", requires_session=True)
        sender = await client.sender("other")
        waiting = await wait_for_sessions(broker, client, 3)
        await broker.perform(change)
        for task in waiting:
            with pytest.raises(RemoteError) as caught:
                await task
            assert caught.value.condition == condition
        # The connection lives on.
        assert await sender.send(encode_message(data=b"message")) == ACCEPTED


@mission("M7", "M17")
@pytest.mark.parametrize("is_faulty", [False, True], ids=["without faults", "by way of faults"])
async def test_a_notice_that_fails_keeps_no_other_from_its_receiver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_faulty: bool
) -> None:
    """The client that could not be notified loses its connection. The others, and the deletion, go on."""
    notify = Egress.notify
    failed: list[Egress] = []

    def fail_once(egress: Egress, notice: Notice) -> None:
        if not failed:
            failed.append(egress)
            raise RuntimeError("cannot be notified")
        notify(egress, notice)

    async with (
        running(tmp_path) as broker,
        await connect(broker) as first,
        await connect(broker) as second,
    ):
        await make_queue(broker, "queue", requires_session=True)
        onlooker = Onlooker(broker)
        waiting = await wait_for_sessions(broker, first, 1) + await wait_for_sessions(broker, second, 2)
        if is_faulty:
            desk = broker.directory.default.services.fault_desk
            desk.open()
            desk.inject(FaultSettings(FaultKind.REFUSE_SENDS))
        monkeypatch.setattr(Egress, "notify", fail_once)
        await broker.perform(delete)
        assert failed
        with pytest.raises(RemoteError):
            await waiting[0]
        for task in waiting[1:]:
            with pytest.raises(RemoteError, match="amqp:not-found"):
                await task
        assert "cannot be notified" in caplog.text
        assert (onlooker.entities, onlooker.errors) == (["queue"], [])


@mission("M17")
async def test_a_reply_that_fails_keeps_no_other_from_its_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Acknowledgements of one commit go to many connections: one that cannot be written is one that is missing."""
    async with (
        running(tmp_path) as broker,
        await connect(broker) as first,
        await connect(broker) as second,
    ):
        await make_queue(broker, "queue")
        await make_queue(broker, "other")
        onlooker = Onlooker(broker)
        bad, good = await first.sender("queue"), await second.sender("other")
        release = Acknowledging.release

        def fail(ingress: Acknowledging, answer: object) -> None:
            if ingress.entity == "queue":
                raise RuntimeError("cannot be released")
            release(ingress, answer)

        monkeypatch.setattr(Acknowledging, "release", fail)
        outcomes = await asyncio.gather(
            bad.send(encode_message(data=b"a")), good.send(encode_message(data=b"b")), return_exceptions=True
        )
        assert isinstance(outcomes[0], RemoteError)
        assert outcomes[1] == ACCEPTED
        assert "cannot be released" in caplog.text
        assert (onlooker.entities, onlooker.errors) == (["queue"], [])
