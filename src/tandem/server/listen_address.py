"""Addresses that a broker listens on: `HOST:PORT`, or `tls://HOST:PORT` for clients that speak TLS only.

5671                 the port 5671 on the host of --host
127.0.0.1:443        every address speaks AMQP, TLS, HTTP and WebSocket
tls://0.0.0.0:443    TLS only: a client that does not begin with TLS is disconnected
[::1]:5672           an IPv6 address stands in brackets
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tandem.errors import ConfigurationError
from tandem.hosts import MAX_PORT, bracketed

__all__ = ["LISTEN_SYNTAX", "ListenAddress", "parse_listen_address", "placed"]

# The syntax of a value, for help and errors.
LISTEN_SYNTAX: Final = "[tls://][HOST:]PORT"

_TLS_SCHEME: Final = "tls://"
_ADDRESS: Final = re.compile(r"(?:(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^\s:/\[\]]*):)?(?P<port>[0-9]{1,5})")

# Hosts that stand for all addresses of the machine, of one family or of both.
_EVERY_HOST: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """One address of a broker. Port 0 picks a free one."""

    host: str
    port: int
    is_tls_only: bool = False
    # The option or setting that an error names, as its user wrote it.
    option: str = "--listen"

    def covers(self, other: ListenAddress) -> bool:
        """Return whether a client that wants the other address reaches this one: both cannot be listened on."""
        is_same_host = self.host in _EVERY_HOST or self.host.lower() == other.host.lower()
        return self.port == other.port != 0 and is_same_host

    def text(self, port: int) -> str:
        """Return the address as --listen takes it, with the port that it got."""
        return f"{_TLS_SCHEME if self.is_tls_only else ''}{bracketed(self.host)}:{port}"


def parse_listen_address(text: str, default_host: str, setting: str = "--listen") -> ListenAddress:
    """Read one address. `setting` is where it was written, for the error."""
    is_tls_only = text.lower().startswith(_TLS_SCHEME)
    found = _ADDRESS.fullmatch(text[len(_TLS_SCHEME) :] if is_tls_only else text)
    if found is None or int(found["port"]) > MAX_PORT:
        raise ConfigurationError(
            f"{setting} is {text!r:.80}; write {LISTEN_SYNTAX} with a port from 0 to {MAX_PORT:,}, such as 5671, "
            "0.0.0.0:443, [::1]:5672 or tls://0.0.0.0:443"
        )
    # Without a host there is no colon either; an empty one in front of a colon means every address.
    host = default_host if found["host"] is None else found["host"].strip("[]")
    return ListenAddress(host, int(found["port"]), is_tls_only, f"{setting} {text}")


def placed(first: Sequence[ListenAddress], further: Sequence[ListenAddress]) -> list[ListenAddress]:
    """Return all addresses to listen on: the first ones, then the further ones, each once.

    A further address that covers one of the first takes its place: `--listen 0.0.0.0:5672` widens the port 5672 that
    would otherwise be served on one host only.
    """
    addresses = list(first)
    for number, address in enumerate(further):
        for other in further[:number]:
            if address.covers(other) or other.covers(address):
                raise ConfigurationError(
                    f"{address.option}: {other.option} listens there already; leave out one of the two"
                )
        covered = [place for place, one in enumerate(first) if address.covers(one)]
        if covered:
            addresses[covered[0]] = address
        else:
            addresses.append(address)
    return addresses
