"""What a log takes when much is stored: memory that does not grow, and a start that does not take long."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import replace
from pathlib import Path

from tandem.store.log.event_log import EventLog
from tandem.store.log.log_limits import LogLimits
from tandem.store.log.segments.segment import Segment, partition_folder
from tests.markers import mission
from tests.store.log.drive import HUB, SMALL, Home, Writer, maintained, read_all

SEGMENTS = 4_000


def made_segments(directory: Path, partitions: int) -> None:
    """Files with the names of segments: a start reads no more of them."""
    for partition_id in range(partitions):
        folder = partition_folder(directory, HUB, partition_id)
        folder.mkdir(parents=True)
        for index in range(SEGMENTS // partitions):
            segment = Segment(1_000 * index, 1_000, 10 * index, 10 * index + 9, 8_388_608)
            segment.arrow_path(folder).touch()
            segment.amqp_path(folder).touch()


@mission("M10")
def test_a_start_with_many_segments_opens_none_of_them(tmp_path: Path) -> None:
    made_segments(tmp_path, 4)
    log = EventLog(tmp_path)
    gc.collect()
    tracemalloc.start()
    found = log.recover({HUB: 4}).partitions
    gc.collect()
    memory_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert [one.next_sequence_number for one in found] == [1_000 * SEGMENTS // 4] * 4
    # 33 GB are stored: a few hundred bytes for each 8 MB of them.
    assert sum(one.size_bytes for one in found) > 33_000_000_000
    assert memory_bytes < 400 * SEGMENTS
    assert log.find_time(HUB, 0, 10 * 777) == 777_000
    log.close()


@mission("M10")
def test_the_index_does_not_grow_with_what_is_sealed(tmp_path: Path) -> None:
    home = Home(tmp_path, replace(SMALL, batch_rows=1_000))
    writer = Writer(home.log)
    sizes = []
    for _ in range(300):
        writer.now_ms += 1_000
        writer.append(10)
        maintained(home.log, writer.now_ms)
        sizes.append(home.log.index_bytes)
    # A tail of 40 events in records of 10, and what comes while it is sealed.
    assert max(sizes) <= 56 * 12
    home.close()


def test_records_take_less_than_a_hundred_bytes_of_memory_each(tmp_path: Path) -> None:
    log = EventLog(tmp_path, limits=LogLimits())
    log.recover({HUB: 1})
    writer = Writer(log)
    log.append([writer.record() for _ in range(20_000)])
    log.commit()
    gc.collect()
    tracemalloc.start()
    log.committed()
    gc.collect()
    memory_bytes = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert log.index_bytes == 56 * 20_000
    assert memory_bytes < 100 * 20_000
    assert len(read_all(log, limit=1_000)) == 20_000
    log.close()
