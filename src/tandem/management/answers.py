"""What an error looks like to an HTTP client, whatever went wrong:

{"error": {"condition": "amqp:not-found", "message": "There is nothing here.", "status": 404}}

Where one field is at fault, `argument` has its name, its value and its bounds, and the sentence around them:

{"error": {..., "argument": {"field": "max_delivery_count", "template": "{field} is {value}; it must be between {least}
and {most}", "values": {"value": 0, "least": 1, "most": 2147483647}}}}
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from tandem.arguments import Argument
from tandem.errors import ArgumentError, ProtocolError

__all__ = ["error_answer", "errors_as_json", "json_answer"]

logger = logging.getLogger(__name__)

_JSON: Final = "application/json"

# What aiohttp refuses by itself, or is asked to refuse, has a status and no condition.
_CONDITIONS: Final = {
    401: "amqp:unauthorized-access",
    404: "amqp:not-found",
    413: "amqp:resource-limit-exceeded",
    500: "amqp:internal-error",
}
_OTHER_CONDITION: Final = "amqp:not-allowed"


def json_answer(value: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type=_JSON)


def error_answer(condition: str, message: str, status: int, argument: Argument | None = None) -> web.Response:
    error: dict[str, object] = {"condition": condition, "message": message, "status": status}
    if argument is not None:
        error["argument"] = argument.to_fields()
    return json_answer({"error": error}, status)


@web.middleware
async def errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """The outermost boundary of a request."""
    try:
        return await handler(request)
    except ProtocolError as error:
        argument = error.argument if isinstance(error, ArgumentError) else None
        return error_answer(error.condition, error.description, error.http_status, argument)
    except web.HTTPException as error:
        # Those below 400 are no errors.
        if error.status < 400:
            raise
        answer = error_answer(_CONDITIONS.get(error.status, _OTHER_CONDITION), _message(request, error), error.status)
        if "Allow" in error.headers:
            answer.headers["Allow"] = error.headers["Allow"]
        return answer
    except Exception:
        # The client learns that it is not to blame, and nothing about the inside.
        logger.exception("%s %s failed", request.method, request.path)
        return error_answer(_CONDITIONS[500], "The broker failed to answer; its log says why.", 500)


def _message(request: web.Request, error: web.HTTPException) -> str:
    """aiohttp's own texts are of the form `404: Not Found`."""
    if error.status == 404:
        return f"There is nothing at {request.path!r:.200}."
    if error.status == 405:
        return f"{request.method} is not possible at {request.path!r:.200}; allowed: {error.headers.get('Allow', '')}."
    return error.text or error.reason
