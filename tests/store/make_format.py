"""Makes the store that tests/store/formats keeps of the present format: `python -m tests.store.make_format`.

Run it once, when a format is new; never again for an old one.
"""

from __future__ import annotations

import time
from pathlib import Path

from tandem.store.log.log_limits import LogLimits
from tandem.store.schema import FORMAT_VERSION
from tandem.store.sqlite import DATABASE_NAME, LOCK_NAME, LOG_NAME, SqliteStore
from tests.store.drive import (
    DEAD,
    appended,
    committed,
    message,
    moved,
    published,
    put_hub,
    put_queue,
    put_topic,
    scheduled,
    sent,
    session_state,
    stored,
)


def main() -> None:
    directory = Path(__file__).parent / "formats" / str(FORMAT_VERSION)
    if (directory / DATABASE_NAME).exists():
        raise SystemExit(f"{directory} exists: a format does not change once there are stores of it")
    # Segments of four events, so that there are some.
    store = SqliteStore(directory, ballast_bytes=0, log_limits=LogLimits(seal_events=4, segment_events=4))
    store.put_setting("made by", f"format {FORMAT_VERSION}")
    committed(store, put_queue(1, requires_duplicate_detection=True), put_queue(2, requires_session=True))
    tired = message(5)
    first = message(1, duplicate_keys=[(1, "id", 1_000)])
    committed(store, sent(first, message(2, expires_at_ms=2_000), scheduled(3, 3_000), message(4), tired))
    committed(store, moved(tired, DEAD, 5, {"DeadLetterReason": "tired"}))
    committed(store, sent(message(1, 8, session_id="s")), session_state("s", b"half way", 1_000, 8, 8))
    shared = stored(b"shared", {"x-opt-mine": 1})
    changed = shared.modified({"RuleName": "r"})
    committed(store, put_topic(3, 4, 5))
    committed(store, published(1, 3, message(1, 16, stored=shared), message(1, 20, stored=changed), bytes_=shared))
    committed(store, put_hub(1_000, partition_count=2, consumer_groups=["readers"]))
    committed(store, appended(1_000, 0, b"a", b"b", b"c", b"d"))
    # Until they are sealed; a reader cannot tell.
    while not list((directory / LOG_NAME).glob("1000/0/*.arrow")):
        store.events.maintain(5_000, {1_000: (None, None)})
        time.sleep(0.01)
    committed(store, appended(1_000, 4, b"e", b"f"), appended(1_000, 0, b"g", partition_id=1))
    store.close()
    for leftover in (directory / LOCK_NAME, directory / LOG_NAME / "sealer.lock"):
        leftover.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
