"""The receiver of a session whose lock expires.

The session is free at once. The link of the receiver is detached a moment later: a client that waits for a message
exactly as long as its lock lasts is about to stop, and must not see an error for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tandem.amqp.terminus import Source
from tandem.amqp.types import Symbol
from tandem.driver import Client, Receiver
from tandem.errors import RemoteError
from tandem.limits import SESSION_CLOSE_GRACE_MS
from tandem.server.broker import Broker
from tandem.server.services import Services
from tests.markers import mission
from tests.patience import until
from tests.server.test_broker import connect, make_queue, manage, running

SOURCE: Final = Source("queue", filter={Symbol("com.microsoft:session-filter"): "red"})


async def accept_until_the_lock_expires(broker: Broker, client: Client) -> Receiver:
    await make_queue(broker, "queue", requires_session=True, lock_duration_ms=1_000)
    receiver = await client.receiver(SOURCE, credit=0)
    sessions = broker.namespace.get("queue").main.sessions
    assert sessions is not None
    await until(lambda: sessions.find("red") is None)
    return receiver


@mission("M17")
async def test_the_link_stays_for_a_moment_when_the_lock_of_its_session_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delays_s: list[float] = []

    def note(self: Services, delay_s: float, step: Callable[[], None]) -> asyncio.TimerHandle:
        """Stop the clock of the broker: how fast this machine is does not matter then."""
        delays_s.append(delay_s)
        return asyncio.get_running_loop().call_later(600, step)

    monkeypatch.setattr(Services, "call_later", note)
    async with running(tmp_path) as broker, await connect(broker) as client, await connect(broker) as other:
        receiver = await accept_until_the_lock_expires(broker, client)
        # The session is for the next one who asks, and the old receiver gets nothing of it.
        await other.receiver(SOURCE, credit=0)
        await receiver.drain(10)
        assert receiver.error is None
        assert delays_s == [SESSION_CLOSE_GRACE_MS / 1_000]
        await receiver.close()


@mission("M17")
async def test_the_link_is_detached_a_moment_after_the_lock_of_its_session_has_expired(tmp_path: Path) -> None:
    async with running(tmp_path) as broker, await connect(broker) as client:
        receiver = await accept_until_the_lock_expires(broker, client)
        await until(lambda: receiver.error is not None)
        assert isinstance(receiver.error, RemoteError)
        assert receiver.error.condition == "com.microsoft:session-lock-lost"


@mission("M7", "M34")
@pytest.mark.parametrize(
    "operation, body",
    [("renew-session-lock", {}), ("get-session-state", {}), ("set-session-state", {"session-state": b"stale"})],
)
async def test_a_session_is_for_the_connection_that_holds_it(
    tmp_path: Path, operation: str, body: dict[str, object]
) -> None:
    """A receiver that has lost its session must not renew it for another, nor replace the state that this one sees."""
    asked = {"session-id": "red", **body}
    async with running(tmp_path) as broker, await connect(broker) as client, await connect(broker) as other:
        await make_queue(broker, "queue", requires_session=True)
        await other.receiver(SOURCE, credit=0)
        await manage(other, "queue", "set-session-state", {"session-id": "red", "session-state": b"fresh"})
        refused = (await manage(client, "queue", operation, asked)).application_properties
        assert (refused["statusCode"], refused["errorCondition"]) == (410, "com.microsoft:session-lock-lost")
        assert "'red' is held by another connection" in refused["statusDescription"]
        answer = await manage(other, "queue", "get-session-state", {"session-id": "red"})
        assert answer.value == {"session-state": b"fresh"}
        assert (await manage(other, "queue", operation, asked)).application_properties["statusCode"] == 200
