"""Shared access keys: rules that give rights to whoever holds one of their two keys."""

from __future__ import annotations

import base64
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tandem.addresses import parse_address
from tandem.errors import ArgumentError, ConfigurationError, UsageError
from tandem.limits import MAX_KEY_CHARACTERS, MAX_RULE_NAME_CHARACTERS, MAX_RULES_PER_SCOPE

__all__ = [
    "ALL_RIGHTS",
    "KEY_BYTES",
    "NO_RIGHTS",
    "AuthorizationRule",
    "KeyRing",
    "Resource",
    "Right",
    "make_key",
    "right_names",
    "with_implied",
]

# Bytes. A key made by Tandem, before base64: as long as the digest it is used for (SHA-256). Service: 32.
KEY_BYTES: Final = 32


class Right(enum.Flag):
    """What a rule or a token allows. `MANAGE` implies the others: see `with_implied`."""

    SEND = 1
    LISTEN = 2
    MANAGE = 4


ALL_RIGHTS: Final = Right.SEND | Right.LISTEN | Right.MANAGE
NO_RIGHTS: Final = Right(0)

# In the words of the service, as they stand in its errors and descriptions.
_NAMES: Final[dict[str, Right]] = {"Send": Right.SEND, "Listen": Right.LISTEN, "Manage": Right.MANAGE}


def with_implied(rights: Right) -> Right:
    return ALL_RIGHTS if Right.MANAGE in rights else rights


def right_names(rights: Right) -> list[str]:
    return [name for name, right in _NAMES.items() if right in rights]


def make_key(random_bytes: bytes) -> str:
    """A new key, of bytes that nobody can guess."""
    if len(random_bytes) != KEY_BYTES:
        raise UsageError(f"a key is made of {KEY_BYTES} bytes, not of {len(random_bytes)}")
    return base64.b64encode(random_bytes).decode("ascii")


@dataclass(frozen=True, slots=True)
class Resource:
    """What rights are needed to: a path in lower case, and the queue, topic or event hub that it belongs to.

    `Namespace.resource_of` says which entity that is: the topic of a subscription, the event hub of a partition, the
    queue of its dead letters. Names hold slashes, so the path alone does not say it.
    """

    path: str
    owner: str
    # The path of a subscription, which can have rules in the file of keys; empty for everything else.
    subscription: str = ""

    def is_covered_by(self, scope: str) -> bool:
        """Return whether a rule with this scope applies here. This decides for every way in.

        A rule of the namespace, whose scope is empty, applies everywhere. A rule of an entity applies to that entity
        and its parts, and to no other entity, whatever their names have in common.
        """
        return not scope or scope == self.owner or scope == self.subscription


class AuthorizationRule:
    """A name, its rights, and the two keys that prove it: two, so that one can be replaced while the other is in use.

    The scope is the path of an entity, or empty for the whole namespace. The secondary key may be empty: then there
    is none.
    """

    __slots__ = ("name", "primary_key", "rights", "scope", "secondary_key")

    def __init__(self, name: str, rights: Right, primary_key: str, secondary_key: str = "", scope: str = "") -> None:
        _require_text("name", name, MAX_RULE_NAME_CHARACTERS)
        _require_text("primary_key", primary_key, MAX_KEY_CHARACTERS)
        if secondary_key:
            _require_text("secondary_key", secondary_key, MAX_KEY_CHARACTERS)
        if not rights:
            raise ArgumentError(f"rights of the rule {name!r} are empty; allowed are {', '.join(_NAMES)}")
        self.name = name
        self.rights = with_implied(rights)
        self.primary_key = primary_key
        self.secondary_key = secondary_key
        self.scope = parse_address(scope).resource

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.primary_key, self.secondary_key) if self.secondary_key else (self.primary_key,)

    def to_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "rights": right_names(self.rights),
            "primary_key": self.primary_key,
            "secondary_key": self.secondary_key,
            "scope": self.scope,
        }

    @staticmethod
    def from_dict(value: object) -> AuthorizationRule:
        """The opposite of `to_dict`. ConfigurationError names the field that is wrong."""
        try:
            return _rule(value)
        except ArgumentError as error:
            raise ConfigurationError(str(error)) from error

    def __repr__(self) -> str:
        # Without the keys: what is printed is logged sooner or later.
        return f"AuthorizationRule({self.name!r}, {self.rights!r}, scope={self.scope!r})"


class KeyRing:
    """The rules of one namespace, by scope and name."""

    __slots__ = ("_rules",)

    def __init__(self, rules: list[AuthorizationRule] | None = None) -> None:
        self._rules: dict[str, dict[str, AuthorizationRule]] = {}
        for rule in rules or []:
            self.put(rule)

    def __iter__(self) -> Iterator[AuthorizationRule]:
        for rules in self._rules.values():
            yield from rules.values()

    def put(self, rule: AuthorizationRule) -> None:
        """Add a rule, or replace the one of the same name and scope."""
        rules = self._rules.setdefault(rule.scope, {})
        if rule.name not in rules and len(rules) >= MAX_RULES_PER_SCOPE:
            where = repr(rule.scope) if rule.scope else "the namespace"
            raise ArgumentError(f"{where} has {len(rules)} authorization rules; allowed are {MAX_RULES_PER_SCOPE}")
        rules[rule.name] = rule

    def remove(self, name: str, scope: str = "") -> bool:
        """Whether there was such a rule."""
        key = parse_address(scope).resource
        rules = self._rules.get(key, {})
        was_there = rules.pop(name, None) is not None
        if was_there and not rules:
            del self._rules[key]
        return was_there

    def replace_entity(self, entity: str, rules: list[AuthorizationRule]) -> None:
        """These are the rules of an entity from now on, and no others."""
        self.remove_entity(entity)
        for rule in rules:
            self.put(rule)

    def remove_entity(self, entity: str) -> None:
        """Forget the rules of a deleted entity: one made later under its name must not inherit them."""
        self._rules.pop(parse_address(entity).resource, None)

    def get(self, name: str, scope: str = "") -> AuthorizationRule | None:
        return self._rules.get(parse_address(scope).resource, {}).get(name)

    def named(self, name: str) -> list[AuthorizationRule]:
        """The rules of that name, wherever they apply."""
        return [rules[name] for rules in self._rules.values() if name in rules]

    def covering(self, name: str, resource: Resource) -> list[AuthorizationRule]:
        """Return the rules of that name that apply to a resource."""
        return [rule for rule in self.named(name) if resource.is_covered_by(rule.scope)]

    def to_dict(self) -> dict[str, object]:
        return {"rules": [rule.to_dict() for rule in self]}

    @staticmethod
    def from_dict(value: object) -> KeyRing:
        """The opposite of `to_dict`, for what was read from a file: every field is judged."""
        rules = value.get("rules") if isinstance(value, dict) else None
        if not isinstance(rules, list):
            raise ConfigurationError("the key ring must be an object with a list of rules")
        try:
            return KeyRing([_rule(rule, f"rules[{number}]") for number, rule in enumerate(rules)])
        except ArgumentError as error:
            raise ConfigurationError(f"the key ring: {error}") from error


def _rule(value: object, where: str = "the rule") -> AuthorizationRule:
    if not isinstance(value, dict):
        raise ArgumentError(f"{where} must be an object")
    texts: list[str] = []
    for field in ("name", "primary_key", "secondary_key", "scope"):
        text = value.get(field, "")
        if not isinstance(text, str):
            raise ArgumentError(f"{where}.{field} must be a string")
        texts.append(text)
    name, primary_key, secondary_key, scope = texts
    return AuthorizationRule(name, _rights(value.get("rights"), where), primary_key, secondary_key, scope)


def _rights(names: object, where: str) -> Right:
    if not isinstance(names, list):
        raise ArgumentError(f"{where}.rights must be a list")
    rights = NO_RIGHTS
    for name in names:
        right = _NAMES.get(name) if isinstance(name, str) else None
        if right is None:
            raise ArgumentError(f"{where}.rights: {name!r:.80} is none of {', '.join(_NAMES)}")
        rights |= right
    return rights


def _require_text(field: str, text: str, max_characters: int) -> None:
    if not 1 <= len(text) <= max_characters:
        raise ArgumentError(f"{field} has {len(text):,} characters; allowed are 1 to {max_characters}")
    # The value is not repeated: it may be a key.
    if not text.isprintable():
        raise ArgumentError(f"{field} holds a character that cannot be printed")
