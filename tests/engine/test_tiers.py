"""Tiers of a namespace: which settings, messages and numbers of entities each of them permits."""

from __future__ import annotations

from typing import Any

import pytest

from tandem.engine.description import QueueDescription
from tandem.engine.hubs.description import OPERATIONS_HUB, EventHubDescription
from tandem.engine.tiers import TIER_SETTING, Tier, limits_of, tier_of
from tandem.engine.topic_description import TopicDescription
from tandem.errors import ArgumentError, ArgumentOutOfRange, MessageSizeExceeded, QuotaExceeded
from tandem.limits import PARTITION_COUNT
from tests.engine.desk import Desk, payload
from tests.markers import mission

KILOBYTE = 1_024
BACKLOG = "primary/x-servicebus-transfer/0"


def desk_of(tier: Tier) -> Desk:
    desk = Desk()
    desk.namespace.set_tier(tier)
    desk.flush()
    return desk


# --- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", Tier)
def test_a_tier_permits_what_it_gives_by_default(tier: Tier) -> None:
    limits = limits_of(tier)
    assert (
        limits.min_message_size_in_kilobytes
        <= limits.default_message_size_in_kilobytes
        <= limits.max_message_size_in_kilobytes
    )
    assert limits.sizes_in_megabytes == sorted(limits.sizes_in_megabytes)
    assert max(limits.sizes_in_megabytes, default=limits.max_size_in_megabytes) == limits.max_size_in_megabytes
    desk = desk_of(tier)
    desk.queue()
    desk.namespace.create_topic(TopicDescription("news"))
    desk.namespace.hubs.create(EventHubDescription("telemetry"))


def test_no_tier_permits_more_than_tandem_does() -> None:
    own = limits_of(Tier.TANDEM)
    for limits in map(limits_of, Tier):
        for name, most in own.to_fields().items():
            value = limits.to_fields()[name]
            if name.startswith("max_") and isinstance(most, int):
                assert isinstance(value, int)
                assert value <= most, name


def test_every_limit_is_shown() -> None:
    limits = limits_of(Tier.TANDEM)
    derived = {"allowed_sizes_in_megabytes", "messaging_sku", "name", "tier", "to_fields"}
    assert limits.to_fields().keys() == {name for name in dir(limits) if not name.startswith("_")} - derived


def test_a_tier_is_known_by_its_name_and_any_other_name_is_refused_with_the_names() -> None:
    assert [tier_of(name) for name in ("tandem", "standard", "premium")] == list(Tier)
    with pytest.raises(ArgumentError, match="--tier is 'basic'; it must be one of tandem, standard, premium"):
        tier_of("basic", "--tier")


# --- settings of entities -------------------------------------------------------------------------------------------

ALLOWED: list[tuple[Tier, dict[str, Any]]] = [
    (Tier.TANDEM, {"max_message_size_in_kilobytes": 1}),
    (Tier.TANDEM, {"max_message_size_in_kilobytes": 102_400}),
    (Tier.TANDEM, {"max_size_in_megabytes": 1_500}),
    (Tier.TANDEM, {"max_delivery_count": 2_147_483_647}),
    (Tier.TANDEM, {"enable_partitioning": True}),
    (Tier.STANDARD, {"max_message_size_in_kilobytes": 256}),
    (Tier.STANDARD, {"max_size_in_megabytes": 5_120}),
    (Tier.STANDARD, {"max_size_in_megabytes": 5_120 * PARTITION_COUNT, "enable_partitioning": True}),
    (Tier.STANDARD, {"max_size_in_megabytes": 5_120, "enable_partitioning": True}),
    (Tier.STANDARD, {"max_delivery_count": 2_000}),
    (Tier.PREMIUM, {"max_message_size_in_kilobytes": 1_024}),
    (Tier.PREMIUM, {"max_message_size_in_kilobytes": 102_400}),
    (Tier.PREMIUM, {"max_size_in_megabytes": 81_920}),
]
REFUSED: list[tuple[Tier, dict[str, Any], str]] = [
    (
        Tier.STANDARD,
        {"max_message_size_in_kilobytes": 1_024},
        "max_message_size_in_kilobytes is 1024; in the tier standard of this namespace it must be 256, or left out",
    ),
    (Tier.STANDARD, {"max_message_size_in_kilobytes": 4}, "max_message_size_in_kilobytes is 4; "),
    (
        Tier.STANDARD,
        {"max_size_in_megabytes": 81_920},
        (
            "max_size_in_megabytes is 81920; in the tier standard of this namespace it must be one of 1024, 2048, "
            "3072, 4096, 5120"
        ),
    ),
    (Tier.STANDARD, {"max_size_in_megabytes": 1_500}, "max_size_in_megabytes is 1500; "),
    (
        Tier.STANDARD,
        {"max_delivery_count": 2_001},
        "max_delivery_count is 2001; in the tier standard of this namespace it must be at most 2000",
    ),
    (
        Tier.PREMIUM,
        {"max_message_size_in_kilobytes": 256},
        "max_message_size_in_kilobytes is 256; in the tier premium of this namespace it must be between 1024 and",
    ),
    (Tier.PREMIUM, {"max_size_in_megabytes": 6_144}, "must be one of 1024, 2048, .*, 10240, 20480, 40960, 81920"),
    (Tier.PREMIUM, {"max_delivery_count": 2_001}, "max_delivery_count is 2001; in the tier premium"),
    (Tier.PREMIUM, {"enable_partitioning": True}, "enable_partitioning is true: the tier premium of this namespace"),
]


@pytest.mark.parametrize("tier, fields", ALLOWED)
def test_settings_of_the_tier_are_taken_when_a_queue_is_created_and_when_it_is_updated(
    tier: Tier, fields: dict[str, Any]
) -> None:
    desk = desk_of(tier)
    assert desk.queue("created", **fields).description.to_fields().items() >= fields.items()
    if "enable_partitioning" not in fields:
        updated = desk.queue("updated")
        desk.update(updated, **fields)
        assert updated.description.to_fields().items() >= fields.items()


@pytest.mark.parametrize("tier, fields, reason", REFUSED)
def test_settings_beyond_the_tier_are_refused_when_a_queue_is_created_and_when_it_is_updated(
    tier: Tier, fields: dict[str, Any], reason: str
) -> None:
    desk = desk_of(tier)
    with pytest.raises(ArgumentError, match=reason):
        desk.queue("created", **fields)
    assert desk.namespace.queues == []
    if "enable_partitioning" not in fields:
        updated = desk.queue("updated")
        before = updated.description.to_fields()
        with pytest.raises(ArgumentError, match=reason):
            desk.update(updated, **fields)
        assert updated.description.to_fields() == before


@mission("M21")
@pytest.mark.parametrize("tier", Tier)
def test_backlog_queues_are_exempt_from_the_limit_on_delivery_counts_in_every_tier(tier: Tier) -> None:
    desk = desk_of(tier)
    backlog = desk.queue(BACKLOG, max_delivery_count=2_147_483_647, max_size_in_megabytes=5_120)
    assert backlog.description.max_delivery_count == 2_147_483_647
    desk.update(backlog, max_delivery_count=2_147_483_646)
    assert backlog.description.max_delivery_count == 2_147_483_646


@pytest.mark.parametrize("tier, kilobytes", [(Tier.TANDEM, 256), (Tier.STANDARD, 256), (Tier.PREMIUM, 1_024)])
def test_an_entity_that_is_created_without_a_message_size_has_that_of_the_tier(tier: Tier, kilobytes: int) -> None:
    desk = desk_of(tier)
    topic = desk.namespace.create_topic(TopicDescription.from_fields({"name": "news"}))
    assert topic.description.max_message_size_in_kilobytes == kilobytes
    queue = desk.queue()
    assert queue.description.max_message_size_in_kilobytes == kilobytes
    desk.restart()
    assert desk.namespace.get("orders").description.max_message_size_in_kilobytes == kilobytes


def test_an_update_without_a_message_size_leaves_the_size_as_it_is() -> None:
    desk = desk_of(Tier.PREMIUM)
    queue = desk.queue(max_message_size_in_kilobytes=2_048)
    fields = queue.description.to_fields()
    del fields["max_message_size_in_kilobytes"]
    desk.namespace.update_queue(queue, type(queue.description).from_fields({**fields, "lock_duration_ms": 30_000}))
    assert queue.description.max_message_size_in_kilobytes == 2_048
    assert queue.description.lock_duration_ms == 30_000


# --- messages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tier, own_kilobytes, limit_kilobytes",
    [
        (Tier.TANDEM, 2_048, 2_048),
        (Tier.STANDARD, None, 256),
        (Tier.PREMIUM, None, 1_024),
        (Tier.PREMIUM, 2_048, 2_048),
    ],
)
def test_a_message_above_the_limit_of_tier_and_entity_is_refused(
    tier: Tier, own_kilobytes: int | None, limit_kilobytes: int
) -> None:
    desk = desk_of(tier)
    chosen: dict[str, Any] = {} if own_kilobytes is None else {"max_message_size_in_kilobytes": own_kilobytes}
    queue = desk.queue(**chosen)
    desk.send(queue, payload("x" * (limit_kilobytes * KILOBYTE - 512)))
    with pytest.raises(MessageSizeExceeded, match=f"exceeds the limit \\({limit_kilobytes * KILOBYTE} bytes\\)"):
        desk.send(queue, payload("x" * limit_kilobytes * KILOBYTE))
    assert queue.main.active_count == 1


@pytest.mark.parametrize("tier, limit_kilobytes", [(Tier.STANDARD, 256), (Tier.PREMIUM, 1_024)])
def test_a_batch_above_the_limit_of_the_tier_is_refused_whatever_its_messages_are(
    tier: Tier, limit_kilobytes: int
) -> None:
    desk = desk_of(tier)
    large: dict[str, Any] = {"max_message_size_in_kilobytes": 102_400} if tier is Tier.PREMIUM else {}
    queue = desk.queue(**large)
    assert queue.max_batch_size_bytes == limit_kilobytes * KILOBYTE
    half = payload("x" * (limit_kilobytes * KILOBYTE // 2))
    with pytest.raises(MessageSizeExceeded, match=f"exceeds the limit \\({limit_kilobytes * KILOBYTE} bytes\\)"):
        desk.send_batch(queue, half, half)
    desk.send_batch(queue, half)
    assert queue.main.active_count == 1


@pytest.mark.parametrize("tier, limit_kilobytes", [(Tier.TANDEM, 2_048), (Tier.STANDARD, 256), (Tier.PREMIUM, 1_024)])
def test_the_state_of_a_session_is_bounded_by_tier_and_entity(tier: Tier, limit_kilobytes: int) -> None:
    desk = desk_of(tier)
    large: dict[str, Any] = {} if tier is Tier.STANDARD else {"max_message_size_in_kilobytes": 2_048}
    queue = desk.queue(requires_session=True, **large)
    queue.check_state_size(limit_kilobytes * KILOBYTE)
    with pytest.raises(MessageSizeExceeded, match=f"exceeds the limit of {limit_kilobytes * KILOBYTE} bytes"):
        queue.check_state_size(limit_kilobytes * KILOBYTE + 1)


@pytest.mark.parametrize("tier, most", [(Tier.TANDEM, 4_000), (Tier.STANDARD, 500), (Tier.PREMIUM, 4_000)])
def test_batch_delete_takes_as_many_messages_as_the_tier_permits(tier: Tier, most: int) -> None:
    desk = desk_of(tier)
    queue = desk.queue()
    queue.main.delete_batch(most, desk.now_ms, None, "asker")
    with pytest.raises(ArgumentOutOfRange, match=f"must be from 1 to {most} in the tier {tier.value}"):
        queue.main.delete_batch(most + 1, desk.now_ms, None, "asker")


# --- numbers of entities --------------------------------------------------------------------------------------------


def test_a_namespace_of_premium_has_as_many_entities_as_one_messaging_unit() -> None:
    desk = desk_of(Tier.PREMIUM)
    for number in range(1_000):
        desk.namespace.create_queue(QueueDescription(f"q{number}"))
    with pytest.raises(QuotaExceeded, match="has 1000 entities; its tier premium allows 1000"):
        desk.queue("one-too-many")


def test_a_namespace_of_standard_has_100_partitioned_entities() -> None:
    desk = desk_of(Tier.STANDARD)
    for number in range(100):
        desk.queue(f"p{number}", enable_partitioning=True)
    with pytest.raises(QuotaExceeded, match="has 100 partitioned entities; its tier standard allows 100"):
        desk.queue("one-too-many", enable_partitioning=True)
    desk.queue("plain")


# --- event hubs -----------------------------------------------------------------------------------------------------

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    "tier, fields, reason",
    [
        (Tier.STANDARD, {"partition_count": 33}, "partition_count is 33; in the tier standard .* at most 32"),
        (Tier.STANDARD, {"retention_ms": 7 * DAY_MS + 1}, "retention_ms is 604800001; in the tier standard"),
        (Tier.STANDARD, {"retention_ms": None}, "retention_ms is null; in the tier standard .* at most 604800000"),
        (Tier.STANDARD, {"consumer_groups": [f"g{n}" for n in range(20)]}, "has 21 groups; .* at most 20 are allowed"),
        (Tier.PREMIUM, {"partition_count": 101}, "partition_count is 101; in the tier premium .* at most 100"),
        (Tier.PREMIUM, {"retention_ms": 91 * DAY_MS}, "retention_ms is .*; in the tier premium"),
    ],
)
def test_settings_of_a_hub_beyond_the_tier_are_refused(tier: Tier, fields: dict[str, Any], reason: str) -> None:
    hubs = desk_of(tier).namespace.hubs
    with pytest.raises(ArgumentOutOfRange, match=reason):
        hubs.create(EventHubDescription.from_fields({"name": "created", **fields}))
    hub = hubs.create(EventHubDescription("updated"))
    if "partition_count" not in fields:
        with pytest.raises(ArgumentOutOfRange, match=reason):
            hubs.update(hub, EventHubDescription.from_fields({**hub.description.to_fields(), **fields}))


def test_a_namespace_of_standard_has_ten_hubs_beside_that_of_the_broker_itself() -> None:
    hubs = desk_of(Tier.STANDARD).namespace.hubs
    hubs.create(EventHubDescription(OPERATIONS_HUB, partition_count=64, retention_ms=None))
    for number in range(10):
        hubs.create(EventHubDescription(f"h{number}"))
    with pytest.raises(QuotaExceeded, match="has 10 event hubs; its tier standard allows 10"):
        hubs.create(EventHubDescription("one-too-many"))


# --- another tier ---------------------------------------------------------------------------------------------------


def test_entities_of_another_tier_keep_their_settings_and_their_messages_are_judged_by_the_new_one() -> None:
    desk = desk_of(Tier.TANDEM)
    large: dict[str, Any] = {
        "max_size_in_megabytes": 1_500,
        "max_delivery_count": 5_000,
        "max_message_size_in_kilobytes": 2_048,
    }
    queue = desk.queue(**large)
    desk.send(queue, payload("x" * 300 * KILOBYTE))
    desk.namespace.set_tier(Tier.STANDARD)
    with pytest.raises(MessageSizeExceeded, match="exceeds the limit \\(262144 bytes\\)"):
        desk.send(queue, payload("x" * 300 * KILOBYTE))
    # What is there already can still be received.
    desk.receiver(queue.main)
    assert len(desk.delivered) == 1
    desk.update(queue, lock_duration_ms=30_000)
    assert queue.description.to_fields().items() >= large.items()
    with pytest.raises(ArgumentOutOfRange, match="max_delivery_count is 5001"):
        desk.update(queue, max_delivery_count=5_001)


def test_a_change_of_the_tier_is_stored_with_the_batch_that_made_it() -> None:
    desk = Desk()
    assert desk.store.setting(TIER_SETTING) is None
    desk.namespace.set_tier(Tier.PREMIUM)
    desk.flush()
    assert desk.store.setting(TIER_SETTING) == "premium"
