"""Bulk reads over HTTP: events come in columns, as Arrow has them, and are handed to Spark as they come."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from email.message import Message
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa

from tandem.errors import RemoteError
from tandem.management.http_client import HttpClient, api_path
from tandem.spark.connection import parse
from tandem.spark.given_options import OptionError
from tandem.spark.offsets import DataLoss, EventRange, HubExtent, PartitionExtent, damaged, expired
from tandem.spark.options import EventHubsOptions
from tandem.spark.reaching import Retrying
from tandem.wire_names import FIRST_SEQUENCE_NUMBER_HEADER

__all__ = ["BulkTransport"]

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
        path = api_path("hubs", self._hub, "partitions") + query

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
                    missing = self._missing(wanted.partition, response.headers)
                    # A broker with a long list of missing events answers in parts.
                    end = min(wanted.end, int(response.headers["Tandem-Next-From"]))
                    for batch in pa.ipc.open_stream(pa.PythonFile(response, mode="r")):
                        if batch.num_rows:
                            first = batch.column("sequenceNumber")[-1].as_py() + 1
                            retrying.progressed()
                            yield batch
                for missing_first, missing_last in missing:
                    if first == missing_first:
                        first = missing_last + 1
                if first < end:
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
        path = f"{api_path('hubs', self._hub, 'partitions', wanted.partition, 'events')}?{query}"
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

    def _missing(self, partition: str, headers: Message) -> list[tuple[int, int]]:
        """The first and last numbers of ranges that the broker has lost, and does not send."""
        missing: list[tuple[int, int]] = []
        for one in filter(None, headers.get("Tandem-Missing-Events", "").split(",")):
            first, _, last = one.partition("-")
            missing.append((int(first), int(last)))
        if missing and self._options.fails_on_data_loss:
            first_number, last_number = missing[0]
            raise damaged(self._hub, partition, first_number, last_number)
        return missing

    @contextlib.contextmanager
    def _request(self, path: str) -> Iterator[http.client.HTTPResponse]:
        client = HttpClient(parse(self._options.connection_string))
        try:
            with client.open("GET", path, resource=self._hub) as response:
                yield response
        except RemoteError as error:
            if error.condition.startswith("http:"):
                hint = "for another service set transport to amqp"
                raise RemoteError(error.condition, f"{error.description}; {hint}") from error
            raise
