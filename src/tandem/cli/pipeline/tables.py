"""`tandem pipeline compact` and `vacuum`: the upkeep of captured tables, without Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.pipeline.storage import Storage, place_of
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson
from tandem.cli.shared.output import print_json
from tandem.durations import parse_duration_ms

__all__ = ["compact_table", "vacuum_table"]

Table = Annotated[str, typer.Argument(metavar="URI", help="The folder of one hub, such as capture/orders or s3://….")]

# Milliseconds. A batch of a capture takes less: files that are younger may be about to count.
_MIN_VACUUM_AGE_MS = 3_600_000


def compact_table(
    table: Table,
    target_mb: Annotated[int, typer.Option(min=1, help="Size that files are put together to, in MB.")] = 128,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Put the small files of a captured table together.

    For Parquet by hub, date and hour, and for Delta. A capture may go on meanwhile. Readers of the table find each
    event once; those that list a folder of Parquet find the old files beside the new ones until `vacuum`.

    \b
    Examples:
      tandem pipeline compact capture/telemetry
      tandem pipeline compact s3://lake/events/telemetry --target-mb 256
    """
    from tandem.lake.compaction import compact

    place = place_of(table, storage)
    done = compact(place, target_mb << 20)
    if as_json:
        print_json({"table": str(place), "replaced": done.before, "by": done.after})
    else:
        typer.echo(f"replaced {done.before:,} files of {place} by {done.after:,}")


def vacuum_table(
    table: Table,
    older_than: Annotated[
        str, typer.Option(metavar="TIME", help="Keep what has counted, or was written, within this time; 1h or more.")
    ] = "7d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files, and delete none.")] = False,
    storage: Storage = None,
    as_json: AsJson = False,
) -> None:
    """Delete files of a captured table that do not count: those that `compact` replaced, or that a crash left.

    \b
    Examples:
      tandem pipeline vacuum capture/telemetry --dry-run
      tandem pipeline vacuum s3://lake/events/telemetry --older-than 1d
    """
    from tandem.lake.compaction import vacuum

    age_ms = parse_duration_ms(older_than, "--older-than") or 0
    if age_ms < _MIN_VACUUM_AGE_MS:
        raise CommandFailed(f"--older-than is {older_than!r:.40}; files younger than 1h may be about to count")
    place = place_of(table, storage)
    deleted = vacuum(place, age_ms / 1_000, is_dry_run=dry_run)
    if as_json:
        print_json({"table": str(place), "deleted": not dry_run, "files": deleted})
        return
    for path in deleted:
        typer.echo(path)
    typer.echo(f"{'would delete' if dry_run else 'deleted'} {len(deleted):,} files of {place}", err=True)
