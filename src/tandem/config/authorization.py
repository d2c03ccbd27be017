"""The shared access rules of a namespace, as a configuration has them."""

from __future__ import annotations

import secrets

from tandem.auth.keys import KEY_BYTES, AuthorizationRule, KeyRing, make_key
from tandem.config.configuration import KeySettings, NamespaceSettings

__all__ = ["authorization_changes"]


def authorization_changes(
    key_ring: KeyRing, settings: NamespaceSettings, *, updates: bool
) -> tuple[list[AuthorizationRule], list[str]]:
    """The rules that are missing and, if wanted, those that the file has changed; and in words what becomes of them.

    Keys that the file does not have are made for a new rule, and stay with an old one.
    """
    rules: list[AuthorizationRule] = []
    words: list[str] = []
    for wanted in settings.authorization_rules:
        existing = key_ring.get(wanted.name)
        if existing is None:
            rules.append(_made(wanted, _new_key(), _new_key()))
            words.append(f"created the authorization rule {wanted.name}")
        elif updates:
            rule = _made(wanted, existing.primary_key, existing.secondary_key)
            if rule.to_dict() != existing.to_dict():
                rules.append(rule)
                words.append(f"updated the authorization rule {wanted.name}")
    return rules, words


def _made(wanted: KeySettings, primary_key: str, secondary_key: str) -> AuthorizationRule:
    return AuthorizationRule(
        wanted.name, wanted.rights, wanted.primary_key or primary_key, wanted.secondary_key or secondary_key
    )


def _new_key() -> str:
    return make_key(secrets.token_bytes(KEY_BYTES))
