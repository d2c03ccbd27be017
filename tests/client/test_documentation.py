"""The reference of the client is a program that runs: every example, in the order of the page, prints what it says."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import subprocess
import sys
import types
from pathlib import Path

from tandem.testing import Broker
from tests.client.network import HOST, KEY
from tests.markers import mission

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "client.md"
# Seconds. The tour takes two; a slow machine, which it shares with others, has this long.
TOUR_LIMIT_S = 250.0
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


async def run_block(source: str, names: dict[str, object]) -> str:
    """Run a block that may await outside of functions, and return what it prints."""
    code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        running = types.FunctionType(code, names)()
        if inspect.isawaitable(running):
            await running
    return printed.getvalue()


@mission("M4", "M5", "M6", "M7", "M8", "M9", "M10")
async def test_every_example_of_the_reference_prints_what_it_says(tmp_path: Path) -> None:
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) > 15
    with Broker(tmp_path) as broker:
        names: dict[str, object] = {
            "connection_string": broker.connection_string,
            "address": f"amqp://{HOST}:{broker.port}",
            "key": KEY,
            "directory": tmp_path / "checkpoints",
        }
        for source, expected in blocks:
            assert await run_block(source, names) == expected, source


def test_the_tour_runs_against_a_broker_and_leaves_nothing_behind(broker: Broker) -> None:
    tour = PAGE.parents[2] / "examples" / "client_tour.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(tour), "--connection-string", broker.connection_string],
        capture_output=True,
        text=True,
        timeout=TOUR_LIMIT_S,
        check=False,
    )
    assert done.stderr == ""
    assert "sent and completed 500 messages" in done.stdout
    assert "Dashboard: [b'an issue of Store1']" in done.stdout
    assert not [queue for queue in broker.queues() if queue["name"].startswith("tour-")]
