"""What drives the brokers and SDKs of others is found in a clone, and missed in words elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.bench.measuring import contender, peers
from tandem.bench.measuring.contender import PEER_TYPES, started_contenders


@pytest.mark.parametrize("name", ["azure_eventhub_loop", "azure_servicebus", "kafka", "kafka_load", "rabbitmq"])
def test_what_drives_the_others_is_found_in_a_clone(name: str) -> None:
    assert peers.peer_program(name).is_file()
    assert peers.peer_module(name).__name__ == f"bench.peers.{name}"


def test_without_a_clone_a_comparison_says_where_to_run_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "checkout", lambda: tmp_path)
    with pytest.raises(peers.BenchmarkFailed, match=r"bench/peers/kafka\.py is not installed.*from a clone"):
        peers.peer_module("kafka")
    said: list[str] = []
    with started_contenders(PEER_TYPES, ("orders",), said.append) as found:
        assert [one.name for one in found] == [contender.TANDEM]
    assert said == [f"There are no ratios to RabbitMQ: {peers.FROM_A_CLONE}."]
