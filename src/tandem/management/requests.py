"""What a request says: the properties in its body, the page that it wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from aiohttp import web

from tandem.errors import ArgumentError, ArgumentOutOfRange
from tandem.limits import MAX_JSON_BODY_BYTES, MAX_PAGE_ENTITIES, MAX_SKIP

__all__ = [
    "DEFAULT_PAGE_ENTITIES",
    "is_asked_for",
    "query_number",
    "read_body",
    "read_fields",
    "read_page",
]

# Entities. One answer of a list. Service: 100, and at most 100.
DEFAULT_PAGE_ENTITIES: Final = 100

# Digits of a 64-bit number. Python needs time that grows with the square of the digits to read a number.
_MAX_DIGITS: Final = 19


async def read_fields(request: web.Request, names: Mapping[str, str]) -> dict[str, object]:
    """The body, an object of the properties to set; no body is an empty one.

    The names stand in the URL. A client that sends back what it got may repeat them.
    """
    body = await read_body(request, MAX_JSON_BODY_BYTES)
    if not body.strip():
        return {}
    try:
        fields = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise ArgumentError(f"the body must be a JSON object of properties: {error}") from error
    for field, name in names.items():
        repeated = fields.pop(field, name)
        if not isinstance(repeated, str) or repeated.lower() != name.lower():
            raise ArgumentError(
                f"{field} is {repeated!r:.80} in the body and {name!r} in the URL: leave it out of the body"
            )
    return fields


async def read_body(request: web.Request, limit_bytes: int) -> bytes:
    """Bounded while it comes in: a length that was told in advance may be missing or wrong."""
    body = bytearray()
    if (request.content_length or 0) <= limit_bytes:
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > limit_bytes:
                break
        else:
            return bytes(body)
    raise web.HTTPRequestEntityTooLarge(
        limit_bytes,
        request.content_length or len(body),
        text=f"the body has more than {limit_bytes:,} bytes",
    )


def read_page(request: web.Request) -> slice:
    """The part of a list that `skip` and `top` ask for."""
    skip = query_number(request, "skip", 0, 0, MAX_SKIP)
    return slice(skip, skip + query_number(request, "top", DEFAULT_PAGE_ENTITIES, 0, MAX_PAGE_ENTITIES))


def is_asked_for(request: web.Request, name: str) -> bool:
    text = request.query.get(name, "false")
    if text not in {"true", "false"}:
        raise ArgumentError(f"{name} is {text!r:.40}; it must be true or false")
    return text == "true"


def query_number(request: web.Request, name: str, default: int, least: int, most: int) -> int:
    """Return a whole number of the query."""
    text = request.query.get(name)
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not least <= int(text) <= most:
        raise ArgumentOutOfRange(f"{name} is {text!r:.40}; it must be a whole number from {least:,} to {most:,}")
    return int(text)
