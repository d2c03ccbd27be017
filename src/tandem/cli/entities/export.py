"""`tandem export` and `tandem import`: all entities of a namespace as one document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tandem.cli.shared.broker import management
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection, read_file
from tandem.cli.shared.output import neutral, print_json, print_table
from tandem.limits import MAX_IMPORT_BYTES

__all__ = ["export_entities", "import_entities"]

# In the order in which a sentence has them, with what they mean there.
_OUTCOMES: Final = {
    "created": "created",
    "updated": "updated",
    "unchanged": "unchanged",
    "kept": "kept as they are",
    "failed": "failed",
}


def export_entities(
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Write it to a file.", show_default="the standard output"),
    ] = None,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="With the authorization rules of entities, and so with secrets.")
    ] = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Write all queues, topics, subscriptions and rules as one JSON document, without messages.

    `tandem import` makes the same elsewhere. A file is readable by its owner only if it holds keys.

    \b
    Examples:
      tandem export --file entities.json
      tandem export | jq '.queues[].name'
    """
    with management(connection_string, "entity") as client:
        document = client.export_entities(with_keys=with_keys)
    if file is None:
        # For people on lines, for scripts on one.
        typer.echo(json.dumps(document, indent=None if as_json else 2))
        return
    try:
        file.touch(0o600 if with_keys else 0o666)
        if with_keys:
            file.chmod(0o600)
        file.write_text(json.dumps(document, indent=2) + "\n")
    except OSError as error:
        raise CommandFailed(f"--file {file} cannot be written: {error.strerror or error}") from error
    counts = {"queues": len(document["queues"]), "topics": len(document["topics"])}
    if as_json:
        print_json({"file": str(file), **counts})
    else:
        typer.echo(f"wrote {counts['queues']:,} queues and {counts['topics']:,} topics to {file}")


def import_entities(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What `tandem export` wrote; - is the standard input.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    replaces: Annotated[
        bool, typer.Option("--replace", help="Change entities that exist to what the document says, with their rules.")
    ] = False,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Make the queues, topics, subscriptions and rules of an exported document.

    Entities that exist are left alone, unless --replace says otherwise; none is ever deleted. The exit code is 1 if any
    could not be made.

    \b
    Examples:
      tandem import entities.json --dry-run
      tandem import entities.json --replace
      tandem export | tandem import - --connection-string "$OTHER"
    """
    document = _read(file)
    with management(connection_string, "entity") as client:
        report = client.import_entities(document, replaces=replaces, is_dry_run=dry_run)
    if as_json:
        print_json(report)
    else:
        _print(report)
    if report["failed"]:
        raise typer.Exit(1)


def _read(file: str) -> dict[str, Any]:
    content = read_file(file, file, MAX_IMPORT_BYTES)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{file} is no JSON document: {error}") from error
    if not isinstance(document, dict):
        raise CommandFailed(f"{file} must be a JSON object, as `tandem export` writes it")
    return document


def _print(report: dict[str, Any]) -> None:
    changed = [one for one in report["entities"] if one["outcome"] not in {"unchanged", "kept"}]
    if changed:
        has_errors = any(one["error"] for one in changed)
        headings = ("entity", "name", "outcome", *(("why",) if has_errors else ()))
        rows = [
            (one["kind"], neutral(one["name"]), one["outcome"], *((neutral(one["error"] or ""),) if has_errors else ()))
            for one in changed
        ]
        print_table(headings, rows)
    counted = ", ".join(f"{report[outcome]:,} {words}" for outcome, words in _OUTCOMES.items() if report[outcome])
    sentence = counted or "there is nothing in the document"
    typer.echo(f"a dry run, nothing was done: {sentence}" if report["dry_run"] else sentence)
