"""The lock of a data directory: one broker at a time, and `tandem check` only without one.

The directory itself is locked, because a file in it can be deleted: the next broker would create and lock another file
of the same name. The file `lock` is locked too, for brokers of earlier versions and for file systems that cannot lock a
directory, as NFS.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tandem.errors import StoreError

__all__ = ["LOCK_NAME", "DirectoryUse", "lock_directory"]

LOCK_NAME: Final = "lock"

# What a lock that somebody else has is answered with, and what a file system answers that cannot lock a directory.
_HELD: Final = frozenset((errno.EWOULDBLOCK, errno.EACCES))
_UNSUPPORTED: Final = frozenset((errno.EBADF, errno.EINVAL, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS))


class DirectoryUse(enum.Enum):
    """The purpose for which a data directory is locked."""

    BROKER = "broker"
    CHECK = "check"


_IN_USE: Final = {
    DirectoryUse.BROKER: "is in use by another broker: stop it, or choose another data directory",
    DirectoryUse.CHECK: "is in use by a broker: stop it first",
}


@contextlib.contextmanager
def lock_directory(directory: Path, use: DirectoryUse) -> Iterator[None]:
    """Keep brokers from the directory until the context ends. StoreError if one is using it."""
    with contextlib.ExitStack() as opened:
        descriptors = [os.open(directory, os.O_RDONLY | os.O_DIRECTORY)]
        opened.callback(os.close, descriptors[0])
        path = directory / LOCK_NAME
        if use is DirectoryUse.BROKER:
            descriptors.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
            opened.callback(os.close, descriptors[1])
        elif path.exists():
            descriptors.append(os.open(path, os.O_RDONLY))
            opened.callback(os.close, descriptors[1])
        for descriptor in descriptors:
            _lock(descriptor, directory, use)
        yield


def _lock(descriptor: int, directory: Path, use: DirectoryUse) -> None:
    kind = fcntl.LOCK_EX if use is DirectoryUse.BROKER else fcntl.LOCK_SH
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise StoreError(f"{directory} {_IN_USE[use]}") from None
        if error.errno not in _UNSUPPORTED:
            raise
