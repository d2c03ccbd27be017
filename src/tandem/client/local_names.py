"""Resolves names below `localhost` for HTTP. It imports aiohttp: import it only where a request is made."""

from __future__ import annotations

import socket

from aiohttp import ThreadedResolver
from aiohttp.abc import ResolveResult

from tandem.hosts import dialled_host

__all__ = ["LocalNames"]


class LocalNames(ThreadedResolver):
    """The system's resolver, which finds every name below `localhost` on this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await super().resolve(dialled_host(host), port, family)
        for result in found:
            # The certificate must be that of the name that was asked for.
            result["hostname"] = host
        return found
