"""`python -m tests.store.damage --faults 2000 --seed 1`: single faults in the files of a data directory.

Each fault is injected into a copy of a data directory with all kinds of content, left by a broker that was killed or
stopped in order. Then `tandem check` reads it, and the store is opened and read from end to end, as a broker does. A
fault is harmless if everything is there, and otherwise it must be reported by both. The report is one JSON object; the
exit code is 1 if wrong bytes were served, something undamaged was lost, something was lost silently, or the store could
not be opened although something could be served.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import apsw

from tandem.auth.keys import KeyRing
from tandem.engine.effects import Effects
from tandem.engine.message import DEFERRED, SEQUENCE_BITS, BrokeredMessage
from tandem.engine.stored_description import description_of
from tandem.errors import ConfigurationError, StoreDamaged, StoreError
from tandem.server.keys import find_damaged_keys, load_or_make_keys, protect_keys
from tandem.server.tls import ensure_certificates, find_damaged_authority
from tandem.store.base import QueueRecord
from tandem.store.check import check
from tandem.store.checksums import checksum_vfs
from tandem.store.commit_record import COMMITS_NAME
from tandem.store.opening import DATABASE_NAME
from tandem.store.quarantine import read_reports
from tandem.store.rebuild import stream_name
from tandem.store.scrub import find_damaged_page
from tandem.store.sqlite import SqliteStore
from tests.store.drive import (
    committed,
    message,
    messages,
    moved,
    published,
    put_queue,
    put_topic,
    removed,
    scheduled,
    seen,
    sent,
    session_state,
    set_state,
    state_of,
    stored,
)
from tests.store.faults import Fault, draw_fault
from tests.store.layout import LOG_NAME, Layout, Unit, find_layout

__all__ = ["FILES", "Sweep", "Variant", "make_variants"]

SHARED_MEMORY_NAME: Final = f"{DATABASE_NAME}-shm"

# Queues: plain, with sessions, with duplicate detection; then a topic with three subscriptions.
PLAIN, SESSIONS, UNIQUE, TOPIC = 4, 8, 12, 16
SUBSCRIPTIONS: Final = (20, 24, 28)
STREAMS: Final = (PLAIN, PLAIN + 1, SESSIONS, UNIQUE, *SUBSCRIPTIONS)

# How often the store is opened again after damage was found while it was read, as the host of a namespace is.
MAX_RESTARTS: Final = 3

FILES: Final = (
    *(DATABASE_NAME, LOG_NAME, SHARED_MEMORY_NAME, COMMITS_NAME),
    *("keys.json", "keys.json.copy", "tls/ca.pem", "tls/ca-key.pem"),
)

Seen = tuple[object, ...]


@dataclass
class Content:
    """Everything that a store serves."""

    messages: dict[int, Seen] = field(default_factory=dict)
    states: dict[str, bytes | None] = field(default_factory=dict)
    # Descriptions of entities and of rules, settings, and ids of duplicate detection.
    others: dict[Unit, object] = field(default_factory=dict)
    keys: object = None


@dataclass
class Variant:
    """A data directory, what it holds, and where on disk everything is."""

    name: str
    directory: Path
    content: Content
    # Every version of a message that was ever committed.
    history: dict[int, set[Seen]]
    # Every state that a session ever had.
    earlier_states: dict[str, set[bytes | None]]
    layout: Layout


# --- making the directories -------------------------------------------------------------------------------------


class _Maker:
    """Fills a store step by step, and remembers every version of every message."""

    def __init__(self, directory: Path, chance: random.Random, checkpoint_pages: int) -> None:
        self.directory = directory
        self._random = chance
        self.store = SqliteStore(directory, ballast_bytes=0, checkpoint_pages=checkpoint_pages)
        self.history: dict[int, set[Seen]] = {}
        self.earlier_states: dict[str, set[bytes | None]] = {f"s{number}": set() for number in range(12)}
        self._numbers = Counter[int]()
        self._bodies = 0
        self.alive: dict[int, list[BrokeredMessage]] = {stream: [] for stream in STREAMS}
        self._commit(
            put_queue(1),
            put_queue(2, requires_session=True),
            put_queue(3, requires_duplicate_detection=True),
            put_topic(4, 5, 6, 7),
        )
        self.store.put_setting("made by", "the damage sweep")

    def _commit(self, *batches: Effects) -> None:
        committed(self.store, *batches)
        self.remember()

    def _next(self, stream: int) -> int:
        self._numbers[stream] += 1
        return self._numbers[stream]

    def _bytes(self) -> bytes:
        size = self._random.choice((20, 200, 900, 900, 900, 9_000, 30_000))
        return self._random.choice((self._random.randbytes(size), bytes(size)))

    def fill(self, rounds: int) -> None:
        for number in range(rounds):
            chance = self._random
            plain = [message(self._next(PLAIN), stored=stored(self._bytes())) for _ in range(6)]
            plain.append(scheduled(self._next(PLAIN), 5_000 + number))
            session = [
                message(
                    self._next(SESSIONS), SESSIONS, session_id=f"s{chance.randrange(12)}", stored=stored(self._bytes())
                )
                for _ in range(3)
            ]
            unique = [message(self._next(UNIQUE), UNIQUE, duplicate_keys=[(3, f"id-{number}", 1_000)])]
            self._commit(sent(*plain), sent(*session), sent(*unique))
            self.alive[PLAIN] += plain
            self.alive[SESSIONS] += session
            self.alive[UNIQUE] += unique
            self._publish()
            self._settle()
            state = chance.randbytes(chance.choice((10, 500, 20_000)))
            self._set_state(f"s{chance.randrange(12)}", state)

    def _set_state(self, session_id: str, state: bytes) -> None:
        before = state_of(self.store, session_id, SESSIONS)
        self.earlier_states[session_id].add(before)
        self._commit(session_state(session_id, state, 5, len(state) - len(before or b""), SESSIONS))

    def _publish(self) -> None:
        self._bodies += 1
        shared = stored(self._bytes())
        changed = shared.modified({"RuleName": "r"})
        copies = [
            message(self._next(one), one, stored=changed if one == SUBSCRIPTIONS[2] else shared, size_bytes=0)
            for one in SUBSCRIPTIONS
        ]
        self._commit(published(self._bodies, 4, *copies, bytes_=shared))
        for copy in copies:
            self.alive[copy.stream].append(copy)

    def _settle(self) -> None:
        plain = self.alive[PLAIN]
        if len(plain) > 40:
            chosen = [plain.pop(self._random.randrange(len(plain))) for _ in range(4)]
            self._commit(removed(*chosen[:3]))
            if not chosen[3].due_at_ms:
                dead = chosen[3]
                self._commit(moved(dead, PLAIN + 1, dead.sequence_number, {"DeadLetterReason": "tired"}))
                self.alive[PLAIN + 1].append(dead)
            deferred = plain[self._random.randrange(len(plain))]
            if not deferred.due_at_ms and deferred.state != DEFERRED:
                self._commit(set_state(deferred, DEFERRED, 1, {"why": "later"}))
            copies = self.alive[SUBSCRIPTIONS[0]]
            self._commit(removed(copies.pop(0)))

    def remember(self) -> None:
        for row, version in read_content(self.store).messages.items():
            self.history.setdefault(row, set()).add(version)


def read_content(store: SqliteStore) -> Content:
    """Read everything that a store serves."""
    content = Content()
    recovered = store.recover()
    # The time of the last id follows from the ids, which are compared by themselves.
    content.others |= {("queue", one.number): one._replace(last_id_at_ms=0) for one in recovered.queues}
    content.others |= {("rule", (one.queue_number, one.name)): one for one in recovered.rules}
    content.others["setting", "made by"] = store.setting("made by")
    for stream in STREAMS:
        content.messages.update({one.row: seen(one) for one in messages(store, stream, limit=100_000)})
    content.states = {f"s{number}": state_of(store, f"s{number}", SESSIONS) for number in range(12)}
    connection: apsw.Connection = store._connection
    for queue, key, seen_at_ms in connection.execute("SELECT queue, key, seen_at_ms FROM duplicate"):
        content.others["duplicate", (queue, key)] = seen_at_ms
    return content


def make_variants(folder: Path, seed: int, rounds: int = 40) -> list[Variant]:
    """Make directories as they are left when a broker is stopped, and when it is killed."""
    variants = []
    for name, checkpoint_pages, is_stopped in (
        ("stopped", 200, True),
        ("killed", 200, False),
        ("killed before the first checkpoint", 1_000_000, False),
    ):
        live = folder / f"{name}-live"
        keys = load_or_make_keys(live, is_dev=False)
        protect_keys(live)
        ensure_certificates(live / "tls")
        maker = _Maker(live, random.Random(seed), checkpoint_pages)
        maker.fill(rounds)
        maker.store._wait_for_checkpoint()
        content = read_content(maker.store)
        content.keys = _identity(keys, live)
        if is_stopped:
            maker.store.close()
            shutil.copytree(live, folder / name)
        else:
            shutil.copytree(live, folder / name)
            maker.store.close()
        shutil.rmtree(live)
        layout = find_layout(folder / name)
        variants.append(Variant(name, folder / name, content, maker.history, maker.earlier_states, layout))
    return variants


# --- one fault --------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What came of one fault."""

    variant: str
    fault: Fault
    verdict: str = ""
    # What was broken of the promises.
    broken: list[str] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)
    lost_count: int = 0


class Sweep:
    """Injects faults into copies of the variants, and judges what comes of each."""

    def __init__(self, folder: Path, seed: int, rounds: int = 40) -> None:
        self._random = random.Random(seed)
        self._folder = folder
        self.variants = make_variants(folder, seed, rounds)
        self.outcomes: list[Outcome] = []

    def run(
        self, faults_per_file: int, files: Sequence[str] = FILES, on_progress: Callable[[], None] = lambda: None
    ) -> None:
        for name in files:
            variants = [one for one in self.variants if (one.directory / name).exists()]
            for number in range(faults_per_file):
                variant = variants[number % len(variants)]
                self.try_fault(variant, draw_fault(self._random, variant.directory / name, name))
                if number % 100 == 99:
                    on_progress()

    def try_fault(self, variant: Variant, fault: Fault) -> Outcome:
        directory = self._folder / "damaged"
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(variant.directory, directory)
        fault.inject(directory)
        outcome = Outcome(variant.name, fault)
        self.outcomes.append(outcome)
        try:
            _Trial(variant, fault, directory, outcome).run()
        except Exception as error:
            outcome.broken.append(f"the process would have ended: {error!r}")
        if outcome.broken:
            outcome.verdict = "broken"
        return outcome

    def report(self) -> dict[str, object]:
        """Return the figures, by kind of file."""
        by_file: dict[str, Counter[str]] = {}
        for one in self.outcomes:
            by_file.setdefault(one.fault.file, Counter())[one.verdict] += 1
        return {
            "faults": len(self.outcomes),
            "by_file": {name: dict(counts) for name, counts in by_file.items()},
            "by_kind": dict(Counter(one.fault.kind for one in self.outcomes)),
            "lost_messages": sum(one.lost_count for one in self.outcomes),
            "broken": [
                {"variant": one.variant, "fault": str(one.fault), "broken": one.broken, "reported": one.reported}
                for one in self.outcomes
                if one.broken
            ],
        }


class _Trial:
    """One fault in one directory."""

    def __init__(self, variant: Variant, fault: Fault, directory: Path, outcome: Outcome) -> None:
        self._variant = variant
        self._fault = fault
        self._directory = directory
        self._outcome = outcome

    def run(self) -> None:
        outcome = self._outcome
        findings = self._check_before()
        try:
            content = self._serve()
        except StoreError as error:
            outcome.reported.append(str(error))
            outcome.verdict = "refused"
            if not self._is_everything_gone():
                outcome.broken.append(f"refused to open: {error}")
            if not findings:
                outcome.broken.append("tandem check says sound, the broker refuses to start")
            return
        outcome.reported += [one.sentence for report in read_reports(self._directory) for one in report.damages]
        is_equal = self._compare(content)
        if outcome.reported and not findings:
            outcome.broken.append("tandem check says sound")
        for who, sentences in (("the broker", outcome.reported), ("tandem check", findings)):
            outcome.broken += [f"{who} does not name {one}" for one in self._unnamed(content, sentences)]
        if not is_equal and not outcome.reported:
            outcome.broken.append("something was lost silently")
        after = check(self._directory)
        if not after.is_sound:
            outcome.broken.append(f"not sound afterwards: {after.findings[:3]}")
        is_reported = "reported" if is_equal else "reported with losses"
        outcome.verdict = is_reported if outcome.reported else "harmless"

    def _is_everything_gone(self) -> bool:
        """The database is missing or empty, and nothing of it is in a log."""
        fault = self._fault
        is_gone = fault.kind == "missing" or (fault.kind == "cut" and not fault.start)
        return fault.file == DATABASE_NAME and is_gone and self._variant.name == "stopped"

    def _check_before(self) -> list[str]:
        damaged = [*find_damaged_keys(self._directory), *find_damaged_authority(self._directory / "tls")]
        try:
            return [*check(self._directory).findings, *[one.sentence for one in damaged]]
        except StoreError as error:
            return [str(error)]

    def _serve(self) -> Content:
        """Open and read everything; open again when damage is found, as the host of a namespace is."""
        for _ in range(MAX_RESTARTS):
            try:
                keys = load_or_make_keys(self._directory, is_dev=False)
                protect_keys(self._directory)
                ensure_certificates(self._directory / "tls")
            except ConfigurationError as error:
                raise StoreError(str(error)) from error
            store = SqliteStore(self._directory, ballast_bytes=0)
            try:
                content = read_content(store)
                page = find_damaged_page(self._directory / DATABASE_NAME, lambda _: False)
                if page is not None:
                    raise store.damaged(f"page {page} of the database is damaged")
            except StoreDamaged:
                continue
            except apsw.Error as error:
                # Of the statement for what no query reads.
                store.damaged(str(error))
                continue
            else:
                content.keys = _identity(keys, self._directory)
                return content
            finally:
                store.close()
        raise AssertionError("opening again and again does not help")

    def _compare(self, found: Content) -> bool:
        """Judge what is served. Returns whether it is all that was there."""
        truth = self._variant.content
        are_equal = [
            self._compare_messages(found.messages, truth.messages),
            self._compare_states(found.states, truth.states),
            self._compare_others(found.others, truth.others),
        ]
        if found.keys != truth.keys:
            self._outcome.broken.append("the keys are not those that clients have")
        return all(are_equal)

    def _compare_messages(self, found: dict[int, Seen], truth: dict[int, Seen]) -> bool:
        variant, fault = self._variant, self._fault
        different = {row for row, version in found.items() if version != truth.get(row)}
        revived = variant.layout.revived(fault) if different else set()
        for row in different:
            if found[row] not in variant.history.get(row, set()):
                self._outcome.broken.append(f"wrong content of message {_name(row)}")
            elif row not in revived:
                self._outcome.broken.append(f"message {_name(row)} is an older one, and the fault does not touch it")
        lost = truth.keys() - found.keys()
        self._outcome.lost_count = len(lost)
        undamaged = [row for row in lost if not self._is_hit("message", row)]
        if undamaged:
            self._outcome.broken.append(f"{len(undamaged)} undamaged messages are lost, such as {_name(undamaged[0])}")
        return not different and not lost

    def _compare_states(self, found: dict[str, bytes | None], truth: dict[str, bytes | None]) -> bool:
        for session_id, state in truth.items():
            if found[session_id] == state:
                continue
            known: set[bytes | None] = {None}
            if self._fault.file == LOG_NAME:
                known |= self._variant.earlier_states[session_id]
            if not self._is_hit("session", session_id) or found[session_id] not in known:
                self._outcome.broken.append(f"a wrong state of session {session_id}")
        return found == truth

    def _compare_others(self, found: dict[Unit, object], truth: dict[Unit, object]) -> bool:
        for unit in truth.keys() | found.keys():
            if found.get(unit) != truth.get(unit) and not self._is_hit(*unit):
                self._outcome.broken.append(f"{unit[0]} {unit[1]} is lost or another, and a copy of it is intact")
        return found == truth

    def _unnamed(self, found: Content, sentences: list[str]) -> list[str]:
        """Return what is lost, or another, of which no sentence names the smallest unit that is known."""
        truth = self._variant.content
        if self._fault.file == LOG_NAME and any(one.startswith("the last commits: ") for one in sentences):
            # What they did is not known to anybody.
            return []
        # A frame of which it is not known whose it was: entities are named where their counts tell, and nothing else.
        is_unknown = any(one.startswith("the write-ahead log: ") for one in sentences)
        # Those whose description is lost too have no name any more; that is reported of the table of descriptions.
        names = {
            one.number: _queue_name(one)
            for unit, one in truth.others.items()
            if isinstance(one, QueueRecord) and found.others.get(unit) == one
        }
        unnamed = [
            f"message {_name(row)}"
            for row in truth.messages.keys() - found.messages.keys()
            if row >> SEQUENCE_BITS + 2 in names
            and not _is_named(row, stream_name(names, row >> SEQUENCE_BITS), sentences)
        ]
        if is_unknown:
            return unnamed
        for session_id, state in truth.states.items():
            words = (f"session '{session_id}'", "states of some sessions")
            if found.states[session_id] != state and not any(word in one for word in words for one in sentences):
                unnamed.append(f"the state of session {session_id}")
        for kind, key in {unit for unit, one in truth.others.items() if found.others.get(unit) != one}:
            word = "duplicate detection" if kind == "duplicate" else f"the table '{kind}'"
            if not any(one.startswith(word) for one in sentences):
                unnamed.append(f"{kind} {key}")
        return unnamed

    def _is_hit(self, kind: str, key: object) -> bool:
        return self._variant.layout.is_hit(self._fault, (kind, key))


def _identity(keys: KeyRing, directory: Path) -> object:
    """What clients were given: the keys, and the authority that they trust."""
    return keys.to_dict(), [(directory / "tls" / name).read_bytes() for name in ("ca.pem", "ca-key.pem")]


def _queue_name(record: QueueRecord) -> str:
    return description_of(record.kind, record.fields).name


def _is_named(row: int, stream: str, sentences: list[str]) -> bool:
    """Whether a sentence is about the stream of a lost message, and about its number if it names any."""
    number = row & ((1 << SEQUENCE_BITS) - 1)
    entity = stream.split("/$", maxsplit=1)[0].strip("'")
    for sentence in sentences:
        if sentence.startswith(f"message {number} ") and f"'{entity}'" in sentence:
            # In the words of `tandem check`, which reads each message of a store whose pages are all intact.
            return True
        if not re.search(rf"(^|, ){re.escape(stream)}(:|, )", sentence):
            continue
        lost = sentence.partition("; lost: ")[2]
        if not lost:
            continue
        listed = re.search(r"messages ([\d, ]+)(?: and more)?", lost)
        is_listed = listed is not None and str(number) in listed[1].strip().split(", ")
        between = re.search(r"with sequence numbers (\d+) to (\d+)", lost)
        above = re.search(r"with sequence numbers above (\d+)", lost)
        is_between = between is not None and int(between[1]) <= number <= int(between[2])
        is_above = above is not None and number > int(above[1])
        has_numbers = bool(listed or between or above) and "and more" not in lost
        if is_listed or is_between or is_above or not has_numbers:
            return True
    return False


def _name(row: int) -> str:
    return f"{row & ((1 << SEQUENCE_BITS) - 1)} of stream {row >> SEQUENCE_BITS}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Single faults in the files of a data directory.")
    parser.add_argument("--faults", type=int, default=2_000, help="Faults in each kind of file.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=40, help="How much each directory holds.")
    parser.add_argument("--only", choices=FILES, nargs="+", default=FILES, help="Only in these files.")
    parser.add_argument("--output", type=Path, help="Also write the report to this file.")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if checksum_vfs() is None:
        raise SystemExit("this build of apsw has no checksum VFS")
    with tempfile.TemporaryDirectory(prefix="tandem-damage-") as folder:
        sweep = Sweep(Path(folder), arguments.seed, arguments.rounds)

        def write() -> None:
            """A run takes hours on a busy machine: what it has found so far is kept."""
            if arguments.output is not None:
                text = json.dumps({"seed": arguments.seed, **sweep.report()}, indent=1)
                arguments.output.write_text(text + "\n", encoding="utf-8")

        sweep.run(arguments.faults, arguments.only, write)
        write()
        report = {"seed": arguments.seed, **sweep.report()}
    print(json.dumps(report, indent=1))
    sys.exit(bool(report["broken"]))


if __name__ == "__main__":
    main()
