"""Every input that was ever worth keeping, and some that nobody has seen yet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tandem.amqp.connection import AMQP_HEADER
from tandem.amqp.hot_paths import frame
from tandem.amqp.performatives import Attach, Begin, Close, Detach, Flow, Open, Performative, Transfer
from tests.fuzz import run, worker
from tests.fuzz.mutate import Mutator
from tests.fuzz.promises import BrokenPromise, Written
from tests.fuzz.targets import MAX_INPUT_BYTES, TARGETS
from tests.fuzz.worker import Run, corpus_of
from tests.markers import mission

# About two seconds each.
INPUTS: Final = {
    "decoder": 4_000,
    "message": 4_000,
    "before-open": 2_000,
    "after-open": 700,
    "frames": 1_000,
    "rules": 1_500,
    "atom": 1_500,
}

FILES: Final = [(target, path) for target in TARGETS for path in corpus_of(target)]


@mission("M37")
@pytest.mark.parametrize("target, path", FILES, ids=[f"{target}-{path.name}" for target, path in FILES])
def test_an_input_of_the_corpus_breaks_no_promise(target: str, path: Path) -> None:
    TARGETS[target](path.read_bytes())


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", TARGETS)
def test_inputs_made_from_the_corpus_break_no_promise(target: str) -> None:
    corpus = [path.read_bytes() for path in corpus_of(target)]
    assert corpus
    mutator = Mutator(corpus, 1, MAX_INPUT_BYTES[target])
    for _ in range(INPUTS[target]):
        data = mutator.next()
        try:
            TARGETS[target](data)
        except Exception as error:
            raise AssertionError(f"put this into tests/fuzz/corpus/{target}: bytes.fromhex('{data.hex()}')") from error


def test_the_same_seed_makes_the_same_inputs() -> None:
    first, again, other = [Mutator([b"abc", b"defghi"], seed, 100) for seed in (5, 5, 6)]
    inputs = [first.next() for _ in range(200)]
    assert inputs == [again.next() for _ in range(200)]
    assert inputs != [other.next() for _ in range(200)]
    assert max(map(len, inputs)) <= 100


def test_the_runner_knows_every_target() -> None:
    assert tuple(TARGETS) == run.NAMES == tuple(MAX_INPUT_BYTES)


def test_a_run_reports_its_inputs_and_escapes_per_target() -> None:
    command = [sys.executable, "-m", "tests.fuzz.run", "--inputs", "120", "--target", "decoder", "--engine", "random"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "decoder: 120 inputs, 0 escapes, peak +" in output


def test_an_input_that_a_target_cannot_stand_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(data: bytes) -> None:
        raise BrokenPromise("always")

    monkeypatch.setattr(worker, "FINDINGS", tmp_path / "findings")
    with pytest.raises(BrokenPromise):
        Run("decoder", broken, 10)(b"input")
    (kept,) = (tmp_path / "findings").iterdir()
    assert kept.read_bytes() == b"input"
    assert f"finding {kept}" in capsys.readouterr().out


def written(*performatives: Performative) -> None:
    Written().read(AMQP_HEADER + b"".join([frame(0, performative.encode()) for performative in performatives]), 512, 9)


OPENING: Final = (Open("c"), Begin(None, 0, 1, 1), Attach("link", 0, False))


@pytest.mark.parametrize(
    "performatives, complaint",
    [
        ((Begin(None, 0, 1, 1),), "before the open"),
        ((Open("c"), Open("c")), "second open"),
        ((Open("c"), Close(), Close()), "behind the close"),
        ((Open("c"), Flow(0, 1, 0, 1)), "not mapped"),
        ((Open("c"), Begin(None, 0, 1, 1), Begin(None, 0, 1, 1)), "second begin"),
        ((*OPENING, Attach("other", 0, False)), "handle in use"),
        ((*OPENING, Flow(0, 1, 0, 1, 5)), "not attached"),
        ((*OPENING, Detach(0, True), Transfer(0, 0, b"")), "not attached"),
        ((*OPENING, Transfer(0, 1, b"")), "gap"),
        ((*OPENING, Transfer(0, 0, b"", more=True), Transfer(0, 1, b"")), "within"),
        ((*OPENING, Transfer(0, 0, b"t" * 33)), "delivery-tag"),
        ((Open("c" * 600),), "limit is 512"),
    ],
)
def test_what_is_written_is_judged_as_strictly_as_a_peer_would(
    performatives: tuple[Performative, ...], complaint: str
) -> None:
    written(*OPENING, Transfer(0, 0, b"", more=True), Transfer(0, 0, b""), Detach(0, True), Close())
    with pytest.raises(BrokenPromise, match=complaint):
        written(*performatives)
