"""Values of the right kind, or an error that names the place where another one stands."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, Final

from tandem.config.configuration import TopicSettings
from tandem.engine.description import QueueDescription
from tandem.errors import ArgumentError, ConfigurationError

__all__ = [
    "MAX_PORT",
    "as_list",
    "as_object",
    "as_text",
    "as_whole_number",
    "check_names",
    "named",
    "require_known",
    "require_namespace_name",
]

MAX_PORT: Final = 65_535

# As in the cloud service, where it is the first label of a host name; the service wants at least 6 characters.
_NAMESPACE_NAME: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,48}[A-Za-z0-9])?")


def require_namespace_name(name: str, setting: str) -> None:
    if _NAMESPACE_NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{setting} is {name!r:.80}; allowed are up to 50 letters, digits and '-', a letter first and no '-' last"
        )


def require_known(value: dict[str, Any], allowed: tuple[str, ...], where: str) -> None:
    """Refuse a key that nobody would read: it is a slip of the finger, or a setting of something else."""
    for key in value:
        if key not in allowed:
            raise ConfigurationError(f"{where}{key} is not a setting; those are {', '.join(allowed)}")


def as_whole_number(value: dict[str, Any], key: str, least: int, most: int) -> int | None:
    number = value.get(key)
    if number is None:
        return None
    # A bool is an int in Python, and is none here.
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise ConfigurationError(f"{key} is {number!r:.80}; it must be a whole number from {least:,} to {most:,}")
    return number


def as_list(value: dict[str, Any], key: str, prefix: str) -> list[tuple[str, Any]]:
    """The entries of a list, each with its place."""
    # The emulator's own examples have null where there is nothing.
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise ConfigurationError(f"{prefix}{key} must be a list")
    return [(f"{prefix}{key}[{number}]", one) for number, one in enumerate(found)]


def as_object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where} must be an object with named values")
    return value


def as_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise ConfigurationError(f"{where} must be a text")
    return value


@contextlib.contextmanager
def named(where: str) -> Iterator[None]:
    """What is wrong inside is an error that names the place."""
    try:
        yield
    except ArgumentError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def check_names(queues: list[QueueDescription], topics: list[TopicSettings]) -> None:
    """Refuse two entities of one name. Queues and topics share theirs, and case does not count."""
    _require_different("queue or topic", [one.name for one in queues] + [one.description.name for one in topics])
    for topic in topics:
        names = [one.description.subscription_name for one in topic.subscriptions]
        _require_different(f"subscription of {topic.description.name!r}", names)


def _require_different(noun: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise ConfigurationError(f"the {noun} {name!r} is there twice")
        seen.add(name.lower())
