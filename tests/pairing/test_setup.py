"""Options, and what `pair_namespace` sets up on the secondary or refuses to."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from tandem.client import (
    NEVER,
    BrokeredMessage,
    MessagingCommunicationError,
    MessagingFactory,
    MessagingFactorySettings,
    NamespaceManager,
    NoRetry,
    QueueDescription,
    TokenProvider,
    UnauthorizedAccessError,
    sync,
)
from tandem.client.entities.atom import ATOM, SERVICE_BUS
from tandem.errors import ConfigurationError, StateError
from tandem.pairing import PairedNamespaceOptions, SendAvailabilityPairedNamespaceOptions
from tandem.pairing.azure import PairedServiceBusOptions
from tandem.pairing.backlog import backlog_queue_path, ensure_backlog_queues
from tandem.pairing.ownership import BacklogOwner
from tandem.testing import Broker
from tests.markers import mission
from tests.pairing.hurry import PairUnderTest
from tests.patience import PATIENCE_S


@mission("M20")
async def test_the_defaults_are_those_of_the_service(pair: PairUnderTest) -> None:
    options = SendAvailabilityPairedNamespaceOptions(pair.manager, pair.secondary)
    assert isinstance(options, PairedNamespaceOptions)
    assert options.backlog_queue_count == 10
    assert options.failover_interval == timedelta(seconds=10)
    assert options.ping_primary_interval == timedelta(minutes=1)
    assert not options.enable_syphon
    assert options.messaging_factory is pair.secondary
    assert options.secondary_namespace_manager is pair.manager


@mission("M20")
@pytest.mark.parametrize(
    "chosen, complaint",
    [
        ({"backlog_queue_count": 0}, "backlog_queue_count is 0; it must be from 1 to 1,000"),
        ({"backlog_queue_count": 1_001}, "backlog_queue_count is 1001"),
        ({"failover_interval": timedelta(seconds=-1)}, "failover_interval is .* it must be from 0"),
        ({"failover_interval": timedelta(days=2)}, "failover_interval is 2 days"),
        ({"ping_primary_interval": timedelta(0)}, "ping_primary_interval is 0:00:00; it must be longer than 0"),
        ({"failover_interval": 10}, r"failover_interval is 10; .* such as timedelta\(seconds=10\)"),
        ({"failover_interval": None}, r"failover_interval is None; it must be a timedelta"),
        ({"ping_primary_interval": 0.5}, r"ping_primary_interval is 0.5; .* such as timedelta\(seconds=0.5\)"),
        ({"backlog_queue_count": 2.5}, "backlog_queue_count is 2.5; it must be a whole number"),
        ({"backlog_queue_count": True}, "backlog_queue_count is True; it must be a whole number"),
        ({"backlog_queue_count": "10"}, "backlog_queue_count is '10'; it must be a whole number"),
    ],
)
async def test_what_cannot_be_is_refused_by_name_value_and_limit(
    pair: PairUnderTest, chosen: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        pair.options(**chosen)
    with pytest.raises(ConfigurationError, match=complaint):
        PairedServiceBusOptions(**chosen)


@mission("M20")
async def test_an_interval_of_zero_and_a_single_queue_are_allowed(pair: PairUnderTest) -> None:
    pair.options(backlog_queue_count=1, failover_interval=timedelta(0))


async def test_manager_and_factory_must_be_of_one_namespace(pair: PairUnderTest) -> None:
    with pytest.raises(ConfigurationError, match="both must be for the secondary namespace"):
        SendAvailabilityPairedNamespaceOptions(pair.manager, pair.primary)


async def test_a_namespace_cannot_be_paired_with_itself(pair: PairUnderTest) -> None:
    with pytest.raises(ConfigurationError, match="the secondary must be another"):
        await pair.secondary.pair_namespace(pair.options())


@mission("M19", "M21")
async def test_when_it_returns_the_backlog_queues_are_there_as_they_should_be(pair: PairUnderTest) -> None:
    options = pair.options(backlog_queue_count=4)
    await pair.primary.pair_namespace(options)
    assert options.backlog_queue_count == 4
    found = [
        queue
        for queue in await pair.manager.get_queues()
        if queue.path.startswith(f"{pair.namespace}/x-servicebus-transfer/")
    ]
    assert sorted(found, key=lambda queue: queue.path) == [
        QueueDescription(
            f"{pair.namespace}/x-servicebus-transfer/{index}",
            max_size_in_megabytes=5120,
            max_delivery_count=2147483647,
            default_message_time_to_live=NEVER,
            auto_delete_on_idle=NEVER,
            lock_duration=timedelta(minutes=1),
            dead_lettering_on_message_expiration=True,
            enable_batched_operations=True,
            # The largest that the secondary permits: a rewritten message is larger than the one that was sent.
            max_message_size_in_kilobytes=102_400,
            user_metadata=found[0].user_metadata,
        )
        for index in range(4)
    ]


class Cloud:
    """The management API of the cloud service, as far as pairing uses it: one tier, and the queues that were made."""

    def __init__(self, namespace_info: str | None) -> None:
        self._namespace_info = namespace_info
        self.created: dict[str, bytes] = {}

    async def __call__(self, request: web.BaseRequest) -> web.Response:
        path = request.path.lstrip("/")
        if request.method == "PUT":
            self.created[path] = await request.read()
        if path == "$namespaceinfo" and self._namespace_info is not None:
            return self._entry(f'<NamespaceInfo xmlns="{SERVICE_BUS}">{self._namespace_info}</NamespaceInfo>')
        if path not in self.created:
            return web.Response(status=404)
        return self._entry(f'<QueueDescription xmlns="{SERVICE_BUS}"></QueueDescription>')

    def _entry(self, content: str) -> web.Response:
        text = f'<entry xmlns="{ATOM}"><title>x</title><content type="application/xml">{content}</content></entry>'
        return web.Response(text=text, content_type="application/atom+xml")


@mission("M21", "M24")
@pytest.mark.parametrize(
    "namespace_info, written",
    [
        ("<MessagingSKU>Standard</MessagingSKU>", None),
        ("<MessagingSKU>Premium</MessagingSKU>", b"MaxMessageSizeInKilobytes>102400<"),
        (
            "<MaxMessageSizeInKilobytes>2048</MaxMessageSizeInKilobytes><MessagingSKU>Standard</MessagingSKU>",
            b"MaxMessageSizeInKilobytes>2048<",
        ),
        (None, None),
    ],
    ids=["standard tier", "premium tier", "tandem", "a service that does not describe itself"],
)
async def test_only_a_secondary_that_offers_large_messages_is_asked_for_them(
    namespace_info: str | None, written: bytes | None
) -> None:
    cloud = Cloud(namespace_info)
    async with RawTestServer(cloud) as server:
        provider = TokenProvider.create_shared_access_signature("Root", "key")
        manager = NamespaceManager(f"amqp://127.0.0.1:{server.port}", provider)
        owner = BacklogOwner("shop", None, ("amqp://shop",))
        assert await ensure_backlog_queues(manager, owner, 2, []) == 2
    assert set(cloud.created) == {"shop/x-servicebus-transfer/0", "shop/x-servicebus-transfer/1"}
    for description in cloud.created.values():
        assert (b"MaxMessageSizeInKilobytes" in description) == (written is not None)
        assert (written or b"") in description


@mission("M21")
async def test_queues_that_exist_are_used_as_they_are_and_others_left_alone(pair: PairUnderTest) -> None:
    broker = pair.secondary_broker
    own = backlog_queue_path(pair.namespace, 1)
    extra = backlog_queue_path(pair.namespace, 7)
    broker.create_queue(own, lock_duration_ms=30_000, max_delivery_count=5)
    broker.create_queue(extra)
    await pair.pair(backlog_queue_count=2)
    assert broker.queue(own)["lock_duration_ms"] == 30_000
    assert broker.queue(own)["max_delivery_count"] == 5
    await pair.primary.close()
    assert set(pair.backlog()) == {0, 1, 7}, "nothing is ever deleted"


@mission("M19")
async def test_bad_credentials_are_raised(pair: PairUnderTest) -> None:
    wrong = TokenProvider.create_shared_access_signature("RootManageSharedAccessKey", "not the key")
    manager = NamespaceManager(pair.manager.address, wrong)
    with pytest.raises(UnauthorizedAccessError) as raised:
        await pair.primary.pair_namespace(SendAvailabilityPairedNamespaceOptions(manager, pair.secondary, 2))
    assert "backlog queue" in raised.value.__notes__[0]
    await pair.pair()  # nothing was set up, so that it can be tried again


@mission("M19")
async def test_a_secondary_that_is_away_is_raised(pair: PairUnderTest) -> None:
    settings = MessagingFactorySettings(retry_policy=NoRetry())
    provider = TokenProvider.create_shared_access_signature("RootManageSharedAccessKey", "SAS_KEY_VALUE")
    nowhere = "amqp://127.0.0.1:9"
    factory = MessagingFactory.create(nowhere, provider, settings)
    options = SendAvailabilityPairedNamespaceOptions(NamespaceManager(nowhere, provider, settings), factory)
    with pytest.raises(MessagingCommunicationError):
        await pair.primary.pair_namespace(options)


@mission("M19")
async def test_a_backlog_queue_that_cannot_be_made_is_raised(pair: PairUnderTest) -> None:
    pair.secondary_broker.create_topic(backlog_queue_path(pair.namespace, 0))
    with pytest.raises(ConfigurationError, match="exists and is not a queue"):
        await pair.pair()


@mission("M19")
async def test_nothing_may_be_sent_before(pair: PairUnderTest, queue: str) -> None:
    await pair.primary.create_queue_client(queue).send(BrokeredMessage("too early"))
    with pytest.raises(StateError, match="before anything is sent"):
        await pair.pair()


@mission("M19")
async def test_a_factory_is_paired_once(pair: PairUnderTest) -> None:
    await pair.pair()
    with pytest.raises(StateError, match="paired once"):
        await pair.pair()


@mission("M19")
async def test_nothing_may_be_sent_while_the_pair_is_being_set_up(pair: PairUnderTest, queue: str) -> None:
    class Impatient(SendAvailabilityPairedNamespaceOptions):
        async def pair(self, factory: MessagingFactory) -> Any:
            with pytest.raises(StateError, match="await it first"):
                await factory.create_queue_client(queue).send(BrokeredMessage("too early"))
            return await super().pair(factory)

    await pair.primary.pair_namespace(Impatient(pair.manager, pair.secondary, 1, primary_namespace=pair.namespace))


@mission("M19")
def test_a_program_without_asyncio_pairs_in_the_same_words(primary: Broker, secondary: Broker, queue: str) -> None:
    with (
        sync.MessagingFactory.from_connection_string(primary.connection_string) as factory,
        sync.MessagingFactory.from_connection_string(secondary.connection_string) as other,
    ):
        manager = sync.NamespaceManager.from_connection_string(secondary.connection_string)
        options = SendAvailabilityPairedNamespaceOptions(manager, other, 1, primary_namespace="without-asyncio")
        assert options.secondary_namespace_manager is manager, "it is of the kind that the program uses"
        assert options.messaging_factory is other
        factory.pair_namespace(options)
        client = factory.create_queue_client(queue)
        client.send(sync.BrokeredMessage("hello"))
        message = client.receive(timeout=PATIENCE_S)
        assert message is not None
        assert message.body == b"hello"
        message.complete()


async def test_a_closed_factory_of_a_pair_says_which_of_the_two_it_is(pair: PairUnderTest, queue: str) -> None:
    await pair.pair(enable_syphon=False)
    client = pair.primary.create_queue_client(queue)
    await pair.close()
    with pytest.raises(StateError, match=f"the factory for {pair.primary.address}, the primary of a pair, is closed"):
        await client.send(BrokeredMessage("too late"))
    with pytest.raises(
        StateError, match=f"the factory for {pair.secondary.address}, the secondary of a pair, is closed"
    ):
        await pair.secondary.create_queue_client(queue).send(BrokeredMessage("too late"))
