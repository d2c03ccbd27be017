"""Options of commands that write or read tables: where, and how to reach it."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.cli.shared.failure import CommandFailed
from tandem.lake.place import Place, StorageOptions

__all__ = ["Checkpoint", "Storage", "place_of"]

Storage = Annotated[
    list[str] | None,
    typer.Option(
        "--storage",
        metavar="NAME=VALUE",
        help="How to reach s3://: endpoint, region, accessKey, secretKey, sessionToken; many times if need be. "
        "AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and so on stand in for those left out.",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Where the progress is kept, on a file system of Spark's; with s3:// it has to be given.",
        show_default="beside the output",
    ),
]


def place_of(text: str, storage: list[str] | None) -> Place:
    """Return the place that --out and --storage name."""
    given: dict[str, str] = {}
    for one in storage or []:
        name, equals, value = one.partition("=")
        if not equals:
            raise CommandFailed(f"--storage has {name!r:.80}; write it as NAME=VALUE")
        given[name] = value
    return Place.parse(text, StorageOptions.parse(given))
