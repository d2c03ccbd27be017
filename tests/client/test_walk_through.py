"""The walk through the source documents: every example on its pages runs against brokers and prints what it says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tandem.testing import Broker
from tests.documentation import DOCS, follow
from tests.markers import mission

# A receive always asks the broker before it returns `None`, so that an empty queue needs no wait.
_NO_WAIT = {"timedelta(seconds=5)": "timedelta(0)"}


@pytest.fixture
def dev_broker(tmp_path: Path) -> Broker:
    """A broker of its own: pages list all entities of a namespace."""
    return Broker(tmp_path / "broker")


@mission("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10")
def test_the_examples_of_queues_topics_filters_and_event_hubs_run(dev_broker: Broker, tmp_path: Path) -> None:
    with dev_broker as broker:
        replacements = {"localhost:5672": f"127.0.0.1:{broker.port}", "tandem serve --dev &": "true", **_NO_WAIT}
        assert follow(DOCS / "start/service-bus-examples.md", tmp_path, replacements) > 10
        assert broker.queues() == []


@mission("M17", "M18", "M19", "M20", "M21", "M24", "M26", "M28")
def test_the_examples_of_errors_and_paired_namespaces_run(tmp_path: Path) -> None:
    assert follow(DOCS / "start/availability-examples.md", tmp_path, {}) > 8


@mission("M7", "M8")
def test_the_examples_of_the_page_on_filters_run(dev_broker: Broker, tmp_path: Path) -> None:
    with dev_broker as broker:
        replacements = {"localhost:5672": f"127.0.0.1:{broker.port}", "receive(timeout=1)": "receive(timeout=0)"}
        assert follow(DOCS / "howto/filter-messages.md", tmp_path, replacements) > 10


@mission("M1", "M3", "M5")
def test_the_queue_tutorial_runs(dev_broker: Broker, tmp_path: Path) -> None:
    with dev_broker as broker:
        replacements = {
            "localhost:5672": f"127.0.0.1:{broker.port}",
            "tandem serve --dev &": "true",
            "receive(timeout=5)": "receive(timeout=0)",
        }
        environment = {"TANDEM_CONNECTION_STRING": broker.connection_string}
        assert follow(DOCS / "start/queue-tutorial.md", tmp_path, replacements, environment) > 8
        assert broker.queues() == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="the tutorial sends its requests with curl")
@mission("M2", "M3", "M4")
def test_the_rest_tutorial_runs(dev_broker: Broker, tmp_path: Path) -> None:
    with dev_broker as broker:
        replacements = {"localhost:5300": f"localhost:{broker.http_port}", "tandem serve --dev &": "true"}
        assert follow(DOCS / "start/rest-tutorial.md", tmp_path, replacements) > 12
        assert broker.queues() == []
