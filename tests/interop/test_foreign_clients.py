"""Clients that nobody here wrote, Qpid Proton and rhea, against our server driver and the in-memory relay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.interop.peers.available import require_proton_client, require_rhea_client
from tests.interop.peers.features import BROKER_FEATURES, FEATURES, FeatureResult, run_client
from tests.interop.relay_thread import PASSWORD, RelayThread
from tests.markers import spec

RELAY_FEATURES = [feature for feature in FEATURES if feature not in BROKER_FEATURES]


def _results(command: Sequence[str | Path]) -> dict[str, FeatureResult]:
    with RelayThread() as relay:
        return run_client(
            command, host="127.0.0.1", port=relay.port, address="interop", features=RELAY_FEATURES, password=PASSWORD
        )


@pytest.fixture(scope="module")
def proton_results() -> dict[str, FeatureResult]:
    """One run of the client for all features: each feature is then a test of its own."""
    return _results(require_proton_client())


@pytest.fixture(scope="module")
def rhea_results() -> dict[str, FeatureResult]:
    return _results(require_rhea_client())


def _judge(result: FeatureResult) -> None:
    if result.outcome == "unsupported":
        pytest.skip(f"the client's own library cannot do it: {result.detail}")
    assert result.outcome == "passed", result.detail


@spec("amqp:2", "amqp:3", "amqp:4", "amqp:5")
@pytest.mark.parametrize("feature", RELAY_FEATURES)
def test_qpid_proton_finds_that(feature: str, proton_results: dict[str, FeatureResult]) -> None:
    _judge(proton_results[feature])


@spec("amqp:2", "amqp:3", "amqp:4", "amqp:5")
@pytest.mark.parametrize("feature", RELAY_FEATURES)
def test_rhea_finds_that(feature: str, rhea_results: dict[str, FeatureResult]) -> None:
    _judge(rhea_results[feature])
