"""The other side of the JSON API: one request at a time, for the command line and for scripts."""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from tandem.auth.sas import make_token
from tandem.errors import RemoteError, TandemError
from tandem.management.connection_string import ConnectionString

__all__ = ["BrokerUnreachable", "QueueManager"]

# Seconds. Connecting, and each part of an answer.
REQUEST_TIMEOUT_S: Final = 30.0

# Seconds. A token is made for one request; the rest is for clocks that differ.
TOKEN_LIFETIME_S: Final = 600

# Bytes. A page of queues with every property at its longest has less than 4 MB.
MAX_ANSWER_BYTES: Final = 16_777_216

# Queues. What is asked for at once; the broker gives at most 1,000.
PAGE_QUEUES: Final = 500

# The JSON object of a queue: its properties by name.
QueueFields = dict[str, Any]


class BrokerUnreachable(TandemError):
    """Nobody answers where the connection string points. Start a broker, or give another connection string."""


class QueueManager:
    """Creates, lists, shows, updates and deletes the queues of one broker. What it refuses is a `RemoteError`."""

    def __init__(self, connection_string: ConnectionString) -> None:
        self._connection_string = connection_string
        self._url = connection_string.http_url

    def create(self, name: str, fields: QueueFields) -> QueueFields:
        return self._request("PUT", _path(name), fields)

    def update(self, name: str, fields: QueueFields) -> QueueFields:
        return self._request("PATCH", _path(name), fields)

    def show(self, name: str) -> QueueFields:
        return self._request("GET", _path(name))

    def delete(self, name: str) -> None:
        self._request("DELETE", _path(name))

    def list_all(self) -> Iterator[QueueFields]:
        """In the order of their names, a page at a time."""
        skip = 0
        while True:
            page: list[QueueFields] = self._request("GET", f"/api/queues?skip={skip}&top={PAGE_QUEUES}")["queues"]
            yield from page
            if len(page) < PAGE_QUEUES:
                return
            skip += len(page)

    def _request(self, method: str, path: str, body: QueueFields | None = None) -> dict[str, Any]:
        headers = {"Authorization": self._token()}
        content = None
        if body is not None:
            content = msgspec.json.encode(body)
            headers["Content-Type"] = "application/json"
        connection = self._connection()
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            answer = response.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise BrokerUnreachable(f"no broker answers at {self._url}: {_reason(error)}") from error
        finally:
            connection.close()
        return _read(answer, response.status, self._url)

    def _connection(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        assert parts.hostname is not None
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, parts.port, timeout=REQUEST_TIMEOUT_S)
        # The system's certificates, or those of SSL_CERT_FILE.
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=REQUEST_TIMEOUT_S, context=context)

    def _token(self) -> str:
        given = self._connection_string
        return make_token(f"{self._url}/", given.rule_name, given.key, int(time.time()) + TOKEN_LIFETIME_S)


def _path(name: str) -> str:
    return f"/api/queues/{quote(name, safe='')}"


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__


def _read(answer: bytes, status: int, url: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(answer, type=dict[str, Any])
        if status < 400:
            return value
        error = value["error"]
        raise RemoteError(str(error["condition"]), str(error["message"]))
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise BrokerUnreachable(f"what answers at {url} with status {status} is no Tandem broker") from error
