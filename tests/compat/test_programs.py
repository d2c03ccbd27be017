"""The official SDKs of Java and Go, unchanged, against a running broker: Service Bus, Event Hubs and administration.

The programs that use them are in tests/compat/java and tests/compat/go. `make test` runs a short form of each; `make
test-sdks` runs every feature over every transport. A language whose program is missing is skipped with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tandem.testing import Broker
from tests.compat.programs import LIMIT_S, Program, Step, Tour, run, steps
from tests.interop.peers.available import require_go_sdk, require_java_sdk
from tests.markers import mission
from tools.sdk_features import FEATURES, NOT_IN_SDK

PROGRAMS: Final[dict[str, Callable[[], list[str | Path]]]] = {"java": require_java_sdk, "go": require_go_sdk}


def _cases(language: str) -> list[object]:
    return [pytest.param(language, step, id=f"{language}-{'-'.join(step)}") for step in steps(language)]


class Tours:
    """One run of each program, all of them side by side: most of their time is spent waiting."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pool = ThreadPoolExecutor(len(PROGRAMS))
        self._tours: dict[str, Future[Tour]] = {}

    def start(self, language: str) -> None:
        self._tours[language] = self._pool.submit(run, Program(language, PROGRAMS[language]()), self._broker)

    def of(self, language: str) -> Tour:
        if language not in self._tours:
            self.start(language)
        return self._tours[language].result()

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture(scope="module")
def tours(broker: Broker) -> Iterator[Tours]:
    tours = Tours(broker)
    for language in PROGRAMS:
        try:
            tours.start(language)
        except pytest.skip.Exception:
            # Each test of this language asks again, and is skipped with the reason.
            continue
    yield tours
    tours.close()


@mission("M1", "M2", "M3", "M4", "M6", "M7", "M8", "M10", "M17", "M34")
@pytest.mark.timeout(LIMIT_S + 120)
@pytest.mark.parametrize("language, step", [case for language in PROGRAMS for case in _cases(language)])
def test_the_official_sdk_finds_that(language: str, step: Step, tours: Tours) -> None:
    tours.of(language).judge(step)


@pytest.mark.timeout(LIMIT_S + 120)
@pytest.mark.parametrize("language", PROGRAMS)
def test_the_program_follows_its_whole_plan(language: str, tours: Tours) -> None:
    tour = tours.of(language)
    assert set(tour.reports) == set(steps(language)), tour.end
    assert tour.end.startswith("it ended with exit code 0"), tour.end


@pytest.mark.parametrize("language", PROGRAMS)
def test_what_an_sdk_does_not_have_is_a_feature_of_others(language: str) -> None:
    for group, missing in NOT_IN_SDK[language].items():
        assert missing.keys() <= FEATURES[group].keys()
