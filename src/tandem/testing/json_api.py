"""The JSON API of a broker on loopback, as methods: what `Broker` manages its entities with.

It needs only a connection string and a port, so that it serves a broker in a child process and one in this process.
"""

from __future__ import annotations

import abc
import contextlib
import http.client
import json
import time
import urllib.parse
from typing import Any, Final

from tandem.auth.sas import make_token
from tandem.errors import RemoteError

__all__ = ["JsonApi"]

HOST: Final = "127.0.0.1"

# Seconds. One request of the JSON API on loopback takes milliseconds; the rest is for a machine that is busy.
REQUEST_LIMIT_S: Final = 60.0
# Seconds. How long a token for the JSON API is good: it is made anew for each request.
TOKEN_LIFETIME_S: Final = 300

# Entities. One page of a list: what the broker gives at most.
PAGE_ENTITIES: Final = 1_000


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
        return self.request("PUT", _path("queues", name), fields)

    def update_queue(self, name: str, **fields: Any) -> dict[str, Any]:
        """Change these settings of a queue, and return it."""
        return self.request("PATCH", _path("queues", name), fields)

    def queue(self, name: str) -> dict[str, Any]:
        """The settings and the counts of a queue."""
        return self.request("GET", _path("queues", name))

    def delete_queue(self, name: str) -> None:
        self.request("DELETE", _path("queues", name))

    def queues(self) -> list[dict[str, Any]]:
        return self._list("queues")

    # --- topics, subscriptions and rules --------------------------------------------------------------------

    def create_topic(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create a topic with these settings, such as `requires_duplicate_detection`, and return it."""
        return self.request("PUT", _path("topics", name), fields)

    def update_topic(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.request("PATCH", _path("topics", name), fields)

    def topic(self, name: str) -> dict[str, Any]:
        """The settings and the counts of a topic."""
        return self.request("GET", _path("topics", name))

    def delete_topic(self, name: str) -> None:
        """With its subscriptions."""
        self.request("DELETE", _path("topics", name))

    def topics(self) -> list[dict[str, Any]]:
        return self._list("topics")

    def create_subscription(
        self, topic: str, name: str, rules: list[dict[str, Any]] | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Create a subscription and return it.

        Each rule has `name`, `filter` and perhaps `action`, as for `add_rule`. Without rules the subscription gets
        every message, with an empty list none.
        """
        body = fields if rules is None else {**fields, "rules": rules}
        return self.request("PUT", _path("topics", topic, "subscriptions", name), body)

    def update_subscription(self, topic: str, name: str, **fields: Any) -> dict[str, Any]:
        return self.request("PATCH", _path("topics", topic, "subscriptions", name), fields)

    def subscription(self, topic: str, name: str) -> dict[str, Any]:
        """The settings and the counts of a subscription."""
        return self.request("GET", _path("topics", topic, "subscriptions", name))

    def delete_subscription(self, topic: str, name: str) -> None:
        self.request("DELETE", _path("topics", topic, "subscriptions", name))

    def subscriptions(self, topic: str) -> list[dict[str, Any]]:
        return self._list("topics", topic, "subscriptions")

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
        return self.request("PUT", _path("topics", topic, "subscriptions", subscription, "rules", name), body)

    def update_rule(self, topic: str, subscription: str, name: str, **fields: Any) -> dict[str, Any]:
        """Give a rule another `filter` or `action`, or both; None takes one back."""
        return self.request("PATCH", _path("topics", topic, "subscriptions", subscription, "rules", name), fields)

    def rule(self, topic: str, subscription: str, name: str) -> dict[str, Any]:
        return self.request("GET", _path("topics", topic, "subscriptions", subscription, "rules", name))

    def delete_rule(self, topic: str, subscription: str, name: str) -> None:
        self.request("DELETE", _path("topics", topic, "subscriptions", subscription, "rules", name))

    def rules(self, topic: str, subscription: str) -> list[dict[str, Any]]:
        return self._list("topics", topic, "subscriptions", subscription, "rules")

    def explain(
        self, topic: str, properties: dict[str, Any] | None = None, system: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Which of the first hundred subscriptions would get a message with these properties, and why."""
        body = {"properties": properties, "system": system}
        subscriptions: list[dict[str, Any]] = self.request("POST", _path("topics", topic, "explain"), body)[
            "subscriptions"
        ]
        return subscriptions

    # --- event hubs -----------------------------------------------------------------------------------------

    def create_hub(self, name: str, **fields: Any) -> dict[str, Any]:
        """Create an event hub with these settings, such as `partition_count`, and return it."""
        return self.request("PUT", _path("hubs", name), fields)

    def update_hub(self, name: str, **fields: Any) -> dict[str, Any]:
        return self.request("PATCH", _path("hubs", name), fields)

    def hub(self, name: str) -> dict[str, Any]:
        """The settings and the counts of an event hub."""
        return self.request("GET", _path("hubs", name))

    def partitions(self, hub: str) -> list[dict[str, Any]]:
        """How far the partitions of an event hub have come."""
        partitions: list[dict[str, Any]] = self.request("GET", _path("hubs", hub, "partitions"))["partitions"]
        return partitions

    def delete_hub(self, name: str) -> None:
        """With its events."""
        self.request("DELETE", _path("hubs", name))

    def hubs(self) -> list[dict[str, Any]]:
        return self._list("hubs")

    # --- requests -------------------------------------------------------------------------------------------

    def _list(self, *parts: str) -> list[dict[str, Any]]:
        """All there are, a page at a time."""
        entities: list[dict[str, Any]] = []
        while True:
            query = f"?skip={len(entities)}&top={PAGE_ENTITIES}"
            page: list[dict[str, Any]] = self.request("GET", _path(*parts) + query)[parts[-1]]
            entities += page
            if len(page) < PAGE_ENTITIES:
                return entities

    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """One request of the JSON API. What the broker refuses is raised as a `RemoteError` with its condition."""
        headers = {"Authorization": self._token()}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(HOST, self.http_port, timeout=REQUEST_LIMIT_S)
        with contextlib.closing(connection):
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            answer = response.read()
        if response.status >= 300:
            raise _refusal(method, path, response.status, answer)
        return json.loads(answer) if answer else {}

    def _token(self) -> str:
        pairs = dict(pair.split("=", 1) for pair in self.connection_string.strip(";").split(";"))
        rule, key = pairs["SharedAccessKeyName"], pairs["SharedAccessKey"]
        return make_token(f"http://{HOST}:{self.http_port}/", rule, key, int(time.time()) + TOKEN_LIFETIME_S)


def _path(*parts: str) -> str:
    return "/$api/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


def _refusal(method: str, path: str, status: int, answer: bytes) -> RemoteError:
    try:
        error = json.loads(answer)["error"]
        condition, message = str(error["condition"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        # Not an answer of the JSON API: show it as it is.
        condition, message = f"http:{status}", answer.decode(errors="replace")
    return RemoteError(condition, f"{method} {path}: {status} {message}")
