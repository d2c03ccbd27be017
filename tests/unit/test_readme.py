"""The examples of the README are programs that run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.testing import Broker

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_the_readme_has_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("number", range(3))
def test_an_example_of_the_readme_runs(number: int) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", EXAMPLES[number]], capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
    assert run.returncode == 0


def test_the_example_for_the_official_sdk_relays_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(EXAMPLES[0], names)
    relay = names["relay"]
    assert callable(relay)
    with Broker(tmp_path) as broker:
        broker.create_queue("orders")
        relay(broker.connection_string)
    assert capsys.readouterr().out == "a table, four chairs\n"


def test_the_first_example_of_the_library_is_a_server_that_our_client_can_send_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from tandem.amqp import ACCEPTED, Connection, DispositionReceived, Event, Role, Settings, Target

    names: dict[str, object] = {}
    exec(EXAMPLES[1], names)
    on_data = names["on_data"]
    assert callable(on_data)
    client = Connection(Role.CLIENT, Settings("client"))
    client.open()

    def exchange() -> list[Event]:
        events: list[Event] = []
        while data := client.data_to_send():
            events += client.receive(on_data(data))
        return events

    exchange()
    session = client.begin()
    exchange()
    link = session.attach_sender("link", Target("queue"))
    exchange()
    link.send(b"\x00\x53\x75\xa0\x02hi")
    (event,) = exchange()
    assert isinstance(event, DispositionReceived)
    assert event.state is ACCEPTED
    assert capsys.readouterr().out == "7 bytes\n"
