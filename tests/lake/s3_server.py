"""An S3 server for tests: `python -m tests.lake.s3_server` prints its address, and serves until its input ends."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tandem.lake.place import Place, StorageOptions
from tests.spark.small_spark import ROOT

__all__ = ["MakeBucket", "make_bucket", "s3_server"]

MakeBucket = Callable[[], Place]

_numbers = itertools.count()


@contextlib.contextmanager
def serving() -> Iterator[StorageOptions]:
    """Start moto's server on a free port of this machine."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.lake.s3_server"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http:"), "moto's server did not start"
        try:
            yield StorageOptions(address, "us-east-1", "key", "secret")
        finally:
            process.stdin.close()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[StorageOptions]:
    with serving() as options:
        yield options


@pytest.fixture
def make_bucket(s3_server: StorageOptions) -> MakeBucket:
    """A bucket of a new name."""
    return lambda: new_bucket(s3_server)


def new_bucket(options: StorageOptions) -> Place:
    name = f"bucket-{next(_numbers)}"
    request = urllib.request.Request(f"{options.endpoint}/{name}", method="PUT")
    with urllib.request.urlopen(request):
        return Place.parse(f"s3://{name}/lake", options)


def main() -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    main()
