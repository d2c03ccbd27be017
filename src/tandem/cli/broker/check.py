"""`tandem check`: an offline check of a data directory."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tandem.cli.shared.output import neutral, print_json, print_table

if TYPE_CHECKING:
    from tandem.store.check import Report

__all__ = ["check"]

_NUMBERS: Final = ("active", "deferred", "scheduled", "dead-letter", "sessions", "bytes")


def check(
    data_dir: Annotated[Path, typer.Argument(help="The data directory of a broker that is not running.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
) -> None:
    """Read a data directory from end to end and say what contradicts what.

    Nothing is changed. The exit code is 0 if the store is sound and 1 if it is not.

    \b
    Examples:
      tandem check /var/lib/tandem
      tandem check tandem-data --json
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from tandem.server.keys import find_damaged_keys
    from tandem.server.tls import find_damaged_authority
    from tandem.store.check import check as check_store

    # Not on the standard output, which scripts read.
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=as_json or not console.is_terminal) as progress:
        task = progress.add_task("checking", total=None)

        def advance(what: str, done: int, total: int) -> None:
            progress.update(task, description=what, completed=done, total=total or None)

        report = check_store(data_dir, advance)
    for damage in [*find_damaged_keys(data_dir), *find_damaged_authority(data_dir / "tls")]:
        report.add(damage.sentence)
    if as_json:
        print_json({"is_sound": report.is_sound, **dataclasses.asdict(report)})
    else:
        _print(data_dir, report)
    if not report.is_sound:
        raise typer.Exit(1)


def _print(data_dir: Path, report: Report) -> None:
    if report.queues:
        rows = [
            (
                queue.name,
                f"{queue.active_message_count:,}",
                f"{queue.deferred_message_count:,}",
                f"{queue.scheduled_message_count:,}",
                f"{queue.dead_letter_message_count + queue.transfer_dead_letter_message_count:,}",
                f"{queue.session_count:,}",
                f"{queue.size_bytes:,}",
            )
            for queue in report.queues
        ]
        print_table(("queue", *_NUMBERS), rows, _NUMBERS)
    for finding in report.findings:
        typer.echo(neutral(finding))
    if report.unlisted_finding_count:
        typer.echo(f"... and {report.unlisted_finding_count:,} more")
    if report.unsummed_segment_count:
        typer.echo(
            f"{report.unsummed_segment_count:,} segments of event hubs are of an older version, without checksums"
        )
    for note in report.notes:
        typer.echo(f"Note: {neutral(note)}.")
    for earlier in report.earlier_damages:
        typer.echo(f"Found damaged before, and salvaged: {neutral(earlier)}")
    found = len(report.findings) + report.unlisted_finding_count
    verdict = "sound" if report.is_sound else f"not sound: {found:,} findings"
    typer.echo(
        f"{data_dir}: {report.message_count:,} messages in {len(report.queues):,} queues, "
        f"{report.event_count:,} events in {report.hub_count:,} hubs; {verdict}"
    )
