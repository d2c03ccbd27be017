"""What an operation of the JSON API is: described at its handler, served and documented from that one description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from aiohttp import web

from tandem.wire_names import JSON_API

__all__ = ["PREFIX", "Handler", "Method", "Operation", "Parameter", "describes", "operations_of", "served_by"]

# Everything of the API lies below this.
PREFIX: Final = JSON_API

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# A method of a class of handlers: of which, only its class knows.
Method = TypeVar("Method", bound=Callable[..., Awaitable[web.StreamResponse]])


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query. `kind` is a type that msgspec knows a JSON schema for."""

    name: str
    kind: Any
    text: str


@dataclass(frozen=True)
class Operation:
    """One method of one path. The types are those of the JSON in the body of the request and of the answer."""

    method: str
    # Below the prefix; in braces what stands in the URL. Of an entity it may hold slashes, of anything else it may not.
    path: str
    name: str
    summary: str
    # Which right it needs, and to what; empty if it needs no token.
    right: str
    answer: Any
    status: int = 200
    body: Any = None
    parameters: tuple[Parameter, ...] = ()
    tag: str = "messages"
    # What the answer may be instead of JSON, as a media type.
    streams: str | None = None


_described: Final[dict[object, Operation]] = {}


def describes(operation: Operation) -> Callable[[Method], Method]:
    """Say what the handler below does."""

    def note(method: Method) -> Method:
        _described[method] = operation
        return method

    return note


def operations_of(*classes: type) -> list[Operation]:
    """Return the operations that the methods of these classes are described to do."""
    return [operation for kind in classes for operation in _by_method(kind).values()]


def served_by(handlers: object) -> list[tuple[Operation, Handler]]:
    """Return the operations of an object of such a class, with what answers each."""
    return [(operation, getattr(handlers, name)) for name, operation in _by_method(type(handlers)).items()]


def _by_method(kind: type) -> dict[str, Operation]:
    # Methods that several classes inherit are described by the class: `operations`.
    inherited: dict[str, Operation] = kind.operations() if hasattr(kind, "operations") else {}
    own = {name: _described[one] for name, one in vars(kind).items() if callable(one) and one in _described}
    return {**inherited, **own}
