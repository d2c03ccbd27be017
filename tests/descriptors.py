"""A process that has used up its file descriptors."""

from __future__ import annotations

import contextlib
import gc
import resource
import socket
from collections.abc import Iterator

__all__ = ["no_descriptors"]


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    """The next descriptor would get the lowest free number, and that is one too many.

    What other tests have left behind must not be closed meanwhile: that would free a descriptor below.
    """
    gc.collect()
    gc.disable()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as lowest_free:
        number = lowest_free.fileno()
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        gc.enable()
