"""The official JavaScript administration client, unchanged, manages everything.

The program that uses it is tests/compat/node/admin.mjs; admin_features.json beside it says what each feature shows.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any, Final

import pytest

from tandem.testing import Broker
from tests.compat.admin import admin_connection_string, new_name
from tests.interop.peers.available import NODE_SDK_FOLDER, require_node_sdk
from tests.markers import mission

FEATURES: Final[dict[str, str]] = json.loads((NODE_SDK_FOLDER / "admin_features.json").read_text(encoding="utf-8"))

# Seconds. The program takes about five.
LIMIT_S: Final = 300.0


@pytest.fixture(scope="module")
def reports(broker: Broker) -> dict[str, dict[str, Any]]:
    node = require_node_sdk()
    prefix = new_name("js")
    for number in range(250):
        broker.create_queue(f"{prefix}-many-{number:03}")
    addresses = [
        admin_connection_string(broker),
        admin_connection_string(broker, "key-of-listener", "Listener"),
    ]
    run = subprocess.run(
        [node, "admin.mjs", *addresses, prefix],
        cwd=NODE_SDK_FOLDER,
        env={**os.environ, "NODE_EXTRA_CA_CERTS": str(broker.ca_path)},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    for number in range(250):
        broker.delete_queue(f"{prefix}-many-{number:03}")
    return {report["feature"]: report for report in map(json.loads, run.stdout.splitlines())}


@mission("M4")
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("feature", FEATURES)
def test_the_javascript_client_finds_that(feature: str, reports: dict[str, dict[str, Any]]) -> None:
    report = reports[feature]
    assert report["ok"], report["surprise"]
