"""The short form of the sweep `python -m tests.store.log.damage`: single faults in every kind of file of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.markers import mission
from tests.store.log.content import make_variants
from tests.store.log.damage import LogSweep


@mission("M10")
def test_every_single_fault_is_harmless_or_reported_and_costs_only_what_it_hits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL")
    sweep = LogSweep(make_variants(tmp_path), 18, tmp_path)
    sweep.run(10)
    report = sweep.report()
    assert report["broken"] == []
    assert report["faults"] >= 60
    assert report["outcomes"]["reported, events lost"] > 20
