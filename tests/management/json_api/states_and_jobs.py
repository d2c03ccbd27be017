"""What the tests of the operations share: messages in every state, and jobs that are waited for."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from tandem.amqp.message import Properties, encode_message
from tandem.amqp.types import Timestamp
from tandem.auth import AuthorizationRule, Right
from tandem.engine.effects import HandedOut, Notice
from tandem.engine.lock_table import Lock
from tandem.engine.namespace import Namespace
from tandem.management.json_api import PREFIX
from tests.management.json_api.api_client import Answer, Api

LATER_MS: Final = 4_000_000_000_000


def payload(text: str | bytes = "a", **fields: Any) -> bytes:
    """A message. Any: its application properties, and `session_id`, `label`, `due_ms`."""
    due_ms = fields.pop("due_ms", None)
    content = text.encode() if isinstance(text, str) else text
    return encode_message(
        message_annotations=None if due_ms is None else {"x-opt-scheduled-enqueue-time": Timestamp(due_ms)},
        properties=Properties(
            message_id=content[:20].hex(), group_id=fields.pop("session_id", None), subject=fields.pop("label", None)
        ),
        application_properties=fields or None,
        data=content,
    )


class Receiver:
    """Keeps what is delivered to it locked."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.locks: list[Lock] = []
        self.has_all = asyncio.Event()

    def deliver(self, locks: list[Lock]) -> None:
        self.locks += locks
        if len(self.locks) == self._count:
            self.has_all.set()

    def hand_out(self, message: HandedOut) -> None:
        raise AssertionError("nothing is to be handed out for good")

    def notify(self, notice: Notice) -> None:
        """Nothing to be told."""


async def send(api: Api, path: str, *messages: bytes) -> None:
    def all_of_them(namespace: Namespace) -> None:
        for one in messages:
            namespace.get(path).send(one, 0)

    await api.broker.perform(all_of_them)


async def lock(api: Api, path: str, count: int, session_id: str | None = None) -> list[Lock]:
    """Messages, locked for a receiver that stays."""
    receiver = Receiver(count)

    def start(namespace: Namespace) -> None:
        main = namespace.get(path).main
        if session_id is None:
            consumer = main.open_consumer(receiver, False)
        else:
            consumer = main.accept_session(receiver, False, session_id, 0)
        assert consumer.outlet is not None
        consumer.outlet.grant(consumer, count, False)

    await api.broker.perform(start)
    await receiver.has_all.wait()
    return receiver.locks


async def put_aside(api: Api, path: str, *messages: bytes) -> None:
    """Send messages, and defer them."""
    await send(api, path, *messages)
    for one in await lock(api, path, len(messages)):
        await api.broker.perform(lambda namespace, one=one: namespace.get(path).main.defer(one))  # type: ignore[misc]


async def bury(api: Api, path: str, *messages: bytes) -> None:
    """Send messages, and dead-letter them."""
    await send(api, path, *messages)

    def dead_letter(namespace: Namespace, one: Lock) -> None:
        namespace.get(path).main.dead_letter(one, "Broken", "It is broken.")

    for one in await lock(api, path, len(messages)):
        await api.broker.perform(lambda namespace, one=one: dead_letter(namespace, one))  # type: ignore[misc]


async def fill(api: Api, path: str = "orders") -> None:
    """A queue with one message of each state."""
    await api.ask("PUT", f"/$api/v1/queues/{path}")
    await put_aside(api, path, payload("deferred"))
    await bury(api, path, payload("dead", color="red"))
    await send(api, path, payload("active"), payload("scheduled", due_ms=LATER_MS))

    def transfer(namespace: Namespace) -> None:
        queue = namespace.get(path)
        drafts = queue.read(payload("undeliverable"), 0)
        drafts[0].destination = "missing"
        queue.take(drafts)

    await api.broker.perform(transfer)


async def browse(api: Api, path: str, state: str = "active", query: str = "") -> Answer:
    return await api.ask("GET", f"{PREFIX}/entities/{path}/messages?state={state}{query}")


async def bodies(api: Api, path: str, state: str = "active") -> list[str]:
    answer = await browse(api, path, state)
    assert answer.status == 200, answer
    return [one["body"] for one in answer.value["messages"]]


async def work(api: Api, path: str, task: str, body: Any = None, token: str | None = None) -> Any:
    """The job that the request starts, when it is over."""
    started = await api.ask("POST", f"{PREFIX}/entities/{path}/{task}", body, token)
    assert started.status == 202, started
    return await finished(api, started.value["id"], token)


async def finished(api: Api, job_id: str, token: str | None = None) -> Any:
    while True:
        job = (await api.ask("GET", f"{PREFIX}/jobs/{job_id}", token=token)).value
        if job["state"] != "running":
            return job
        await asyncio.sleep(0.002)


def progress(job: Any) -> tuple[str, int, int, int]:
    return (job["state"], job["progress"]["done"], job["progress"]["skipped"], job["progress"]["failed"])


def rule_of(api: Api, scope: str, *rights: Right) -> tuple[str, str]:
    """A rule of an entity, and its key."""
    combined = Right(0)
    for right in rights:
        combined |= right
    name = f"{scope}-{combined.value}".replace("/", "-") or "namespace"
    api.broker.key_ring.replace_entity(scope, [AuthorizationRule(name, combined, "key", scope=scope)])
    return name, "key"
