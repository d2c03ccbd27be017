"""One HTTP request to a namespace, on a connection of its own."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import NamedTuple

from tandem.client.errors import MessagingCommunicationError, reaching_error

__all__ = ["HttpAnswer", "exchange"]


class HttpAnswer(NamedTuple):
    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes


async def exchange(
    method: str, url: str, body: bytes | None, headers: dict[str, str], tls: ssl.SSLContext | None
) -> HttpAnswer:
    """Make one request. Nothing stays open afterwards, so that whoever makes requests needs no close."""
    import aiohttp

    from tandem.client.local_names import LocalNames

    where = url.partition("?")[0]
    try:
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=LocalNames())) as session,
            session.request(method, url, data=body, headers=headers, ssl=tls or True) as answer,
        ):
            content = await answer.read()
    except aiohttp.ClientConnectorCertificateError as error:
        raise reaching_error(where, _os_error(error.certificate_error)) from error
    except aiohttp.ClientOSError as error:
        raise reaching_error(where, _os_error(error)) from error
    except aiohttp.ClientError as error:
        raise MessagingCommunicationError(f"{where} cannot be reached: {error}") from error
    return HttpAnswer(answer.status, answer.reason or f"status {answer.status}", answer.headers, content)


def _os_error(error: Exception) -> OSError:
    """The system's own error inside one of aiohttp's."""
    cause = getattr(error, "os_error", error)
    return cause if isinstance(cause, OSError) else OSError(str(cause))
