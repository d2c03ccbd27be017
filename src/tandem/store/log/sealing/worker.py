"""The process that makes segments: `python -m tandem.store.log.sealing.worker`. Only the broker starts it.

A process and not a thread, because taking millions of events apart would fight the event loop for the interpreter. It
reads jobs from its standard input and answers each on its standard output, both as a length of four bytes and
MessagePack. It ends when its input does, so it does not outlive the broker by more than the job it is at; and because
it holds a lock meanwhile, the next broker waits for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import msgspec

from tandem.errors import TandemError
from tandem.store.log.damage_log import RecordsDamaged
from tandem.store.log.files import DiskFiles
from tandem.store.log.sealing.job import SealJob, SealResult

__all__ = ["LOCK_NAME", "read_message", "write_message"]

LOCK_NAME: Final = "sealer.lock"

_LENGTH_BYTES: Final = 4


def read_message(stream: IO[bytes]) -> bytes | None:
    """The next message, or None when there are no more."""
    length = stream.read(_LENGTH_BYTES)
    if len(length) < _LENGTH_BYTES:
        return None
    size = int.from_bytes(length, "big")
    message = stream.read(size)
    return message if len(message) == size else None


def write_message(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
    stream.flush()


def main() -> None:
    directory = Path(sys.argv[1])
    parent = int(sys.argv[2])
    # Ctrl+C in a terminal reaches every process in it. The broker decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _locked(directory):
        # With the lock in hand: if the broker is there now, the next one finds the lock taken.
        if os.getppid() != parent:
            return
        while (message := read_message(sys.stdin.buffer)) is not None:
            result = _sealed(msgspec.msgpack.decode(message, type=SealJob))
            if os.getppid() != parent:
                return
            write_message(sys.stdout.buffer, msgspec.msgpack.encode(result))


def _sealed(job: SealJob) -> SealResult:
    try:
        # Loads pyarrow, which takes a while: not before there is something to do.
        from tandem.store.log.sealing.segment_writer import seal

        seal(job, DiskFiles())
    except RecordsDamaged as error:
        return SealResult(str(error), error.first_numbers)
    except (TandemError, OSError, ImportError, ValueError) as error:
        # pyarrow's own errors are ValueErrors and OSErrors.
        return SealResult(f"{type(error).__name__}: {error}")
    return SealResult()


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    with (directory / LOCK_NAME).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
