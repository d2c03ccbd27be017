"""What the pages say about pairs is so: examples run, and the picture of the states is that of the table."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from tandem.pairing.failover import TRANSITIONS
from tandem.pairing.rewriting import PATH, SCHEDULED_ENQUEUE_TIME, SESSION_ID, TIME_TO_LIVE
from tandem.testing import Broker
from tests.client.test_documentation import BLOCK, run_block
from tests.example_programs import load_example
from tests.markers import mission

ROOT = Path(__file__).resolve().parents[2]
ARROW = re.compile(r"^    (\w+) --> (\w+): (.+)$", re.MULTILINE)


@mission("M19")
async def test_every_example_of_the_how_to_runs(primary: Broker, secondary: Broker) -> None:
    primary.create_queue("orders")
    names: dict[str, object] = {
        "primary_connection_string": primary.connection_string,
        "secondary_connection_string": secondary.connection_string,
    }
    blocks = BLOCK.findall((ROOT / "docs/howto/pair-namespaces.md").read_text(encoding="utf-8"))
    assert len(blocks) == 2
    for source, expected in blocks:
        assert await run_block(source, names) == expected
    assert primary.queue("orders")["active_message_count"] == 2


def test_the_picture_of_the_states_has_the_arrows_of_the_table() -> None:
    page = (ROOT / "docs/explain/paired-namespaces.md").read_text(encoding="utf-8")
    drawn = set(ARROW.findall(page))
    expected = {
        (state.name, target.name, happened.value)
        for (state, happened), (target, _) in TRANSITIONS.items()
        if target is not state
    }
    assert drawn == expected


def test_the_reference_names_every_property() -> None:
    page = (ROOT / "docs/reference/pairing.md").read_text(encoding="utf-8")
    for name in (PATH, SESSION_ID, TIME_TO_LIVE, SCHEDULED_ENQUEUE_TIME):
        assert f"| `{name}` |" in page


@mission("M16")
async def test_the_example_of_a_sender_that_goes_on_runs(mortal: Broker, secondary: Broker) -> None:
    example = load_example("paired_sender")
    mortal.create_queue(example.ORDERS)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        await example.run(mortal, secondary)
    assert "failed-over: orders\n" in printed.getvalue().replace(" \n", "\n")
    assert "received: order 1, order 2, order 3\n" in printed.getvalue()
