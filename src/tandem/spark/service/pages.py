"""What the service shows over HTTP: `/` the live report, `/health` and `/metrics`."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, NamedTuple

from tandem.errors import ConfigurationError

__all__ = ["Page", "kept_for", "serving"]

_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class Page(NamedTuple):
    """What is answered to a request."""

    body: str
    content_type: str = _TEXT
    status: HTTPStatus = HTTPStatus.OK


@contextmanager
def serving(host: str, port: int, pages: dict[str, Callable[[], Page]]) -> Iterator[str]:
    """Answer requests on a thread of its own, and return the address. Port 0 is any that is free."""

    class Handler(http.server.BaseHTTPRequestHandler):
        # Of a client that says nothing.
        timeout = 10

        def do_GET(self) -> None:
            make = pages.get(self.path.partition("?")[0])
            page = Page("not found\n", status=HTTPStatus.NOT_FOUND) if make is None else make()
            content = page.body.encode()
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing: a scraper comes every few seconds."""

    try:
        server = http.server.ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise ConfigurationError(f"{host}:{port} cannot be listened on: {error.strerror}") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="pages", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def kept_for(seconds: float, make: Callable[[], Page]) -> Callable[[], Page]:
    """Return what `make` returned last, made again if it is older than this: readers do not multiply the work."""
    lock = threading.Lock()
    last: list[tuple[float, Page]] = []

    def page() -> Page:
        with lock:
            if not last or time.monotonic() - last[0][0] > seconds:
                last[:] = [(time.monotonic(), make())]
            return last[0][1]

    return page
