"""Options that commands share: each is written once, with the words that explain it."""

from __future__ import annotations

import enum
import os
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from tandem.cli.failure import CommandFailed
from tandem.cli.properties import PROPERTY_TYPES
from tandem.limits import MAX_MESSAGE_SIZE_BYTES

__all__ = [
    "AsJson",
    "AutoDelete",
    "BatchedOperations",
    "BodyFile",
    "Connection",
    "DeadLettering",
    "DuplicateDetection",
    "DuplicateWindow",
    "EntityPath",
    "ForwardDeadLetters",
    "ForwardTo",
    "LockDuration",
    "MaxDeliveryCount",
    "MaxMessageSize",
    "MaxSize",
    "MessageProperties",
    "Partitioning",
    "Session",
    "Status",
    "StatusChoice",
    "TimeToLive",
    "TopicName",
    "UserMetadata",
    "read_body",
]


class StatusChoice(enum.Enum):
    """What `tandem.engine.description.EntityStatus` has."""

    ACTIVE = "Active"
    DISABLED = "Disabled"
    SEND_DISABLED = "SendDisabled"
    RECEIVE_DISABLED = "ReceiveDisabled"


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

LockDuration = Annotated[str | None, typer.Option(metavar="TIME", help="How long a receiver may keep a message.")]
MaxSize = Annotated[int | None, typer.Option("--max-size-in-megabytes", help="When full, sends are refused.")]
DuplicateDetection = Annotated[
    bool | None, typer.Option(help="Take a message id once only within the window.", show_default=False)
]
Session = Annotated[bool | None, typer.Option(help="Every message belongs to a session.", show_default=False)]
TimeToLive = Annotated[str | None, typer.Option(metavar="TIME", help="Messages live no longer than this.")]
DeadLettering = Annotated[bool | None, typer.Option(help="Keep expired messages as dead letters.", show_default=False)]
DuplicateWindow = Annotated[str | None, typer.Option(metavar="TIME", help="How long message ids are remembered.")]
MaxDeliveryCount = Annotated[int | None, typer.Option(help="A message delivered that often becomes a dead letter.")]
BatchedOperations = Annotated[
    bool | None, typer.Option(help="Kept for the SDKs; Tandem always commits in batches.", show_default=False)
]
Status = Annotated[
    # A class of its own, and not the engine's: that would be imported for the help of every command.
    StatusChoice | None,
    typer.Option(
        metavar="|".join(one.value for one in StatusChoice), help="What clients may do.", case_sensitive=False
    ),
]
AutoDelete = Annotated[str | None, typer.Option(metavar="TIME", help="Delete it when unused for this long.")]
Partitioning = Annotated[bool | None, typer.Option(help="Spread it over 16 partitions.", show_default=False)]
ForwardTo = Annotated[str | None, typer.Option(help="Pass messages on to this queue or topic; '' for none.")]
ForwardDeadLetters = Annotated[
    str | None,
    typer.Option(
        "--forward-dead-lettered-messages-to", help="Pass dead letters on to this queue or topic; '' for none."
    ),
]
UserMetadata = Annotated[str | None, typer.Option(help="A text of your own, at most 1,024 characters.")]
MaxMessageSize = Annotated[
    int | None, typer.Option("--max-message-size-in-kilobytes", help="Larger messages are refused.")
]


def read_body(text: str | None, file: str | None, noun: str) -> bytes:
    """What was given as an argument, in a file or on the standard input."""
    if (text is None) == (file is None):
        raise CommandFailed(f"give {noun} as an argument ('' for an empty one) or with --file, one of them")
    if text is not None:
        return os.fsencode(text)
    assert file is not None
    if file == _STANDARD_INPUT:
        content = sys.stdin.buffer.read(MAX_MESSAGE_SIZE_BYTES + 1)
    else:
        try:
            with Path(file).open("rb") as opened:
                content = opened.read(MAX_MESSAGE_SIZE_BYTES + 1)
        except OSError as error:
            raise CommandFailed(f"--file {file} cannot be read: {error.strerror or error}") from error
    if len(content) > MAX_MESSAGE_SIZE_BYTES:
        raise CommandFailed(f"--file {file} has more than {MAX_MESSAGE_SIZE_BYTES:,} bytes")
    return content
