"""Ownerships and checkpoints in the broker itself, for processors on any number of machines.

The hub keeps them for each consumer group: they last as long as the group, and go with it. Only Tandem has them; Azure
Event Hubs leaves them to other services.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from tandem.client.errors import MessagingError, error_of_condition, error_of_http_status
from tandem.client.hubs.checkpoint_store import Checkpoint, CheckpointStore, Ownership, Stream
from tandem.client.settings import MessagingFactorySettings
from tandem.client.wire.http import HttpAnswer, exchange
from tandem.client.wire.retry import Retrier
from tandem.client.wire.token_provider import token_provider_of
from tandem.connection_string import ConnectionString
from tandem.wire_names import JSON_API

__all__ = ["BrokerCheckpointStore"]

# An answer below it tells a success.
_FIRST_REFUSAL: Final = 300


class BrokerCheckpointStore(CheckpointStore):
    """Keeps the progress of a consumer group with the hub that it reads.

    It needs the right Listen on the hub and nothing but the broker. The times of ownerships are those of the broker's
    clock. The hub and the consumer group must exist; `Stream.namespace` is not looked at.
    """

    def __init__(self, given: ConnectionString, settings: MessagingFactorySettings | None = None) -> None:
        self._address = given.address
        self._token_provider = token_provider_of(given)
        self._settings = settings or MessagingFactorySettings()
        timeout_s = self._settings.operation_timeout.total_seconds()
        self._retrier = Retrier(self._settings.retry_policy, self._settings.waiting, timeout_s)

    @classmethod
    def from_connection_string(
        cls, connection_string: str, settings: MessagingFactorySettings | None = None
    ) -> BrokerCheckpointStore:
        """Return a store in the namespace, and with the key, that a connection string names."""
        return cls(ConnectionString.parse(connection_string), settings)

    async def list_ownerships(self, stream: Stream) -> list[Ownership]:
        return _ownerships(await self._request("GET", stream, "ownerships"))

    async def claim_ownerships(self, stream: Stream, claims: Sequence[Ownership]) -> list[Ownership]:
        if not claims:
            return []
        wanted = [{"partition": one.partition_id, "owner_id": one.owner_id, "etag": one.etag} for one in claims]
        return _ownerships(await self._request("POST", stream, "ownerships", {"claims": wanted}))

    async def list_checkpoints(self, stream: Stream) -> list[Checkpoint]:
        answer = await self._request("GET", stream, "checkpoints")
        return [Checkpoint(one["partition"], one["sequence_number"], one["offset"]) for one in answer["checkpoints"]]

    async def update_checkpoint(self, stream: Stream, checkpoint: Checkpoint) -> None:
        body = {"sequence_number": checkpoint.sequence_number, "offset": checkpoint.offset}
        await self._request("PUT", stream, f"checkpoints/{quote(checkpoint.partition_id, safe='')}", body)

    # Any: what a JSON object holds.
    async def _request(self, method: str, stream: Stream, what: str, body: object = None) -> dict[str, Any]:
        hub, group = quote(stream.event_hub_name, safe=""), quote(stream.consumer_group, safe="")
        url = f"{self._address.http_url}{JSON_API}/hubs/{hub}/consumer-groups/{group}/{what}"
        settings = self._settings

        async def attempt() -> dict[str, Any]:
            resource = self._address.audience(stream.event_hub_name)
            token = await self._token_provider.get_token(resource, settings.waiting.utc_now_s())
            headers = {"Authorization": token.authorization, "User-Agent": settings.user_agent}
            content = None if body is None else json.dumps(body).encode()
            return _read(await exchange(method, url, content, headers, settings.ssl_context), url)

        return await self._retrier.perform(attempt, f"the {what.partition('/')[0]} of '{stream.event_hub_name}'")


def _read(answer: HttpAnswer, url: str) -> dict[str, Any]:
    try:
        value = json.loads(answer.content)
        if answer.status >= _FIRST_REFUSAL:
            raise error_of_condition(str(value["error"]["condition"]), str(value["error"]["message"]))
        if isinstance(value, dict):
            return value
    except (ValueError, RecursionError, KeyError, TypeError):
        if answer.status >= _FIRST_REFUSAL:
            raise error_of_http_status(answer.status, f"{url}: {answer.reason}") from None
    raise MessagingError(f"what answers at {url} is not a Tandem broker, which alone keeps checkpoints")


def _ownerships(answer: dict[str, Any]) -> list[Ownership]:
    return [
        Ownership(one["partition"], one["owner_id"], one["claimed_at_ms"] / 1_000, one["etag"])
        for one in answer["ownerships"]
    ]
