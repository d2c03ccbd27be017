"""Credit that a client grants before its attach is answered.

.NET writes `attach` and `flow` at once. A session is accepted later than that: when it has a message and nobody else
holds it. Whatever comes first, messages flow as soon as there are both, without another word of the client.
"""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tandem.amqp import ACCEPTED, IncomingDelivery
from tandem.amqp.link import ReceiverLink
from tandem.amqp.message import Properties, encode_message
from tandem.amqp.terminus import Source
from tandem.amqp.types import Symbol
from tandem.driver import Client, Receiver
from tandem.driver.client import SETTLED
from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.namespace import Namespace
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.server.broker import Broker
from tests.drawing import examples
from tests.markers import mission, spec
from tests.patience import until
from tests.server.test_broker import connect, running

SESSION_FILTER: Final = Symbol("com.microsoft:session-filter")
MESSAGE: Final = encode_message(properties=Properties(group_id="a session"), data=b"message")

ATTACH, FLOW, MESSAGE_SENT, HOLDER_LEAVES = "attach", "flow", "message", "holder leaves"


class Served:
    """A broker that all examples share, on an event loop that runs while one of them does."""

    def __init__(self, folder: Path) -> None:
        self.runner = asyncio.Runner()
        self._serving = running(folder)
        self.broker: Broker = self.runner.run(self._serving.__aenter__())

    def close(self) -> None:
        self.runner.run(self._serving.__aexit__(None, None, None))
        self.runner.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("broker"))
    yield served
    served.close()


class EagerReceiver(Receiver):
    """A link that is attached without waiting for an answer, and granted credit at any time."""

    def __init__(self, client: Client, source: Source, *, deletes: bool) -> None:
        (session,) = client.endpoint.connection.sessions.values()
        mode = SETTLED if deletes else None
        link: ReceiverLink = session.attach_receiver(uuid.uuid4().hex, source, snd_settle_mode=mode)
        super().__init__(client.endpoint, link, 0)
        link.context = self
        self.received: list[IncomingDelivery] = []

    def grant_early(self, credit: int, *, drain: bool = False) -> None:
        """Write a flow that counts from the first delivery, whatever has come since."""
        self.link.flow_state.grant(credit, drain)
        self.link.session.write_flow(self.link.handle, None, credit, 0, drain)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        self.received.append(delivery)


@dataclasses.dataclass(frozen=True)
class Kind:
    """Something to receive from, and the link that does."""

    requires_session: bool = False
    session_filter: dict[object, object] | None = None
    deletes: bool = False
    is_hub: bool = False
    is_topic: bool = False
    is_held: bool = False

    async def make_entity(self, broker: Broker) -> str:
        """Make something to send to, and return its name."""
        name = f"entity-{uuid.uuid4().hex[:12]}"

        def make(namespace: Namespace) -> None:
            if self.is_hub:
                namespace.hubs.create(EventHubDescription(name, partition_count=1))
            elif self.is_topic:
                namespace.create_topic(TopicDescription(name))
                namespace.create_subscription(
                    SubscriptionDescription(name, "all", requires_session=self.requires_session)
                )
            else:
                namespace.create_queue(QueueDescription(name, requires_session=self.requires_session))

        await broker.perform(make)
        return name

    def source(self, name: str) -> Source:
        address = name
        if self.is_hub:
            address = f"{name}/ConsumerGroups/$Default/Partitions/0"
        elif self.is_topic:
            address = f"{name}/Subscriptions/all"
        return Source(address, filter=self.session_filter)


ANY_SESSION: Final[dict[object, object]] = {SESSION_FILTER: None}
THE_SESSION: Final[dict[object, object]] = {SESSION_FILTER: "a session"}
KINDS: Final = {
    "queue": Kind(),
    "receive-and-delete": Kind(deletes=True),
    "any session": Kind(True, ANY_SESSION),
    "any session, receive-and-delete": Kind(True, ANY_SESSION, deletes=True),
    "a session that another receiver held": Kind(True, ANY_SESSION, is_held=True),
    "a session by name": Kind(True, THE_SESSION),
    "any session of a subscription": Kind(True, ANY_SESSION, is_topic=True),
    "event hub": Kind(is_hub=True),
}


async def play(broker: Broker, kind: Kind, steps: list[str], pauses: list[bool]) -> None:
    """Do the steps in their order. A flow before the attach goes out with it, in one write."""
    name = await kind.make_entity(broker)
    async with await connect(broker) as other, await connect(broker) as client:
        sender = await other.sender(name)
        holder = await other.receiver(Source(name, filter=THE_SESSION), credit=0) if kind.is_held else None
        receiver: EagerReceiver | None = None
        credit = sent = 0
        for step, is_pause in zip(steps, pauses, strict=True):
            if step == ATTACH:
                receiver = EagerReceiver(client, kind.source(name), deletes=kind.deletes)
                if credit:
                    receiver.grant_early(credit)
            elif step == FLOW:
                credit += 2
                if receiver is not None:
                    receiver.grant_early(credit)
            elif step == MESSAGE_SENT:
                assert await sender.send(MESSAGE) is ACCEPTED
                sent += 1
            elif holder is not None:
                await holder.close()
            client.endpoint.flush()
            if is_pause:
                # As long as it takes the broker to go through everything that it has begun.
                await broker.perform(lambda namespace: None)
        assert receiver is not None
        expected = min(credit, sent)
        received = receiver.received
        await until(lambda: len(received) >= expected, f"{expected} messages", lambda: f"but came {len(received)}")
    assert len(received) == expected


@st.composite
def orders(draw: st.DrawFn, kind: Kind) -> tuple[list[str], list[bool]]:
    some = st.integers(0, 3)
    steps = [ATTACH, *[FLOW] * draw(some), *[MESSAGE_SENT] * draw(some), *[HOLDER_LEAVES] * kind.is_held]
    steps = draw(st.permutations(steps))
    return steps, [draw(st.booleans()) for _ in steps]


@spec("amqp:2.6.7")
@mission("M1")
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
# Not shrunk: an example that fails takes all of its patience.
@settings(max_examples=examples(20), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.data())
def test_messages_flow_whatever_comes_first_attach_credit_acceptance_or_message(
    served: Served, kind: Kind, data: st.DataObject
) -> None:
    steps, pauses = data.draw(orders(kind))
    served.runner.run(play(served.broker, kind, steps, pauses))


@spec("amqp:2.6.7")
@mission("M1")
def test_a_session_receiver_with_prefetch_gets_messages_as_soon_as_its_session_has_some(served: Served) -> None:
    """The exchange of .NET: attach and flow in one write, and the message of the session afterwards."""
    steps = [FLOW, ATTACH, MESSAGE_SENT]
    served.runner.run(play(served.broker, KINDS["any session"], steps, [True] * 3))


@spec("amqp:2.6.7")
def test_a_drain_that_comes_before_the_session_is_accepted_ends_with_what_there_is(served: Served) -> None:
    async def scenario() -> None:
        name = await KINDS["any session"].make_entity(served.broker)
        async with await connect(served.broker) as other, await connect(served.broker) as client:
            receiver = EagerReceiver(client, Source(name, filter=ANY_SESSION), deletes=False)
            receiver.grant_early(5, drain=True)
            client.endpoint.flush()
            sender = await other.sender(name)
            assert await sender.send(MESSAGE) is ACCEPTED
            await until(lambda: not receiver.link.flow_state.is_draining, "the end of the drain")
            assert len(receiver.received) == 1
            assert receiver.link.credit == 0

    served.runner.run(scenario())
