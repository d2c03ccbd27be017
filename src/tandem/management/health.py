"""`GET /health`: whether the broker serves, and warnings about what needs an operator.

    {"status": "healthy", "message": "Service is healthy.",
     "warnings": [{"code": "stranded-backlog", "message": "40 messages wait in 3 backlog queues ..."}],
     "addresses": ["amqp://127.0.0.1:5672", "http://127.0.0.1:5300", "tls://127.0.0.1:443"]}

The status is that of the process, for probes; warnings never change it. Everybody may ask, so a warning names nothing.
Only a request with a token for the namespace learns which entities a warning is about, and on which addresses the
broker listens.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from tandem.engine.backlogs import StrandedBacklog
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.server.directory import Directory

__all__ = ["STRANDED_BACKLOG", "Health"]

STRANDED_BACKLOG: Final = "stranded-backlog"


class Health:
    """Answers for all namespaces of a broker."""

    def __init__(self, gate: Gate, directory: Directory) -> None:
        self._gate = gate
        self._directory = directory

    async def answer(self, request: web.Request) -> web.Response:
        # In the words of the official emulator, which scripts wait for.
        health: dict[str, object] = {"status": "healthy", "message": "Service is healthy."}
        warnings = self._warnings(request)
        if warnings:
            health["warnings"] = warnings
        if self._gate.is_trusted(request):
            health["addresses"] = self._gate.addresses
        return json_answer(health)

    def _warnings(self, request: web.Request) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for hosted in self._directory:
            stranded = hosted.namespace.stranded_backlogs(hosted.runner.now_ms())
            is_named = bool(stranded) and hosted is self._gate.hosted and self._gate.is_trusted(request)
            found += [_stranded(backlog, is_named=is_named) for backlog in stranded]
        return found


def _stranded(backlog: StrandedBacklog, *, is_named: bool) -> dict[str, object]:
    since = datetime.fromtimestamp(backlog.attended_at_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    messages = "1 message waits" if backlog.message_count == 1 else f"{backlog.message_count:,} messages wait"
    queues = "1 backlog queue" if backlog.queue_count == 1 else f"{backlog.queue_count:,} backlog queues"
    warning: dict[str, object] = {
        "code": STRANDED_BACKLOG,
        "message": f"{messages} in {queues}, and no syphon has polled there since {since}: run `tandem syphon run`",
    }
    if is_named:
        warning |= {
            "primary_namespace": backlog.primary_namespace,
            "queue_count": backlog.queue_count,
            "message_count": backlog.message_count,
            "polled_at": since,
        }
    return warning
