"""Which part a trouble restarts, and the thread that notices a blocked event loop."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.server.health.diagnosis import FOLDER_NAME, newest_diagnosis, stacks, write_diagnosis
from tandem.server.health.ladder import LEVELS, MAX_SALVAGES, Ladder, Level, Trouble
from tandem.server.health.watchdog import Watchdog
from tests.markers import mission
from tests.patience import PATIENCE_S

SIZES = {Level.NOTHING: 0, Level.ENTITY: 1, Level.HOST: 2, Level.PROCESS: 3}
LASTS = (Level.NOTHING, Level.ENTITY, Level.HOST)


@pytest.mark.parametrize("trouble, last", list(itertools.product(Trouble, LASTS)))
def test_every_trouble_has_an_answer_after_every_restart(trouble: Trouble, last: Level) -> None:
    level = LEVELS[trouble, last]
    if level is not Level.NOTHING and trouble is not Trouble.STORE_DAMAGED:
        assert SIZES[level] > SIZES[last], "what did not help is not tried again"
    if trouble in {Trouble.ENTITY_FAILED, Trouble.HUB_FAILED}:
        assert level is not Level.PROCESS, "a new process would read the same disk with the same code"


@mission("M15", "M38")
def test_an_entity_that_fails_is_restarted_then_its_host_and_then_it_is_left_alone() -> None:
    ladder = Ladder(300.0)
    seen = []
    for now_s in (0.0, 10.0, 20.0):
        level = ladder.level(Trouble.ENTITY_FAILED, "sales", "Orders", now_s)
        seen.append(level)
        ladder.record(level, "sales", "orders", now_s)
    assert seen == [Level.ENTITY, Level.HOST, Level.NOTHING]
    assert ladder.level(Trouble.ENTITY_FAILED, "sales", "orders", 310.0) is Level.ENTITY


@mission("M15", "M38")
def test_another_entity_or_namespace_begins_with_the_smallest_part() -> None:
    ladder = Ladder(300.0)
    ladder.record(Level.ENTITY, "sales", "orders", 0.0)
    assert ladder.level(Trouble.ENTITY_FAILED, "sales", "other", 1.0) is Level.ENTITY
    ladder.record(Level.HOST, "sales", "", 1.0)
    assert ladder.level(Trouble.ENTITY_FAILED, "support", "orders", 2.0) is Level.ENTITY
    assert ladder.level(Trouble.ENGINE_FAILED, "support", "", 2.0) is Level.HOST
    assert ladder.level(Trouble.ENGINE_FAILED, "sales", "", 2.0) is Level.PROCESS


def test_a_damaged_store_is_salvaged_again_but_not_for_ever() -> None:
    ladder = Ladder(300.0)
    ladder.record(Level.HOST, "sales", "", 0.0)
    assert ladder.level(Trouble.STORE_DAMAGED, "sales", "", 1.0) is Level.HOST
    assert [ladder.is_salvaged_too_often("sales", float(now_s)) for now_s in range(MAX_SALVAGES + 1)] == [
        *[False] * MAX_SALVAGES,
        True,
    ]
    assert not ladder.is_salvaged_too_often("support", 5.0)
    assert not ladder.is_salvaged_too_often("sales", 400.0)


# --- the watchdog ---------------------------------------------------------------------------------------------------


class Watched:
    """A watchdog over a counter, and what it has called."""

    def __init__(self, beat_count: Callable[[], int]) -> None:
        self.is_stalled = threading.Event()
        self.is_lost = threading.Event()
        self.watchdog = Watchdog(beat_count, 0.05, 0.05, self.is_stalled.set, self.is_lost.set)
        self.watchdog.start()


@mission("M38")
def test_a_counter_that_stands_still_is_noticed_first_and_given_up_later() -> None:
    watched = Watched(lambda: 1)
    assert watched.is_stalled.wait(PATIENCE_S)
    assert watched.is_lost.wait(PATIENCE_S)
    watched.watchdog.stop()


def test_a_counter_that_goes_on_is_left_alone() -> None:
    looks = itertools.count()
    has_looked = threading.Event()

    def count() -> int:
        look = next(looks)
        if look > 20:
            has_looked.set()
        return look

    watched = Watched(count)
    assert has_looked.wait(PATIENCE_S)
    watched.watchdog.stop()
    assert not watched.is_stalled.is_set()


# --- diagnoses ------------------------------------------------------------------------------------------------------


def diagnosis(number: int) -> dict[str, object]:
    return {
        "time": "2026-11-18T00:00:00Z",
        "reason": "overload",
        "summary": f"number {number}",
        "level": "nothing",
        "facets": [{"sentence": "commit time is 7,000 ms"}],
        "event_loop": {"last_beat_ms": 1, "connection_count": 2},
        "namespaces": [
            {
                "name": "sales",
                "commit_in_progress_ms": 7_000,
                "commit_count": 5,
                "errors": ["the store could not be read"],
                "damages": [{"unit": "hub 'h' partition 0, event 7", "what": "it is missing", "lost": "1 events"}],
                "loads": [{"entity": "orders", "rate": 12.0}],
                "refused": ["orders"],
                "refused_count": 3,
            }
        ],
        "restarts": [{"time": "then", "level": "host", "subject": "sales", "reason": "a commit"}],
        "threads": stacks(),
        "history": [{"time": "then", "event-loop-lag": 1.0, "commit-time": 2.0, "memory": 3.0, "disk-headroom": 4.0}],
    }


def test_a_diagnosis_is_a_text_and_json_and_the_newest_twenty_are_kept(tmp_path: Path) -> None:
    text_path = [write_diagnosis(tmp_path, diagnosis(number)) for number in range(25)][-1]
    text = text_path.read_text()
    assert "number 24" in text
    assert "commit in progress: for 7,000 ms" in text
    assert "orders 12.0" in text
    assert "error: the store could not be read" in text
    assert "damaged: hub 'h' partition 0, event 7: it is missing" in text
    assert "test_ladder.py" in text, "the stack of this very thread"
    last = newest_diagnosis(tmp_path)
    assert last is not None
    assert (last["summary"], last["text_path"]) == ("number 24", str(text_path))
    assert len(list((tmp_path / FOLDER_NAME).iterdir())) == 40


def test_a_folder_without_a_whole_diagnosis_has_none(tmp_path: Path) -> None:
    assert newest_diagnosis(tmp_path) is None
    (tmp_path / FOLDER_NAME).mkdir()
    (tmp_path / FOLDER_NAME / "broken.json").write_text("{")
    assert newest_diagnosis(tmp_path) is None
