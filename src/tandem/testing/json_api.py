"""The JSON API of a broker on loopback, as methods: what `Broker` manages its entities with.

It needs only a connection string and a port, so that it serves a broker in a child process and one in this process.
"""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, Final

from tandem.connection_string import ConnectionString
from tandem.management.client import ManagementClient

__all__ = ["JsonApi"]

HOST: Final = "127.0.0.1"

# Seconds. One request of the JSON API on loopback takes milliseconds; the rest is for a machine that is busy.
REQUEST_LIMIT_S: Final = 60.0


class JsonApi(abc.ABC):
    """Creates, changes, lists and deletes the entities of one broker."""

    http_port: int

    @property
    @abc.abstractmethod
    def connection_string(self) -> str:
        """Of a rule that may do everything."""

    # --- queues ----------------------------------------------------------------------------------------------

    def create_queue(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create a queue with these settings, such as `lock_duration_ms`, and return it."""
        return self.management.queues.create(name, fields)

    def update_queue(self, name: str, **fields: Any) -> dict[str, Any]:
        """Change these settings of a queue, and return it."""
        return self.management.queues.update(name, fields)

    def queue(self, name: str) -> dict[str, Any]:
        """The settings and the counts of a queue."""
        return self.management.queues.show(name)

    def delete_queue(self, name: str) -> None:
        self.management.queues.delete(name)

    def queues(self) -> list[dict[str, Any]]:
        return list(self.management.queues.list_all())

    # --- topics, subscriptions and rules --------------------------------------------------------------------

    def create_topic(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create a topic with these settings, such as `requires_duplicate_detection`, and return it."""
        return self.management.topics.create(name, fields)

    def update_topic(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.management.topics.update(name, fields)

    def topic(self, name: str) -> dict[str, Any]:
        """The settings and the counts of a topic."""
        return self.management.topics.show(name)

    def delete_topic(self, name: str) -> None:
        """With its subscriptions."""
        self.management.topics.delete(name)

    def topics(self) -> list[dict[str, Any]]:
        return list(self.management.topics.list_all())

    def create_subscription(
        self, topic: str, name: str, rules: list[dict[str, Any]] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Create a subscription and return it.

        Each rule has `name`, `filter` and perhaps `action`, as for `add_rule`. Without rules the subscription gets
        every message, with an empty list none.
        """
        body = fields if rules is None else {**fields, "rules": rules}
        return self.management.subscriptions(topic).create(name, body)

    def update_subscription(self, topic: str, name: str, **fields: Any) -> dict[str, Any]:
        return self.management.subscriptions(topic).update(name, fields)

    def subscription(self, topic: str, name: str) -> dict[str, Any]:
        """The settings and the counts of a subscription."""
        return self.management.subscriptions(topic).show(name)

    def delete_subscription(self, topic: str, name: str) -> None:
        self.management.subscriptions(topic).delete(name)

    def subscriptions(self, topic: str) -> list[dict[str, Any]]:
        return list(self.management.subscriptions(topic).list_all())

    def add_rule(
        self,
        topic: str,
        subscription: str,
        name: str,
        filter: dict[str, Any] | None = None,
        action: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Add a rule and return it: `filter={"kind": "sql", "expression": "n > 3"}`, `action={"expression": ...}`.

        Without a filter the rule selects every message.
        """
        body = {"filter": filter, "action": action}
        return self.management.rules(topic, subscription).create(name, body)

    def update_rule(self, topic: str, subscription: str, name: str, **fields: Any) -> dict[str, Any]:
        """Give a rule another `filter` or `action`, or both; None takes one back."""
        return self.management.rules(topic, subscription).update(name, fields)

    def rule(self, topic: str, subscription: str, name: str) -> dict[str, Any]:
        return self.management.rules(topic, subscription).show(name)

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        self.management.rules(topic, subscription).delete(name)

    def rules(self, topic: str, subscription: str) -> list[dict[str, Any]]:
        return list(self.management.rules(topic, subscription).list_all())

    def explain(
        self, topic: str, properties: dict[str, Any] | None = None, system: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Which subscriptions would get a message with these properties, and why."""
        return list(self.management.explain(topic, {"properties": properties, "system": system}))

    # --- event hubs -----------------------------------------------------------------------------------------

    def create_hub(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create an event hub with these settings, such as `partition_count`, and return it."""
        return self.management.hubs.create(name, fields)

    def update_hub(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.management.hubs.update(name, fields)

    def hub(self, name: str) -> dict[str, Any]:
        """The settings and the counts of an event hub."""
        return self.management.hubs.show(name)

    def partitions(self, hub: str) -> list[dict[str, Any]]:
        """How far the partitions of an event hub have come."""
        partitions: list[dict[str, Any]] = self.management.hub(hub).positions()["partitions"]
        return partitions

    def delete_hub(self, name: str) -> None:
        """With its events."""
        self.management.hubs.delete(name)

    def hubs(self) -> list[dict[str, Any]]:
        return list(self.management.hubs.list_all())

    # --- requests -------------------------------------------------------------------------------------------

    @property
    def management(self) -> ManagementClient:
        """Everything that the command line can do with the broker."""
        given = ConnectionString.parse(self.connection_string)
        return ManagementClient(dataclasses.replace(given, host=HOST, port=self.http_port), REQUEST_LIMIT_S)

    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request of the JSON API. What the broker refuses is raised as a `RemoteError` with its condition."""
        return self.management.request(method, path, body)
