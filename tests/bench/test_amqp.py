"""The benchmark runs, and its figures are figures. What they are is not a test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TANDEM = Path(sys.executable).parent / "tandem"


def tandem(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TANDEM, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("mode", ["send", "both"])
def test_our_own_load_generator_moves_every_message(mode: str) -> None:
    relay = subprocess.Popen(
        [sys.executable, "-m", "tandem.bench.amqp.relay_server"], stdout=subprocess.PIPE, text=True
    )
    with relay:
        assert relay.stdout is not None
        url = f"amqp://127.0.0.1:{relay.stdout.readline().split()[1]}"
        command = [sys.executable, "-m", "tandem.bench.load.generator", mode, url, "queue", "3000", "100", "1", "50"]
        load = subprocess.run(command, capture_output=True, text=True, check=True)
        relay.terminate()
    figures = json.loads(load.stdout)
    assert (figures["mode"], figures["count"]) == (mode, 3000)
    assert figures["messages_per_second"] > 0
    assert relay.returncode == 0


def test_bench_amqp_prints_and_saves_a_rate_for_every_contender(tmp_path: Path) -> None:
    run = tandem("bench", "amqp", "--messages", "500", "--rounds", "1", "--json", folder=tmp_path)
    assert run.returncode == 0, run.stderr
    figures = json.loads(run.stdout)
    assert "tandem interpreted" in figures["codec_frames_per_second"]
    for rates in figures["relay_messages_per_second"].values():
        assert set(rates) == {"send", "recv", "both"}
        assert all(rate > 0 for mode_rates in rates.values() for rate in mode_rates)
    assert json.loads((tmp_path / "build/bench/amqp.json").read_text()) == figures


def test_a_load_generator_that_fails_is_one_clear_line(tmp_path: Path) -> None:
    run = tandem("bench", "amqp", "--messages", "10", "--rounds", "1", "--load-generator", "false", folder=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith("tandem: the load generator failed: false send amqp://127.0.0.1:")
    assert "Traceback" not in run.stderr


def test_the_version_says_which_form_runs(tmp_path: Path) -> None:
    run = tandem("--version", folder=tmp_path)
    assert run.stdout.startswith("tandem 0.1.0 (")
