"""The official JavaScript SDK, unchanged, finds everything that queues and topics can do, over every transport.

The program that uses it is tests/compat/node/tour.mjs; features.json beside it says what each feature shows. Every
feature has a queue or a topic of its own, and a test of its own over each transport.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.auth.keys import KeyRing
from tandem.testing import Broker
from tests.compat.sdk import RULES, connection_string
from tests.interop.peers.available import NODE_SDK_FOLDER, require_node_sdk
from tests.markers import mission

FEATURES: Final[dict[str, dict[str, Any]]] = json.loads((NODE_SDK_FOLDER / "features.json").read_text(encoding="utf-8"))
FEATURES_OF_TOPICS: Final = {name: feature for name, feature in FEATURES.items() if "subscriptions" in feature}
FEATURES_OF_QUEUES: Final = {name: feature for name, feature in FEATURES.items() if name not in FEATURES_OF_TOPICS}
TRANSPORTS: Final = ("tcp", "tls", "websocket")

# Seconds. A tour takes about 12, and more on a slow machine; one in which the server never answers ends here.
TOUR_LIMIT_S: Final = 300.0


@dataclass(frozen=True)
class Tour:
    """What one run of the program reported, and how it ended."""

    reports: Mapping[str, Mapping[str, Any]]
    end: str

    def judge(self, feature: str) -> None:
        report = self.reports.get(feature)
        assert report is not None, f"the tour did not get to it: {self.end}"
        log = "\n".join(report.get("log", ()))
        assert report["ok"], f"{report['surprise']}\n--- the SDK's log ---\n{log}"


def _queues(broker: Broker, transport: str) -> dict[str, str]:
    """A queue or a topic for each feature. The slash in the name is one more thing that has to work."""
    queues = {feature: f"{transport}/{feature}" for feature in FEATURES}
    for feature in FEATURES_OF_QUEUES:
        settings = dict(FEATURES[feature].get("queue", {}))
        if "forward_to" in settings:
            settings["forward_to"] = f"{queues[feature]}-target"
            broker.create_queue(settings["forward_to"])
        broker.create_queue(queues[feature], **settings)
    for feature, wanted in FEATURES_OF_TOPICS.items():
        broker.create_topic(queues[feature], **wanted.get("topic", {}))
        for name, fields in wanted["subscriptions"].items():
            broker.create_subscription(queues[feature], name, **fields)
    return queues


def _tour(node: Path, broker: Broker, transport: str) -> Tour:
    address = connection_string(broker, transport=transport)
    command = [str(node), "tour.mjs", "--keep-going", address, json.dumps(_queues(broker, transport)), transport]
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": str(broker.ca_path)}
    try:
        run = subprocess.run(
            command, cwd=NODE_SDK_FOLDER, env=environment, capture_output=True, timeout=TOUR_LIMIT_S, check=False
        )
        output, errors, end = run.stdout, run.stderr, f"it ended with exit code {run.returncode}"
    except subprocess.TimeoutExpired as expired:
        output, errors, end = expired.stdout or b"", expired.stderr or b"", f"it was ended after {TOUR_LIMIT_S:.0f} s"
    # The last line may be cut off.
    reports = [json.loads(line) for line in output.decode().splitlines(keepends=True) if line.endswith("\n")]
    end = f"{end}\n--- stderr ---\n{errors.decode(errors='replace')[-4000:]}"
    return Tour({report["feature"]: report for report in reports}, end)


@pytest.fixture(scope="module")
def tours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tour]:
    """One tour over each transport, all at once and against one broker: most of their time is spent waiting."""
    node = require_node_sdk()
    folder = tmp_path_factory.mktemp("node-sdk")
    (folder / "keys.json").write_text(json.dumps(KeyRing(list(RULES)).to_dict()), encoding="utf-8")
    with Broker(folder, arguments=()) as broker, ThreadPoolExecutor(len(TRANSPORTS)) as threads:
        return dict(
            zip(TRANSPORTS, threads.map(lambda transport: _tour(node, broker, transport), TRANSPORTS), strict=True)
        )


@mission("M1", "M2", "M3", "M6", "M17", "M34")
@pytest.mark.timeout(TOUR_LIMIT_S + 60)
@pytest.mark.parametrize("feature", FEATURES_OF_QUEUES)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_javascript_sdk_finds_that(transport: str, feature: str, tours: dict[str, Tour]) -> None:
    tours[transport].judge(feature)


@mission("M7", "M8", "M17", "M34")
@pytest.mark.timeout(TOUR_LIMIT_S + 60)
@pytest.mark.parametrize("feature", FEATURES_OF_TOPICS)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_javascript_sdk_finds_of_topics_and_rules_that(
    transport: str, feature: str, tours: dict[str, Tour]
) -> None:
    tours[transport].judge(feature)


@pytest.mark.timeout(TOUR_LIMIT_S + 60)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_the_tour_ends_without_a_surprise(transport: str, tours: dict[str, Tour]) -> None:
    assert set(tours[transport].reports) == set(FEATURES)
    assert tours[transport].end.startswith("it ended with exit code 0"), tours[transport].end
