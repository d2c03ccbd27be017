"""Requests to the HTTP side of a broker: one connection for each, with a token made for it."""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import time
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

from tandem.arguments import Argument
from tandem.connection_string import ConnectionString
from tandem.errors import RemoteError, TandemError
from tandem.hosts import dialled_host
from tandem.limits import MAX_HTTP_ANSWER_BYTES, REQUEST_TIMEOUT_S
from tandem.wire_names import JSON_API

__all__ = ["BrokerUnreachable", "HttpClient", "api_path", "failure_text"]

# Seconds. A token is made for one request; the rest is for clocks that differ.
TOKEN_LIFETIME_S: Final = 600

# Bytes of a refusal that are read, and characters of one that is not of the JSON API that are shown.
_MAX_REFUSAL_BYTES: Final = 65_536
_EXCERPT_CHARACTERS: Final = 200

# What the condition of an answer begins with that is not of the JSON API; its status follows.
_FOREIGN: Final = "http:"


class BrokerUnreachable(TandemError):
    """Nobody answers where the connection string points. Start a broker, or give another connection string."""


class HttpClient:
    """Sends requests to one broker. A refusal of the broker is raised as a `RemoteError` with its condition."""

    def __init__(self, connection_string: ConnectionString, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._connection_string = connection_string
        self._url = connection_string.address.http_url
        self._timeout_s = timeout_s

    def request(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Return the JSON object of an answer; raise `BrokerUnreachable` if no broker answers."""
        try:
            with self.open(method, path, body) as response:
                value = json.loads(response.read(MAX_HTTP_ANSWER_BYTES))
                if isinstance(value, dict):
                    return value
                raise ValueError("the answer is not an object")
        except (OSError, http.client.HTTPException) as error:
            raise BrokerUnreachable(f"no broker answers at {self._url}: {failure_text(error)}") from error
        except RemoteError as error:
            if error.condition.startswith(_FOREIGN):
                raise BrokerUnreachable(error.description) from error
            raise
        except (ValueError, RecursionError) as error:
            raise BrokerUnreachable(f"what answers at {self._url} is not a Tandem broker") from error

    @contextlib.contextmanager
    def open(
        self, method: str, path: str, body: object = None, resource: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield an answer before it is read. The token is for the entity `resource`, or for the whole namespace.

        A connection that fails raises `OSError` or `HTTPException`. The condition of a refusal that does not come from
        the JSON API is `http:` and the status.
        """
        url = urlsplit(self._url)
        assert url.hostname is not None
        token = self._connection_string.make_token(
            f"{self._url}/{quote(resource)}", int(time.time()) + TOKEN_LIFETIME_S
        )
        headers = {"Authorization": token, "Host": url.netloc}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        connection = _connection(url.scheme, dialled_host(url.hostname), url.port, self._timeout_s)
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
            if response.status >= http.HTTPStatus.MULTIPLE_CHOICES:
                raise _refusal(response, self._url)
            yield response
        finally:
            connection.close()


def api_path(*parts: str) -> str:
    """The path of something in the JSON API."""
    return f"{JSON_API}/" + "/".join(quote(part, safe="") for part in parts)


def failure_text(error: Exception) -> str:
    """Say why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{error.verify_message}; SSL_CERT_FILE names whom to trust, such as DATA_DIR/tls/ca.pem of the broker"
    text = error.strerror if isinstance(error, OSError) else None
    return text or str(error) or type(error).__name__


def _connection(scheme: str, host: str, port: int | None, timeout_s: float) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    # The system's certificates, or those of SSL_CERT_FILE.
    context = ssl.create_default_context()
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)


def _refusal(response: http.client.HTTPResponse, url: str) -> RemoteError:
    answer = response.read(_MAX_REFUSAL_BYTES)
    try:
        error = json.loads(answer)["error"]
        argument = Argument.from_fields(error.get("argument"))
        return RemoteError(str(error["condition"]), str(error["message"]), argument)
    except (AttributeError, ValueError, RecursionError, KeyError, TypeError):
        excerpt = answer.decode(errors="replace")[:_EXCERPT_CHARACTERS]
        return RemoteError(
            f"{_FOREIGN}{response.status}",
            f"what answers at {url} with status {response.status} is not a Tandem broker: {excerpt!r}",
        )
