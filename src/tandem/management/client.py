"""The other side of the JSON API: one request at a time, for the command line and for scripts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from tandem.management.http_client import HttpClient, api_path

__all__ = [
    "AuthorizationRules",
    "Collection",
    "EntityFields",
    "Hub",
    "ManagementClient",
    "Operations",
]

# Entities. What is asked for at once; the broker gives at most 1,000.
PAGE_ENTITIES: Final = 500

# Messages. What is asked for at once, with their bodies.
PAGE_MESSAGES: Final = 50

# The JSON object of an entity: its properties by name.
EntityFields = dict[str, Any]


class ManagementClient(HttpClient):
    """Manages the entities of one broker. What it refuses is a `RemoteError`."""

    @property
    def queues(self) -> Collection:
        return Collection(self, "queues")

    @property
    def topics(self) -> Collection:
        return Collection(self, "topics")

    @property
    def hubs(self) -> Collection:
        return Collection(self, "hubs")

    def hub(self, name: str) -> Hub:
        """What lies below an event hub."""
        return Hub(self, name)

    def subscriptions(self, topic: str) -> Collection:
        return Collection(self, "topics", topic, "subscriptions")

    def rules(self, topic: str, subscription: str) -> Collection:
        return Collection(self, "topics", topic, "subscriptions", subscription, "rules")

    def collection(self, noun: str, *parents: str) -> Collection:
        """By the noun of what is in it, and the names of what that is a part of."""
        if noun == "subscription":
            return self.subscriptions(*parents)
        if noun == "rule":
            return self.rules(*parents)
        return Collection(self, f"{noun}s")

    def explain(self, topic: str, message: EntityFields) -> Iterator[EntityFields]:
        """Each subscription, and why it would get a message with these properties or not."""
        skip: int | None = 0
        while skip is not None:
            answer = self.request("POST", f"{api_path('topics', topic, 'explain')}?skip={skip}", message)
            yield from answer["subscriptions"]
            skip = answer["next_skip"]

    def operations(self, entity: str) -> Operations:
        """What can be done with the messages of a queue, or of a subscription by its path."""
        return Operations(self, entity)

    def job(self, identifier: str) -> EntityFields:
        return self.request("GET", api_path("jobs", identifier))

    def cancel_job(self, identifier: str) -> None:
        self.request("DELETE", api_path("jobs", identifier))

    def authorization_rules(self, entity: str | None) -> AuthorizationRules:
        """Those of a queue or a topic, or of the whole namespace."""
        return AuthorizationRules(self, entity)

    def diagnose(self) -> EntityFields:
        """How the broker is, and which part of it is in trouble."""
        return self.request("GET", api_path("diagnosis"))

    def namespace(self) -> EntityFields:
        """Return the namespace itself: its name, its tier and the limits of that."""
        return self.request("GET", api_path("namespace"))

    def update_namespace(self, fields: EntityFields) -> EntityFields:
        return self.request("PATCH", api_path("namespace"), fields)

    def inject_fault(self, fields: EntityFields) -> EntityFields:
        return self.request("POST", api_path("faults"), fields)

    def faults(self) -> list[EntityFields]:
        found: list[EntityFields] = self.request("GET", api_path("faults"))["faults"]
        return found

    def clear_fault(self, identifier: int) -> EntityFields:
        return self.request("DELETE", api_path("faults", str(identifier)))

    def clear_faults(self) -> list[EntityFields]:
        cleared: list[EntityFields] = self.request("DELETE", api_path("faults"))["faults"]
        return cleared

    def export_entities(self, *, with_keys: bool) -> EntityFields:
        return self.request("GET", api_path("export") + ("?keys=true" if with_keys else ""))

    def import_entities(self, document: EntityFields, *, replaces: bool, is_dry_run: bool) -> EntityFields:
        mode = "replace" if replaces else "create-missing"
        return self.request("POST", api_path("import"), {"document": document, "mode": mode, "dry_run": is_dry_run})


class Collection:
    """All entities of one kind in one place: the queues of a namespace, the rules of a subscription."""

    def __init__(self, client: ManagementClient, *parts: str) -> None:
        self._client = client
        self._parts = parts

    def create(self, name: str, fields: EntityFields) -> EntityFields:
        return self._client.request("PUT", api_path(*self._parts, name), fields)

    def update(self, name: str, fields: EntityFields) -> EntityFields:
        return self._client.request("PATCH", api_path(*self._parts, name), fields)

    def show(self, name: str) -> EntityFields:
        return self._client.request("GET", api_path(*self._parts, name))

    def delete(self, name: str) -> None:
        self._client.request("DELETE", api_path(*self._parts, name))

    def list_all(self, choice: str = "") -> Iterator[EntityFields]:
        """In the order of their names, a page at a time. The choice is a further part of the query, such as
        `all=true`."""
        skip = 0
        while True:
            answer = self._client.request("GET", f"{api_path(*self._parts)}?skip={skip}&top={PAGE_ENTITIES}&{choice}")
            page: list[EntityFields] = answer[self._parts[-1]]
            yield from page
            if len(page) < PAGE_ENTITIES:
                return
            skip += len(page)


class Hub:
    """The consumer groups of one event hub, how far its partitions have come, and how far they were processed."""

    def __init__(self, client: ManagementClient, name: str) -> None:
        self._client = client
        self._name = name

    def create_consumer_group(self, group: str) -> EntityFields:
        return self._client.request("PUT", self._path("consumer-groups", group))

    def delete_consumer_group(self, group: str) -> None:
        self._client.request("DELETE", self._path("consumer-groups", group))

    def positions(self, at_ms: int | None = None) -> EntityFields:
        """All partitions in one answer; with a time, also which event of each is the first of that time or later."""
        return self._client.request("GET", self._path("partitions") + ("" if at_ms is None else f"?at_ms={at_ms}"))

    def ownerships(self, group: str) -> list[EntityFields]:
        """Return who processes the partitions for a consumer group."""
        found: list[EntityFields] = self._client.request("GET", self._path("consumer-groups", group, "ownerships"))[
            "ownerships"
        ]
        return found

    def checkpoints(self, group: str) -> list[EntityFields]:
        """Return how far a consumer group has processed the partitions."""
        found: list[EntityFields] = self._client.request("GET", self._path("consumer-groups", group, "checkpoints"))[
            "checkpoints"
        ]
        return found

    def _path(self, *parts: str) -> str:
        return api_path("hubs", self._name, *parts)


class Operations:
    """Messages and sessions of one entity, without receiving them."""

    def __init__(self, client: ManagementClient, entity: str) -> None:
        self._client = client
        # A slash in it is one in the URL, too: what follows the entity is found from the right.
        self._path = f"{api_path('entities')}/{quote(entity)}"

    def messages(self, state: str, first: int, most: int | None) -> Iterator[EntityFields]:
        """In the order of their sequence numbers, a page at a time."""
        start: int | None = first
        while start is not None and (most is None or most > 0):
            top = PAGE_MESSAGES if most is None else min(PAGE_MESSAGES, most)
            query = f"state={quote(state)}&from={start}&top={top}&body=full"
            answer = self._client.request("GET", f"{self._path}/messages?{query}")
            page: list[EntityFields] = answer["messages"]
            yield from page
            most = None if most is None else most - len(page)
            start = answer["next_from"]

    def start_job(self, kind: str, body: EntityFields) -> EntityFields:
        """Begin to purge, resubmit, move or undefer, and return the job as it is."""
        return self._client.request("POST", f"{self._path}/{kind}", body)

    def sessions(self) -> Iterator[EntityFields]:
        """In the order of their ids, a page at a time."""
        after: str | None = None
        while True:
            query = "" if after is None else f"?after={quote(after, safe='')}"
            answer = self._client.request("GET", f"{self._path}/sessions{query}")
            yield from answer["sessions"]
            after = answer["next_after"]
            if after is None:
                return

    def session_state(self, session_id: str) -> EntityFields:
        return self._client.request("GET", self._state_path(session_id))

    def set_session_state(self, session_id: str, state: EntityFields) -> EntityFields:
        return self._client.request("PUT", self._state_path(session_id), state)

    def clear_session_state(self, session_id: str) -> None:
        self._client.request("DELETE", self._state_path(session_id))

    def _state_path(self, session_id: str) -> str:
        return f"{self._path}/sessions/{quote(session_id, safe='')}/state"


class AuthorizationRules:
    """The shared access rules of one entity, or of a namespace, with their keys."""

    def __init__(self, client: ManagementClient, entity: str | None) -> None:
        self._client = client
        self._query = "" if entity is None else f"?entity={quote(entity, safe='')}"

    def list_all(self) -> list[EntityFields]:
        answer = self._client.request("GET", self._path())
        rules: list[EntityFields] = answer["authorization_rules"]
        return rules

    def create(self, name: str, fields: EntityFields) -> EntityFields:
        return self._client.request("PUT", self._path(name), fields)

    def rotate(self, name: str, key: str) -> EntityFields:
        """Make the primary or the secondary key anew."""
        return self._client.request("POST", self._path(name, "rotate"), {"key": key})

    def delete(self, name: str) -> None:
        self._client.request("DELETE", self._path(name))

    def _path(self, *parts: str) -> str:
        return api_path("authorization-rules", *parts) + self._query
