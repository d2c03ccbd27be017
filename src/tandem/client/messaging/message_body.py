"""Bodies of messages and events: from what a program passes, and as the type that it asks for."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tandem.errors import UsageError

__all__ = ["Body", "read_body", "written_body"]

Body = TypeVar("Body")


def written_body(body: object) -> bytes:
    """Return the bytes of a body that a program passes: bytes as they are, a text in UTF-8."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    raise UsageError(
        f"body is a {type(body).__name__}; it must be bytes or str: pass json.dumps(...) of a dict or a list, which "
        "get_body reads again, and bytes(...) of a bytearray"
    )


def read_body(value: object, kind: type[Body], message: object) -> Body:
    """Return the value of a body as a type. Errors name the message."""
    if kind is bytes:
        return _read_bytes(value, message)  # type: ignore[return-value] # Body is bytes here
    try:
        if kind is str:
            return _read_text(value)  # type: ignore[return-value] # Body is str here
        if isinstance(value, bytes | str):
            return msgspec.json.decode(value, type=kind)
        return msgspec.convert(value, kind)
    # TypeError: a type that msgspec cannot read, such as a class of the caller's without annotations.
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"the body of {message!r} cannot be read as {_name(kind)}: {error}; get_body() returns its bytes, and "
            "`value` what the sender wrote"
        ) from error


def _read_bytes(value: object, message: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if value is None:
        return b""
    raise UsageError(
        f"the body of {message!r} is an AMQP value of the type {type(value).__name__} and not bytes; pass get_body the "
        "type you expect, or read `value`"
    )


def _read_text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else msgspec.convert(value, str)


def _name(kind: object) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
