"""Values of the right kind, or an error that names the place where another one stands."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeVar

from tandem.arguments import JSON_WORDS, Words
from tandem.auth.keys import AuthorizationRule
from tandem.config.configuration import Given, KeySettings, NamespaceSettings
from tandem.engine.description import EntityDescription
from tandem.entity_settings import PEOPLE_WORDS, setting_of
from tandem.errors import ArgumentError, ConfigurationError
from tandem.limits import MAX_NAMESPACES, MAX_RULES_PER_SCOPE

__all__ = [
    "Misplaced",
    "as_list",
    "as_object",
    "as_text",
    "as_whole_number",
    "check_names",
    "check_namespaces",
    "key_settings",
    "named",
    "noted",
    "require_known",
    "require_namespace_name",
]

Described = TypeVar("Described", bound=EntityDescription)

# As in the cloud service, where it is the first label of a host name; the service wants at least 6 characters.
_NAMESPACE_NAME: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]{0,48}[A-Za-z0-9])?")

# In place of a key that is not given, while the rest of its rule is judged.
_ANY_KEY: Final = "-"


class Misplaced(ConfigurationError):
    """Something in a configuration that cannot be, and where it stands: `queues[0].name`."""

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place


def require_namespace_name(name: str, setting: str) -> None:
    if _NAMESPACE_NAME.fullmatch(name) is None:
        raise Misplaced(
            setting,
            f"{setting} is {name!r:.80}; allowed are up to 50 letters, digits and '-', a letter first and no '-' last",
        )


def require_known(value: dict[str, Any], allowed: tuple[str, ...], where: str) -> None:
    """Refuse a key that nobody would read: it is a slip of the finger, or a setting of something else."""
    for key in value:
        if key not in allowed:
            raise Misplaced(f"{where}{key}", f"{where}{key} is not a setting; those are {', '.join(allowed)}")


def as_whole_number(value: dict[str, Any], key: str, least: int, most: int) -> int | None:
    number = value.get(key)
    if number is None:
        return None
    # A bool is an int in Python, and is none here.
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise Misplaced(key, f"{key} is {number!r:.80}; it must be a whole number from {least:,} to {most:,}")
    return number


def as_list(value: dict[str, Any], key: str, prefix: str) -> list[tuple[str, Any]]:
    """The entries of a list, each with its place."""
    # The emulator's own examples have null where there is nothing.
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise Misplaced(f"{prefix}{key}", f"{prefix}{key} must be a list")
    return [(f"{prefix}{key}[{number}]", one) for number, one in enumerate(found)]


def as_object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misplaced(where, f"{where} must be an object with named values")
    return value


def as_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise Misplaced(where, f"{where} must be a text")
    return value


@contextlib.contextmanager
def named(
    where: str,
    fields: Collection[str] = (),
    words: Words = JSON_WORDS,
    spelling: Callable[[str], str] = str,
) -> Iterator[None]:
    """Turn an error inside into one that names the place.

    `fields` are those of the file, in which a time may be written for people; `words` are the words of the file's form,
    and `spelling` says where in it a field stands.
    """
    try:
        yield
    except ArgumentError as error:
        argument = error.argument
        if argument is None:
            raise Misplaced(where, f"{where}: {error}") from error
        setting = setting_of(argument.field)
        if setting is not None and argument.field not in fields and setting.label in fields:
            place, words = setting.label, PEOPLE_WORDS
        else:
            place = spelling(argument.field)
        raise Misplaced(f"{where}.{place}", f"{where}: {words.sentence(argument)}") from error


def noted(description: Described, fields: Collection[str], given: Given) -> Described:
    """Return a description after noting which fields the file has of it."""
    given[description.name.lower()] = frozenset(fields)
    return description


def key_settings(value: object, where: str) -> KeySettings:
    """A shared access rule of a namespace."""
    fields = as_object(value, where)
    require_known(fields, ("name", "rights", "primary_key", "secondary_key"), f"{where}.")
    keys = {key: fields[key] for key in ("primary_key", "secondary_key") if fields.get(key)}
    try:
        rule = AuthorizationRule.from_dict({"primary_key": _ANY_KEY, **fields, "scope": ""})
    except ConfigurationError as error:
        raise Misplaced(where, f"{where}: {error}") from error
    return KeySettings(rule.name, rule.rights, keys.get("primary_key"), keys.get("secondary_key"))


def check_names(settings: NamespaceSettings, prefix: str, spelling: Callable[[str], str] = str) -> None:
    """Refuse two entities of one name. Queues, topics and hubs share theirs, and case does not count."""
    queues = [(f"{spelling('queues')}[{number}]", one.name) for number, one in enumerate(settings.queues)]
    topics = [(f"{spelling('topics')}[{number}]", one.description.name) for number, one in enumerate(settings.topics)]
    hubs = [(f"{spelling('hubs')}[{number}]", one.name) for number, one in enumerate(settings.hubs)]
    together = [(f"{prefix}{place}", name) for place, name in queues + topics + hubs]
    _require_different("queue, topic or hub", together, spelling)
    for (place, name), topic in zip(topics, settings.topics, strict=True):
        names = [
            (f"{prefix}{place}.{spelling('subscriptions')}[{number}]", one.description.subscription_name)
            for number, one in enumerate(topic.subscriptions)
        ]
        _require_different(f"subscription of {name!r}", names, spelling)
    rules = [
        (f"{prefix}authorization_rules[{number}]", one.name) for number, one in enumerate(settings.authorization_rules)
    ]
    if len(rules) > MAX_RULES_PER_SCOPE:
        place = f"{prefix}authorization_rules"
        raise Misplaced(place, f"{place} has {len(rules)} rules; allowed are {MAX_RULES_PER_SCOPE}")
    _require_different("authorization rule", rules, spelling)


def check_namespaces(namespaces: list[NamespaceSettings], where: str, spelling: Callable[[str], str] = str) -> None:
    if not 1 <= len(namespaces) <= MAX_NAMESPACES:
        raise Misplaced(where, f"{where} has {len(namespaces)} entries; allowed are 1 to {MAX_NAMESPACES}")
    names = [(f"{where}[{number}]", one.name) for number, one in enumerate(namespaces) if one.name is not None]
    _require_different("namespace", names, spelling)


def _require_different(noun: str, places: list[tuple[str, str]], spelling: Callable[[str], str]) -> None:
    seen: set[str] = set()
    for place, name in places:
        if name.lower() in seen:
            raise Misplaced(f"{place}.{spelling('name')}", f"the {noun} {name!r} is there twice")
        seen.add(name.lower())
