"""The official JavaScript SDK of Event Hubs, unchanged: over plain TCP and WebSocket, in the long form over TLS too.

The program that uses it is tests/compat/node/hubs.mjs; hub_features.json beside it says what each feature shows.
"""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.testing import Broker
from tests.compat.admin import new_name
from tests.compat.programs import IS_LONG
from tests.compat.sdk import connection_string
from tests.interop.peers.available import NODE_SDK_FOLDER, require_node_sdk
from tests.markers import mission
from tools.sdk_features import TRANSPORTS

FEATURES: Final[dict[str, str]] = json.loads((NODE_SDK_FOLDER / "hub_features.json").read_text(encoding="utf-8"))
# In the short form, over a WebSocket only what differs there: how much is sent at once, and links that come and go.
WEBSOCKET_FEATURES: Final = ("send-and-read", "batch", "runtime-information", "owner-level", "too-large", "many-events")
VISITS: Final = (
    dict.fromkeys(TRANSPORTS, tuple(FEATURES)) if IS_LONG else {"tcp": tuple(FEATURES), "websocket": WEBSOCKET_FEATURES}
)

# Seconds. The program takes about ten.
LIMIT_S: Final = 300.0

Reports = dict[str, dict[str, Any]]


def _visit(node: Path, broker: Broker, transport: str) -> Reports:
    hubs = {feature: new_name(f"{transport}/{feature}") for feature in VISITS[transport]}
    for hub in hubs.values():
        broker.create_hub(hub, partition_count=4, consumer_groups=["audit"])
    address = connection_string(broker, transport=transport)
    run = subprocess.run(
        [node, "hubs.mjs", address, json.dumps(hubs), transport],
        cwd=NODE_SDK_FOLDER,
        env={**os.environ, "NODE_EXTRA_CA_CERTS": str(broker.ca_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return {report["feature"]: report for report in map(json.loads, run.stdout.splitlines())}


@pytest.fixture(scope="module")
def visits(broker: Broker) -> dict[str, Reports]:
    node = require_node_sdk()
    with ThreadPoolExecutor(len(VISITS)) as threads:
        reports = list(threads.map(lambda transport: _visit(node, broker, transport), VISITS))
    return dict(zip(VISITS, reports, strict=True))


@mission("M10", "M17")
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize(
    "transport, feature", [(transport, feature) for transport, features in VISITS.items() for feature in features]
)
def test_the_javascript_sdk_finds_of_event_hubs_that(transport: str, feature: str, visits: dict[str, Reports]) -> None:
    report = visits[transport][feature]
    assert report["ok"], report["surprise"]
