"""Options that commands share: each is written once, with the words that explain it."""

from __future__ import annotations

from typing import Annotated

import typer

from tandem.engine.description import EntityStatus

__all__ = [
    "AsJson",
    "AutoDelete",
    "BatchedOperations",
    "Connection",
    "DeadLettering",
    "DuplicateDetection",
    "DuplicateWindow",
    "ForwardDeadLetters",
    "ForwardTo",
    "LockDuration",
    "MaxDeliveryCount",
    "MaxMessageSize",
    "MaxSize",
    "Partitioning",
    "Session",
    "Status",
    "TimeToLive",
    "TopicName",
    "UserMetadata",
]

Connection = Annotated[
    str | None,
    typer.Option(
        "--connection-string",
        envvar="TANDEM_CONNECTION_STRING",
        help="The broker, as `tandem connection-string` prints it.",
        show_default="the one of `tandem serve --dev` on this machine",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

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
    EntityStatus | None,
    typer.Option(
        metavar="|".join(one.value for one in EntityStatus), help="What clients may do.", case_sensitive=False
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
