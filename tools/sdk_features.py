"""The features that the official SDKs are asked to show, by group, and where each language shows them.

A group is what one client library does. Its features are those of the JavaScript tours, and some that other SDKs have.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any, Final

COMPAT: Final = Path(__file__).resolve().parent.parent / "tests" / "compat"
NODE: Final = COMPAT / "node"

SERVICE_BUS, EVENT_HUBS, ADMINISTRATION = "servicebus", "eventhubs", "administration"
TRANSPORTS: Final = ("tcp", "tls", "websocket")


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


FEATURES: Final[dict[str, dict[str, dict[str, Any]]]] = {
    SERVICE_BUS: _read(NODE / "features.json") | _read(COMPAT / "more_features.json"),
    EVENT_HUBS: {name: {"meaning": text} for name, text in _read(NODE / "hub_features.json").items()},
    ADMINISTRATION: {name: {"meaning": text} for name, text in _read(NODE / "admin_features.json").items()},
}
# By language and group: the features that the SDK does not have, each with the reason.
NOT_IN_SDK: Final[dict[str, dict[str, dict[str, str]]]] = _read(COMPAT / "not_in_sdk.json")
# By group and feature: the parts of the queue tour, or the tests, that show it with the Python SDK.
PYTHON: Final[dict[str, dict[str, dict[str, list[str]]]]] = _read(COMPAT / "python_features.json")


@functools.cache
def python_tests() -> frozenset[str]:
    """Return the tests, as `module::function`, that show features of the Python SDK over AMQP."""
    return frozenset(
        test
        for group, features in PYTHON.items()
        # The administration client speaks HTTPS and nothing else.
        if group != ADMINISTRATION
        for shown in features.values()
        for test in shown.get("tests", ())
    )
