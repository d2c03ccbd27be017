"""Topics, subscriptions and rules through `tandem.testing.Broker`, as tests of users do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.errors import RemoteError
from tandem.testing import Broker


@pytest.mark.timeout(180)  # It starts a broker twice.
def test_the_broker_for_tests_manages_topics_subscriptions_and_rules_and_keeps_them(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", arguments=("--dev", "--tls", "off")) as broker:
        assert broker.create_topic("eu/orders", requires_duplicate_detection=True)["subscription_count"] == 0
        assert broker.update_topic("eu/orders", user_metadata="x")["requires_duplicate_detection"] is True
        broker.create_subscription("eu/orders", "all", max_delivery_count=3)
        large = {"name": "large", "filter": {"kind": "sql", "expression": "amount > 1000"}}
        broker.create_subscription("eu/orders", "some", rules=[large])
        assert broker.update_subscription("eu/orders", "all", lock_duration_ms=5_000)["max_delivery_count"] == 3
        vip = {"kind": "correlation", "label": "vip"}
        broker.add_rule("eu/orders", "some", "vip", filter=vip, action={"expression": "SET tier = 1"})
        assert broker.update_rule("eu/orders", "some", "vip", action=None)["filter"]["label"] == "vip"
        broker.add_rule("eu/orders", "some", "everything")
        broker.delete_rule("eu/orders", "some", "everything")
        broker.restart()
        assert [topic["name"] for topic in broker.topics()] == ["eu/orders"]
        assert broker.topic("eu/orders")["subscription_count"] == 2
        assert [one["name"] for one in broker.subscriptions("eu/orders")] == ["all", "some"]
        assert broker.subscription("eu/orders", "all")["lock_duration_ms"] == 5_000
        assert [rule["name"] for rule in broker.rules("eu/orders", "some")] == ["large", "vip"]
        assert broker.rule("eu/orders", "some", "vip")["action"] is None
        explained = broker.explain("eu/orders", {"amount": 5}, {"Label": "other"})
        assert {one["name"]: one["matches"] for one in explained} == {"all": True, "some": False}
        broker.delete_subscription("eu/orders", "all")
        with pytest.raises(RemoteError) as refusal:
            broker.subscription("eu/orders", "all")
        assert refusal.value.condition == "amqp:not-found"
        broker.delete_topic("eu/orders")
        assert broker.topics() == []
