"""Options that commands share: each is written once, with the words that explain it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.properties import PROPERTY_TYPES
from tandem.limits import MAX_MESSAGE_SIZE_BYTES

__all__ = [
    "AsJson",
    "BodyFile",
    "Connection",
    "EntityPath",
    "MessageProperties",
    "TopicName",
    "read_body",
    "read_file",
]


Connection = Annotated[
    str | None,
    typer.Option(
        "--connection-string",
        envvar="TANDEM_CONNECTION_STRING",
        help="The broker, as `tandem connection-string` prints it.",
        show_default="the one on this machine, by the keys in ./tandem-data, or as `tandem serve --dev`",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_STANDARD_INPUT: Final = "-"

BodyFile = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="Take it from a file; - is the standard input.")
]
EntityPath = Annotated[
    str,
    typer.Argument(metavar="ENTITY", help="A queue, a topic, or a subscription as TOPIC/Subscriptions/NAME."),
]
MessageProperties = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        help=f"An application property, many times if need be. NAME:TYPE=VALUE: {', '.join(PROPERTY_TYPES)}.",
    ),
]

TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="The name of the topic; it may hold slashes.")]


def read_body(text: str | None, file: str | None, noun: str) -> bytes:
    """What was given as an argument, in a file or on the standard input."""
    if (text is None) == (file is None):
        raise CommandFailed(f"give {noun} as an argument ('' for an empty one) or with --file, one of them")
    if text is not None:
        return os.fsencode(text)
    assert file is not None
    return read_file(file, f"--file {file}", MAX_MESSAGE_SIZE_BYTES)


def read_file(file: str, title: str, max_bytes: int) -> bytes:
    """Read a file, or the standard input if it is `-`. An error calls it by the title."""
    try:
        if file == _STANDARD_INPUT:
            content = sys.stdin.buffer.read(max_bytes + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(max_bytes + 1)
    except OSError as error:
        raise CommandFailed(f"{title} cannot be read: {error.strerror or error}") from error
    if len(content) > max_bytes:
        raise CommandFailed(f"{title} has more than {max_bytes:,} bytes")
    return content
