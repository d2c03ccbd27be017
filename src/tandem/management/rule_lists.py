"""Rules that are given together with their subscription. The command line reads them too, without HTTP."""

from __future__ import annotations

from tandem.engine.rule import Rule
from tandem.errors import ArgumentError

__all__ = ["read_rules"]


def read_rules(field: str, values: object, created_at_ms: int) -> list[Rule]:
    """The rules of a subscription that is not made yet. ArgumentError names the field that is wrong."""
    if not isinstance(values, list):
        raise ArgumentError.of("{field} must be a list of rules, got {value}", field, value=values)
    rules: dict[str, Rule] = {}
    for number, value in enumerate(values):
        where = f"{field}[{number}]"
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise ArgumentError.of("{field} must be an object with a name, got {value}", where, value=value)
        name = value["name"]
        if name.lower() in rules:
            raise ArgumentError.of("{field} is {value}, which an earlier rule has", f"{where}.name", value=name)
        try:
            fields = {key: one for key, one in value.items() if key != "name"}
            rules[name.lower()] = Rule.from_fields(name, fields, created_at_ms)
        except ArgumentError as error:
            raise ArgumentError.of("{field}: {reason}", where, reason=str(error)) from error
    return list(rules.values())
