"""Which subscriptions of a topic would get a message, and why: their rules, tried on properties that a request has."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from tandem.engine.namespace import Namespace
from tandem.engine.rule import Rule
from tandem.errors import ArgumentError
from tandem.limits import MAX_RULES_PER_SUBSCRIPTION
from tandem.management.answers import json_answer
from tandem.management.explaining import explain_rule, subject_of
from tandem.management.gate import Gate
from tandem.management.json_api.described import Operation, describes
from tandem.management.json_api.entity_handlers import PAGE, Fields
from tandem.management.json_api.entity_shapes import ExplainRequest, Explanation
from tandem.management.json_api.rules import rules_of
from tandem.management.json_api.subscriptions import subscriptions_of
from tandem.management.requests import read_fields, read_page

__all__ = ["MAX_EXPLAINED_RULES", "ExplanationHandlers"]

# Rules. One answer explains whole subscriptions, as many as have no more than these together, and at least one.
MAX_EXPLAINED_RULES: Final = MAX_RULES_PER_SUBSCRIPTION

# Rules. Between two such bunches others get their turn: to explain a long one takes about a millisecond.
_BUNCH_RULES: Final = 20


class ExplanationHandlers:
    """`/$api/v1/topics/{name}/explain`"""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    @describes(
        Operation(
            "POST",
            "/topics/{name}/explain",
            "explain",
            "Which subscriptions would get a message of these properties, and why.",
            "any on the topic",
            Explanation,
            body=ExplainRequest,
            parameters=PAGE,
            tag="topics",
        )
    )
    async def explain(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self._gate.admit(request, name, None, name)
        self._gate.throttle(request, name)
        page = read_page(request)
        body = await read_fields(request, {})
        only = body.pop("subscription", None)
        if only is not None and not isinstance(only, str):
            raise ArgumentError(f"subscription must be a text, got {only!r:.80}")
        subject = subject_of(body)

        def read(namespace: Namespace) -> tuple[list[tuple[str, list[Rule]]], int | None]:
            return _rules_to_explain(namespace, name, only, page)

        found, next_skip = await self._gate.perform(read)
        subscriptions: list[Fields] = []
        for subscription, rules in found:
            explained: list[Fields] = []
            for number, rule in enumerate(rules):
                if number % _BUNCH_RULES == 0:
                    await asyncio.sleep(0)
                explained.append({"name": rule.name, **explain_rule(rule.filter, rule.action, subject, rule.name)})
            is_match = any(one["matches"] for one in explained)
            subscriptions.append({"name": subscription, "matches": is_match, "rules": explained})
        return json_answer({"subscriptions": subscriptions, "next_skip": next_skip})


def _rules_to_explain(
    namespace: Namespace, topic_name: str, only: str | None, page: slice
) -> tuple[list[tuple[str, list[Rule]]], int | None]:
    """Subscriptions with their rules, and how many to skip for those that are left. Rules do not change."""
    topic = namespace.topic(topic_name)
    candidates = subscriptions_of(topic) if only is None else [namespace.subscription(topic_name, only)]
    found: list[tuple[str, list[Rule]]] = []
    rule_count = 0
    for subscription in candidates[page]:
        rule_count += len(subscription.rules)
        if found and rule_count > MAX_EXPLAINED_RULES:
            break
        found.append((subscription.subscription_description.subscription_name, rules_of(subscription)))
    after = page.start + len(found)
    return found, after if after < len(candidates) else None
