"""Work on many messages, which the broker does step by step: started here, watched, and told about at the end."""

from __future__ import annotations

import time
from typing import Any, Final

import typer

from tandem.cli.shared.broker import management
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.output import neutral, print_json, print_table, progress
from tandem.management.client import EntityFields, ManagementClient

__all__ = ["run_job"]

# Seconds between two looks at a job. The first come quickly: most jobs are short.
_FIRST_PAUSE_S: Final = 0.02
_LAST_PAUSE_S: Final = 0.5


def run_job(
    entity: str, kind: str, request: EntityFields, done_word: str, connection_string: str | None, as_json: bool
) -> None:
    """Start it, and wait until it is over. Whoever interrupts this stops the job, too; what is done stays done."""
    with management(connection_string, "entity") as client:
        job = client.operations(entity).start_job(kind, request)
        job = _watched(client, job, f"{kind} {entity}", as_json)
    if as_json:
        print_json(job)
    else:
        _print(job, done_word)
    if job["state"] != "completed" or job["progress"]["failed"]:
        raise typer.Exit(1)


def _watched(client: ManagementClient, job: EntityFields, description: str, as_json: bool) -> EntityFields:
    pause_s = _FIRST_PAUSE_S
    try:
        with progress(description, None, as_json) as advance:
            while job["state"] == "running":
                counts = job["progress"]
                advance(counts["done"] + counts["skipped"] + counts["failed"], counts["total"])
                time.sleep(pause_s)
                pause_s = min(pause_s * 2, _LAST_PAUSE_S)
                job = client.job(job["id"])
    except KeyboardInterrupt:
        client.cancel_job(job["id"])
        raise
    return job


def _print(job: EntityFields, done_word: str) -> None:
    counts = job["progress"]
    would = "would be " if job["dry_run"] else ""
    parts = [f"{_messages(counts['done'])} of {job['entity']} {would}{done_word}"]
    if counts["skipped"]:
        parts.append(f"{counts['skipped']:,} passed over")
    if counts["failed"]:
        parts.append(f"{counts['failed']:,} failed")
    typer.echo(", ".join(parts))
    if job["dry_run"] and job["sample"]:
        _print_mentioned(job["sample"], {"to": "target"})
    if job["failures"]:
        _print_mentioned(job["failures"], {"why not": "reason"})
    error: dict[str, Any] | None = job["error"]
    if error is not None:
        raise CommandFailed(f"the job stopped: {error['message']}")


def _print_mentioned(messages: list[EntityFields], columns: dict[str, str]) -> None:
    fields = ("sequence_number", "message_id", *columns.values())
    rows = [["" if one[field] is None else neutral(str(one[field])) for field in fields] for one in messages]
    print_table(("sequence", "message id", *columns), rows, ("sequence",))


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"
