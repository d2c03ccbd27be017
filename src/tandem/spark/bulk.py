"""Bulk reads over HTTP: events come in columns, as Arrow has them, and are handed to Spark as they come."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from email.message import Message
from typing import Any, Final
from urllib.parse import urlencode

import pyarrow as pa

from tandem import errors
from tandem.errors import RemoteError
from tandem.event_columns import HEAD, HEAD_SCHEMA, PUBLIC_SCHEMA
from tandem.management.client import ManagementClient
from tandem.management.http_client import BrokerUnreachable, HttpClient, api_path
from tandem.spark.connection import parse
from tandem.spark.given_options import OptionError
from tandem.spark.offsets import (
    EventRange,
    HubExtent,
    PartitionExtent,
    damaged,
    expired,
    made_again,
    stepped_back,
)
from tandem.spark.options import LISTING_HINT, EventHubsOptions
from tandem.spark.reaching import Retrying
from tandem.wire_names import FIRST_SEQUENCE_NUMBER_HEADER

__all__ = ["BulkTransport", "list_hubs_of_tandem"]

_NUMBER: Final = "sequenceNumber"


def list_hubs_of_tandem(options: EventHubsOptions) -> list[str]:
    """Return the names of all hubs of a namespace of Tandem, without those of the broker itself."""
    given = parse(options.connection_string)
    retrying = Retrying("listing the event hubs", given.address.http_url, options.operation_timeout_s)
    client = ManagementClient(given)

    def attempt() -> list[str]:
        try:
            return [str(hub["name"]) for hub in client.hubs.list_all()]
        except BrokerUnreachable as error:
            raise error.__cause__ if isinstance(error.__cause__, OSError) else error from None

    try:
        return retrying.perform(attempt)
    except RemoteError as error:
        raise RemoteError(error.condition, f"{error.description} {LISTING_HINT}") from error


class BulkTransport:
    """A hub of Tandem, by its HTTP port."""

    def __init__(self, options: EventHubsOptions, hub: str) -> None:
        self._options = options
        self._hub = hub

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
        path = api_path("hubs", self._hub, "partitions") + query

        def attempt() -> dict[str, Any]:
            with self._request(path) as response:
                answer: dict[str, Any] = json.loads(response.read())
                return answer

        return self._retrying(f"asking about '{self._hub}'").perform(attempt)

    def _retrying(self, what: str) -> Retrying:
        url = parse(self._options.connection_string).address.http_url
        return Retrying(what, url, self._options.operation_timeout_s)

    def read(self, wanted: EventRange, columns: Collection[str]) -> Iterator[Any]:
        events = self._read(wanted, [one for one in PUBLIC_SCHEMA.names if one in columns or one == _NUMBER])
        return self._with_heads(wanted, events) if HEAD in columns else events

    def _with_heads(self, wanted: EventRange, events: Iterator[Any]) -> Iterator[Any]:
        """Read the heads beside the events, and put them together by their numbers."""
        heads = _Heads(self._read(wanted, [_NUMBER, HEAD], HEAD))
        for batch in events:
            found = heads.of(batch.column(_NUMBER))
            if found.null_count and self._options.fails_on_data_loss:
                number = batch.column(_NUMBER)[found.is_null().index(True).as_py()].as_py()
                raise damaged(self._hub, wanted.partition, number, number)
            yield batch.append_column(HEAD, found)

    def _read(self, wanted: EventRange, names: list[str], part: str = "table") -> Iterator[Any]:
        retrying = self._retrying(f"reading partition {wanted.partition} of '{self._hub}'")
        schema = PUBLIC_SCHEMA if part != HEAD else HEAD_SCHEMA
        reading = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
        # An interrupted read goes on behind the last event that came.
        first = wanted.first
        while first < wanted.end:
            try:
                with self._events(wanted, first, part) as response:
                    first = min(wanted.end, self._oldest(wanted.partition, first, response.headers))
                    missing = self._missing(wanted.partition, response.headers)
                    # A broker with a long list of missing events answers in parts.
                    end = min(wanted.end, int(response.headers["Tandem-Next-From"]))
                    for batch in pa.ipc.open_stream(pa.PythonFile(response, mode="r"), options=reading):
                        if batch.num_rows:
                            first = batch.column(_NUMBER)[-1].as_py() + 1
                            retrying.progressed()
                            yield batch
                for missing_first, missing_last in missing:
                    if first == missing_first:
                        first = missing_last + 1
                if first < end:
                    # A broker that was killed can end a stream between two batches.
                    raise EOFError(f"the answer ended before event {first:,}")
                if self._is_past_the_end(wanted, first, response.headers):
                    return
            except pa.ArrowInvalid as error:
                # A stream that was cut within a batch is no stream of Arrow.
                retrying.pause(EOFError(str(error)))
            except RemoteError as error:
                if self._is_gone(wanted, first, error):
                    return
                retrying.pause(error)
            except (OSError, http.client.HTTPException, EOFError) as error:
                retrying.pause(error)

    def _events(self, wanted: EventRange, first: int, part: str) -> AbstractContextManager[http.client.HTTPResponse]:
        """Ask for the events of a range from one of them on."""
        query = urlencode({"from": first, "to": wanted.end, "incarnation": wanted.incarnation, "columns": part})
        return self._request(f"{api_path('hubs', self._hub, 'partitions', wanted.partition, 'events')}?{query}")

    def _is_gone(self, wanted: EventRange, first: int, error: RemoteError) -> bool:
        """Return whether the broker refuses a range because it does not exist any more. Raise that if it matters.

        Spark plans a batch once and reads it until it succeeds: the hub may be another one by then.
        """
        if error.condition == errors.HubRecreated.condition:
            if self._options.fails_on_data_loss:
                raise made_again(self._hub, wanted.incarnation, self.extent().incarnation) from error
            return True
        if error.condition == errors.ArgumentOutOfRange.condition:
            behind = self.extent().partitions[wanted.partition].next
            if behind < first and self._options.fails_on_data_loss:
                raise stepped_back(self._hub, wanted.partition, wanted.end, behind) from error
            return behind < first
        return False

    def _is_past_the_end(self, wanted: EventRange, first: int, headers: Message) -> bool:
        """Return whether the rest of a range does not exist any more. Raise that if it is not tolerated."""
        behind = int(headers["Tandem-Next-Sequence-Number"])
        if first < behind or first >= wanted.end:
            return False
        if self._options.fails_on_data_loss:
            raise stepped_back(self._hub, wanted.partition, wanted.end, behind)
        return True

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


class _Heads:
    """Heads of events that come in batches of their own, in the order of their numbers."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self._waiting: dict[int, Any] = {}
        self._last = -1

    def of(self, numbers: Any) -> Any:
        """Return the heads of these events, null for those that have none."""
        wanted = numbers.to_pylist()
        while self._last < wanted[-1] and (batch := next(self._batches, None)) is not None:
            self._waiting.update(zip(batch.column(_NUMBER).to_pylist(), batch.column(HEAD).to_pylist(), strict=True))
            self._last = batch.column(_NUMBER)[-1].as_py()
        found = pa.array([self._waiting.pop(number, None) for number in wanted], pa.binary())
        # Of events that were left out of the table.
        self._waiting = {number: head for number, head in self._waiting.items() if number > wanted[-1]}
        return found
