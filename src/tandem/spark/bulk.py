"""Bulk reads over HTTP: events come in columns, as Arrow has them, and are handed to Spark as they come."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Iterator
from email.message import Message
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

from tandem.client import blocking
from tandem.errors import RemoteError
from tandem.hosts import dialled_host
from tandem.spark.connection import parse
from tandem.spark.given_options import OptionError
from tandem.spark.offsets import DataLoss, EventRange, HubExtent, PartitionExtent, expired
from tandem.spark.options import EventHubsOptions
from tandem.spark.reaching import Retrying
from tandem.wire_names import FIRST_SEQUENCE_NUMBER_HEADER, JSON_API

__all__ = ["BulkTransport"]

# Seconds. Connecting, and each part of an answer. A broker that takes longer is tried again.
_REQUEST_TIMEOUT_S: Final = 30.0

# Bytes. What is read from the socket at once: a record batch of small events has about so many.
_BUFFER_BYTES: Final = 1 << 20

_RECREATED: Final = "tandem:hub-recreated"


class BulkTransport:
    """A hub of Tandem, by its HTTP port."""

    def __init__(self, options: EventHubsOptions) -> None:
        self._options = options
        self._hub = options.event_hub

    def extent(self) -> HubExtent:
        answer = self._positions("")
        return HubExtent(
            str(answer["hub"]),
            str(answer["incarnation"]),
            {
                str(one["partition"]): PartitionExtent(
                    int(one["begin_sequence_number"]), int(one["next_sequence_number"]), int(one["size_in_bytes"])
                )
                for one in answer["partitions"]
            },
        )

    def numbers_at_time(self, time_ms: int) -> dict[str, int]:
        answer = self._positions(f"?at_ms={time_ms}")
        return {str(one["partition"]): int(one["sequence_number_at_time"]) for one in answer["partitions"]}

    def number_at_offset(self, partition: str, offset: str) -> int:
        """Offsets of Tandem say the same as sequence numbers."""
        if not offset.isascii() or not offset.isdigit():
            raise OptionError(f"eventhubs: offset is {offset!r:.80}; partition {partition} has numbers as offsets")
        return int(offset)

    def _positions(self, query: str) -> dict[str, Any]:
        retrying = Retrying(f"asking about '{self._hub}'", self._options.operation_timeout_s)
        path = f"{JSON_API}/hubs/{quote(self._hub, safe='')}/partitions{query}"

        def attempt() -> dict[str, Any]:
            with self._request(path) as response:
                answer: dict[str, Any] = json.loads(response.read())
                return answer

        return retrying.perform(attempt)

    def read(self, wanted: EventRange, incarnation: str) -> Iterator[Any]:
        retrying = Retrying(f"reading partition {wanted.partition} of '{self._hub}'", self._options.operation_timeout_s)
        # An interrupted read goes on behind the last event that came.
        first = wanted.first
        while first < wanted.end:
            try:
                with self._events(EventRange(wanted.partition, first, wanted.end), incarnation) as response:
                    first = min(wanted.end, self._oldest(wanted.partition, first, response.headers))
                    for batch in pa.ipc.open_stream(pa.PythonFile(response, mode="r")):
                        if batch.num_rows:
                            first += batch.num_rows
                            retrying.progressed()
                            yield batch
                if first < wanted.end:
                    # A broker that was killed can end a stream between two batches.
                    raise EOFError(f"the answer ended before event {first:,}")
            except pa.ArrowInvalid as error:
                # A stream that was cut within a batch is no stream of Arrow.
                retrying.pause(EOFError(str(error)))
            except (OSError, http.client.HTTPException, EOFError, RemoteError) as error:
                retrying.pause(error)

    @contextlib.contextmanager
    def _events(self, wanted: EventRange, incarnation: str) -> Iterator[http.client.HTTPResponse]:
        query = urlencode({"from": wanted.first, "to": wanted.end, "incarnation": incarnation})
        path = f"{JSON_API}/hubs/{quote(self._hub, safe='')}/partitions/{wanted.partition}/events?{query}"
        try:
            with self._request(path) as response:
                yield response
        except RemoteError as error:
            if error.condition == _RECREATED:
                raise DataLoss(
                    f"the event hub '{self._hub}' was deleted and made again while it was read; use a new checkpoint"
                ) from error
            raise

    def _oldest(self, partition: str, first: int, headers: Message) -> int:
        """The first event that will come: what the broker says before it sends anything."""
        oldest = int(headers[FIRST_SEQUENCE_NUMBER_HEADER])
        if oldest > first and self._options.fails_on_data_loss:
            raise expired(self._hub, partition, first, oldest)
        return oldest

    @contextlib.contextmanager
    def _request(self, path: str) -> Iterator[http.client.HTTPResponse]:
        parts = parse(self._options.connection_string)
        url = urlsplit(parts.address.http_url)
        assert url.hostname is not None
        token = blocking.run(parts.token_provider.get_token(parts.address.audience(self._hub), time.time()))
        connection = _connection(url.scheme, dialled_host(url.hostname), url.port)
        try:
            connection.request("GET", path, headers={"Authorization": token.authorization, "Host": url.netloc})
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise _refusal(response)
            yield response
        finally:
            connection.close()


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_REQUEST_TIMEOUT_S, blocksize=_BUFFER_BYTES)
    # The system's certificates, or those of SSL_CERT_FILE.
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, port, timeout=_REQUEST_TIMEOUT_S, context=context)


def _refusal(response: http.client.HTTPResponse) -> RemoteError:
    answer = response.read(65_536)
    try:
        error = json.loads(answer)["error"]
        return RemoteError(str(error["condition"]), str(error["message"]))
    except (ValueError, KeyError, TypeError):
        hint = "no Tandem broker answers there; for another service set transport to amqp"
        return RemoteError(f"http:{response.status}", f"{answer.decode(errors='replace'):.200}: {hint}")
