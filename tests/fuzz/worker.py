"""One target with one engine in a process of its own: atheris never returns, and memory is measured per target.

    python -m tests.fuzz.worker TARGET ENGINE INPUTS SEED

Lines on standard output tell `run.py` how far it is: `inputs COUNT PEAK_GROWTH_KB`, `finding PATH`. The engine's own
talk and the traceback of a finding go to standard error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from tests.fuzz.mutate import TOKENS, Mutator

__all__ = ["CORPUS", "FINDINGS", "WORK", "corpus_of"]

HERE: Final = Path(__file__).resolve().parent
# What is committed and replayed by every `make test`; what a run found; what coverage-guided runs gather on the way.
CORPUS: Final = HERE / "corpus"
FINDINGS: Final = HERE / "findings"
WORK: Final = HERE.parent.parent / "build" / "fuzz"

REPORT_EVERY_INPUTS: Final = 500
# Seconds. No input of these sizes takes a thousandth of it: whoever gets here is in an endless or quadratic loop.
HANG_S: Final = 20


class HangError(Exception):
    """One input took too long."""


def corpus_of(target: str) -> list[Path]:
    """The committed inputs of a target, findings included, in an order that does not depend on the file system."""
    return sorted([*(CORPUS / target).glob("*"), *FINDINGS.glob(f"{target}-*")])


def resident_kb(line: str) -> int:
    """`VmRSS` is what the process holds now, `VmHWM` the most it ever held. Other systems only know the latter."""
    with contextlib.suppress(OSError):
        for row in Path("/proc/self/status").read_text().splitlines():
            if row.startswith(line):
                return int(row.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


class Run:
    """Counts what a target is given, and keeps the first input that it cannot stand."""

    def __init__(self, target: str, function: Callable[[bytes], None], inputs: int) -> None:
        self.target = target
        self.function = function
        self.inputs = inputs
        self.count = 0
        self.start_kb = 0

    def __call__(self, data: bytes) -> None:
        if self.count == 0:
            self.start_kb = resident_kb("VmRSS")
        self.count += 1
        try:
            self.function(data)
        except Exception:
            self._keep(data)
            raise
        if self.count % REPORT_EVERY_INPUTS == 0 or self.count == self.inputs:
            self.report()

    def report(self) -> None:
        print("inputs", self.count, max(0, resident_kb("VmHWM") - self.start_kb), flush=True)

    def _keep(self, data: bytes) -> None:
        FINDINGS.mkdir(exist_ok=True)
        path = FINDINGS / f"{self.target}-{hashlib.sha256(data).hexdigest()[:12]}"
        path.write_bytes(data)
        self.report()
        print("finding", path, flush=True)
        traceback.print_exc()


def run_random(run: Run, seed: int, max_bytes: int) -> None:
    corpus = [path.read_bytes() for path in corpus_of(run.target)]
    mutator = Mutator(corpus, seed, max_bytes)
    signal.signal(signal.SIGALRM, _on_alarm)
    for data in corpus[: run.inputs]:
        run(data)
    while run.count < run.inputs:
        signal.alarm(HANG_S)
        run(mutator.next())


def _on_alarm(number: int, frame: FrameType | None) -> None:
    raise HangError(f"one input took more than {HANG_S} s")


def run_atheris(run: Run, seed: int, max_bytes: int) -> None:
    """Does not return: libFuzzer ends the process when it has run all inputs or one of them failed."""
    import atheris

    work = WORK / run.target
    work.mkdir(parents=True, exist_ok=True)
    with _dictionary() as dictionary, _seeds(run.target) as seeds:
        arguments = [
            sys.argv[0],
            f"-runs={run.inputs}",
            f"-seed={seed or 1}",
            f"-max_len={max_bytes}",
            # Long inputs from the start: a program of ten bytes does nothing.
            "-len_control=0",
            f"-timeout={HANG_S}",
            f"-dict={dictionary}",
            # For what only libFuzzer sees, time-outs and lack of memory: its log names the file.
            f"-artifact_prefix={work}-",
            str(work),
            str(seeds),
        ]
        atheris.Setup(arguments, run)
        atheris.Fuzz()


@contextlib.contextmanager
def _dictionary() -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".dict") as file:
        for token in TOKENS:
            file.write('"' + "".join([f"\\x{octet:02x}" for octet in token]) + '"\n')
        file.flush()
        yield file.name


@contextlib.contextmanager
def _seeds(target: str) -> Iterator[Path]:
    """The committed corpus and findings in one folder, which is what libFuzzer reads."""
    with tempfile.TemporaryDirectory() as folder:
        for path in corpus_of(target):
            (Path(folder) / path.name).write_bytes(path.read_bytes())
        yield Path(folder)


def main() -> None:
    target, engine, inputs, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    # A compiled core gives a coverage-guided engine nothing to see. Importing the package puts Tandem's own finder in
    # place, which has to be there before that of atheris, which asks those behind it.
    os.environ["TANDEM_PURE"] = "1"
    import tandem  # noqa: F401

    instrumented: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if engine == "atheris":
        import atheris

        instrumented = atheris.instrument_imports(include=["tandem"])
    with instrumented:
        from tests.fuzz.targets import MAX_INPUT_BYTES, TARGETS

    run = Run(target, TARGETS[target], inputs)
    engines = {"random": run_random, "atheris": run_atheris}
    engines[engine](run, seed, MAX_INPUT_BYTES[target])


if __name__ == "__main__":
    main()
