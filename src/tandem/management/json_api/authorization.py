"""Shared access rules: who may do what, and the two keys that prove it. Of the namespace, or of one entity.

A key is replaced while the other one is in use: clients are given the secondary key, the primary one is made anew, and
then the other way round. Connections that are open go on until their tokens end.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from aiohttp import web
from msgspec import Meta, Struct

from tandem.auth import AuthorizationRule, Right
from tandem.auth.keys import KEY_BYTES, make_key, right_names
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.hubs.hub import EventHub
from tandem.engine.namespace import Namespace
from tandem.engine.queue import Queue
from tandem.engine.stored_description import description_of
from tandem.engine.subscription import Subscription
from tandem.errors import (
    ArgumentError,
    ConfigurationError,
    EntityAlreadyExists,
    NotAllowed,
    NotFound,
    QuotaExceeded,
)
from tandem.limits import MAX_KEY_CHARACTERS, MAX_RULES_PER_SCOPE
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import Method, Operation, Parameter, describes
from tandem.management.json_api.reading import read_request

__all__ = ["AuthorizationHandlers"]

_Key = Annotated[str, Meta(min_length=1, max_length=MAX_KEY_CHARACTERS)]
_RightName = Literal["Send", "Listen", "Manage"]

_ENTITY: Final = Parameter(
    "entity",
    Annotated[str, Meta(max_length=512)],
    "The rules of this queue, topic or event hub; left out, those of the namespace.",
)
_RIGHT: Final = "Manage on the namespace, or on the entity for its rules"

# What a function makes of the rules of one scope, by their names.
_Rules = dict[str, AuthorizationRule]


class ShownAuthorizationRule(Struct):
    """A rule with its keys: whoever has one of them has the rights."""

    name: str
    rights: list[_RightName]
    primary_key: str
    secondary_key: str
    # The entity that it is of; empty for the whole namespace.
    entity: str


class AuthorizationRuleList(Struct):
    """In the order of their names."""

    authorization_rules: list[ShownAuthorizationRule]


class NewAuthorizationRule(Struct, forbid_unknown_fields=True):
    """Rights, and keys of your own; those that are left out are made."""

    rights: Annotated[list[_RightName], Meta(min_length=1, max_length=3)]
    primary_key: _Key | None = None
    secondary_key: _Key | None = None


class RotateRequest(Struct, forbid_unknown_fields=True):
    """Which key is made anew."""

    key: Literal["primary", "secondary"] = "primary"


class DeletedAuthorizationRule(Struct):
    """What was deleted."""

    name: str


def _describes(
    method: str, path: str, name: str, summary: str, answer: Any, *, status: int = 200, body: Any = None
) -> Callable[[Method], Method]:
    """Describe an operation on rules: each needs the same right, and may name an entity."""
    return describes(
        Operation(method, path, name, summary, _RIGHT, answer, status, body, (_ENTITY,), tag="authorization")
    )


class AuthorizationHandlers:
    """`/authorization-rules`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @_describes(
        "POST",
        "/authorization-rules/{name}/rotate",
        "rotate_key",
        "Make one of the two keys of a rule anew. The old one proves nothing from now on.",
        ShownAuthorizationRule,
        body=RotateRequest,
    )
    async def rotate(self, request: web.Request) -> web.Response:
        entity, name = self._admit(request), request.match_info["name"]
        order = await read_request(request, RotateRequest)

        def rotate(rules: _Rules) -> None:
            old = _rule(rules, name)
            keys = {"primary_key": old.primary_key, "secondary_key": old.secondary_key, f"{order.key}_key": _new_key()}
            rules[name] = AuthorizationRule(name, old.rights, scope=old.scope, **keys)

        return json_answer(_shown(_rule(await self._change(entity, rotate), name)))

    @_describes(
        "PUT",
        "/authorization-rules/{name}",
        "create_authorization_rule",
        "Create a rule.",
        ShownAuthorizationRule,
        status=201,
        body=NewAuthorizationRule,
    )
    async def create(self, request: web.Request) -> web.Response:
        entity, name = self._admit(request), request.match_info["name"]
        order = await read_request(request, NewAuthorizationRule)
        rule = _made(name, order, entity)

        def create(rules: _Rules) -> None:
            if name in rules:
                raise EntityAlreadyExists(f"The authorization rule '{name}' exists already.")
            if len(rules) >= MAX_RULES_PER_SCOPE:
                raise QuotaExceeded(
                    f"There are {len(rules)} authorization rules; at most {MAX_RULES_PER_SCOPE} may be."
                )
            rules[name] = rule

        return json_answer(_shown(_rule(await self._change(entity, create), name)), status=201)

    @_describes(
        "GET",
        "/authorization-rules/{name}",
        "show_authorization_rule",
        "Show a rule with its keys.",
        ShownAuthorizationRule,
    )
    async def show(self, request: web.Request) -> web.Response:
        rules = await self._rules(self._admit(request))
        return json_answer(_shown(_rule(rules, request.match_info["name"])))

    @_describes(
        "DELETE",
        "/authorization-rules/{name}",
        "delete_authorization_rule",
        "Delete a rule. The last one that may manage the namespace stays.",
        DeletedAuthorizationRule,
    )
    async def delete(self, request: web.Request) -> web.Response:
        entity, name = self._admit(request), request.match_info["name"]

        def delete(rules: _Rules) -> None:
            _rule(rules, name)
            del rules[name]
            if not entity and not any(Right.MANAGE in rule.rights for rule in rules.values()):
                raise NotAllowed(
                    f"The authorization rule '{name}' is the last one with the Manage right: create another one first."
                )

        await self._change(entity, delete)
        return json_answer(DeletedAuthorizationRule(name))

    @_describes(
        "GET",
        "/authorization-rules",
        "list_authorization_rules",
        "List the rules with their keys.",
        AuthorizationRuleList,
    )
    async def list_all(self, request: web.Request) -> web.Response:
        rules = await self._rules(self._admit(request))
        return json_answer({"authorization_rules": [_shown(rules[name]) for name in sorted(rules)]})

    def _admit(self, request: web.Request) -> str:
        entity = request.query.get("entity", "")
        self._gate.admit(request, entity, Right.MANAGE)
        self._gate.throttle(request, entity)
        return entity

    async def _rules(self, entity: str) -> _Rules:
        if not entity:
            return {rule.name: rule for rule in self._gate.hosted.key_ring if not rule.scope}
        return await self._gate.perform(lambda namespace: _rules_of(_entity(namespace, entity)))

    async def _change(self, entity: str, function: Callable[[_Rules], None]) -> _Rules:
        """The rules as the function leaves them, on disk."""
        if entity:
            return await self._gate.perform(lambda namespace: _change_entity(namespace, entity, function))
        rules = await self._rules("")
        function(rules)
        try:
            # Some milliseconds, in which nobody else has a turn; but nobody rotates keys all day.
            self._gate.hosted.set_authorization_rules(list(rules.values()))
        except ConfigurationError as error:
            raise NotAllowed(str(error)) from error
        return rules


# --- rules of an entity ---------------------------------------------------------------------------------------------


def _change_entity(namespace: Namespace, path: str, function: Callable[[_Rules], None]) -> _Rules:
    entity = _entity(namespace, path)
    rules = _rules_of(entity)
    function(rules)
    fields = entity.description.stored_fields()
    fields["authorization_rules"] = [rule.to_dict() for rule in rules.values()]
    if isinstance(entity, EventHub):
        namespace.hubs.update(entity, EventHubDescription.from_fields(fields))
    else:
        namespace.update_queue(entity, description_of(entity.description.kind, fields))
    return rules


def _entity(namespace: Namespace, path: str) -> Queue | EventHub:
    entity = namespace.find_any(path) or namespace.hubs.find(path)
    if entity is None:
        raise NotFound(f"The messaging entity '{path}' could not be found.")
    if isinstance(entity, Subscription):
        raise NotAllowed("A subscription has no authorization rules of its own: those of its topic count.")
    return entity


def _rules_of(entity: Queue | EventHub) -> _Rules:
    return {rule.name: rule for rule in entity.description.authorization_rules or []}


# --- one rule -------------------------------------------------------------------------------------------------------


def _made(name: str, order: NewAuthorizationRule, entity: str) -> AuthorizationRule:
    keys = {"primary_key": order.primary_key or _new_key(), "secondary_key": order.secondary_key or _new_key()}
    try:
        return AuthorizationRule.from_dict({"name": name, "rights": list(order.rights), "scope": entity, **keys})
    except ConfigurationError as error:
        raise ArgumentError(str(error)) from error


def _rule(rules: _Rules, name: str) -> AuthorizationRule:
    rule = rules.get(name)
    if rule is None:
        raise NotFound(f"The authorization rule '{name}' could not be found.")
    return rule


def _shown(rule: AuthorizationRule) -> dict[str, object]:
    return {
        "name": rule.name,
        "rights": right_names(rule.rights),
        "primary_key": rule.primary_key,
        "secondary_key": rule.secondary_key,
        "entity": rule.scope,
    }


def _new_key() -> str:
    return make_key(secrets.token_bytes(KEY_BYTES))
