"""The page on checkpoints is a program that runs."""

from __future__ import annotations

import uuid
from pathlib import Path

from tests.compat.hubs import Hub
from tests.compat.sdk import Bus
from tests.documentation import DOCS, follow
from tests.markers import mission


@mission("M10")
def test_the_code_of_the_page_on_checkpoints_runs(bus: Bus, tmp_path: Path) -> None:
    name = f"telemetry-{uuid.uuid4().hex[:8]}"
    bus.broker.create_hub(name, partition_count=4)
    Hub(bus, name).send("21.5", partition_id="0")
    replacements = {
        "pip install 'tandem-bus[azure]'\ntandem hub create telemetry --partitions 4\n": "true\n",
        'eventhub_name="telemetry"': f'eventhub_name="{name}", load_balancing_interval=0.3',
        "checkpoints telemetry": f"checkpoints {name}",
    }
    names = {"connection_string": bus.broker.connection_string}
    environment = {"TANDEM_CONNECTION_STRING": bus.broker.connection_string}
    count = follow(
        DOCS / "howto" / "checkpoints.md", tmp_path, replacements, environment, names=names, skipped={"console", "js"}
    )
    assert count == 4
