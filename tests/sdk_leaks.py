"""Connections that the official SDK for Python leaves open are not a failure of the test that runs meanwhile.

The SDK forgets its socket when it closes a connection whose peer is gone or has refused it. Python reports that when it
collects the socket, which may be in another test, minutes later. A leak of Tandem's own still fails the test.
"""

from __future__ import annotations

import sys
from asyncio import BaseTransport, StreamWriter
from asyncio.sslproto import _SSLProtocolTransport
from collections.abc import Iterator
from socket import socket
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    # Exists for type checkers only.
    from sys import UnraisableHookArgs

__all__ = ["ignore_leaks_of_the_sdk"]

# The SDK uses streams over TLS, and speaks WebSocket through a client of aiohttp. Tandem leaves none of these open.
_MODULES_OF_THE_SDK: Final = frozenset(
    ("asyncio.streams", "aiohttp.client", "aiohttp.client_proto", "aiohttp.client_reqrep", "aiohttp.connector")
)

# Identities of the sockets that the SDK has made. One that is made later in the same place is judged anew.
_sockets_of_the_sdk: Final[set[int]] = set()


def ignore_leaks_of_the_sdk() -> None:
    """Watch who makes sockets from now on, and drop what Python reports about those of the SDK."""
    sys.addaudithook(_on_audited)
    report = sys.unraisablehook

    def report_others(unraisable: UnraisableHookArgs) -> None:
        if not _is_leak_of_the_sdk(unraisable):
            report(unraisable)

    sys.unraisablehook = report_others


def _on_audited(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.__new__":
        made = id(arguments[0])
        if any(name.startswith("azure.") for name in _callers(sys._getframe())):
            _sockets_of_the_sdk.add(made)
        else:
            _sockets_of_the_sdk.discard(made)


def _callers(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield frame.f_globals.get("__name__", "")
        frame = frame.f_back


def _is_leak_of_the_sdk(unraisable: UnraisableHookArgs) -> bool:
    if not isinstance(unraisable.exc_value, ResourceWarning | RuntimeError):
        return False
    trace, finalised = unraisable.exc_traceback, [unraisable.object]
    while trace is not None:
        # In the finaliser of an object it is called `self`.
        finalised.append(trace.tb_frame.f_locals.get("self"))
        trace = trace.tb_next
    return any(map(_is_of_the_sdk, finalised))


def _is_of_the_sdk(thing: object) -> bool:
    if isinstance(thing, StreamWriter):
        thing = thing.transport
    if isinstance(thing, _SSLProtocolTransport):
        protocol: object = thing.get_protocol()
        # One that its peer has ended has none, and leaves nothing open.
        return protocol is None or type(protocol).__module__ in _MODULES_OF_THE_SDK
    if isinstance(thing, BaseTransport):
        thing = getattr(thing, "_sock", None)
    if isinstance(thing, socket):
        return id(thing) in _sockets_of_the_sdk
    return type(thing).__module__ in _MODULES_OF_THE_SDK
