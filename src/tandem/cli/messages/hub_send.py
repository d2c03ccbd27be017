"""`tandem hub send`: events to a hub, or to one of its partitions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from tandem.cli.entities.hub import HubName, app
from tandem.cli.messages.send import BodyText, MessageCount, SendOne, send_all, user_properties
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, BodyFile, Connection, MessageProperties, read_body
from tandem.cli.shared.output import print_done

__all__ = ["app", "send_events"]


@app.command("send")
def send_events(
    hub: HubName,
    body: BodyText = None,
    file: BodyFile = None,
    count: MessageCount = 1,
    key: Annotated[str | None, typer.Option(help="Events of one key are in one partition, in order.")] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="P", help="Send to this one.", show_default="by the key, or in turn")
    ] = None,
    properties: MessageProperties = None,
    content_type: Annotated[str | None, typer.Option(help="Such as application/json.")] = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Send an event to an event hub.

    The command ends when the broker has the event on disk.

    \b
    Examples:
      tandem hub send telemetry '{"celsius": 21.5}' --key kitchen
      tandem hub send telemetry --file reading.json --content-type application/json --property floor:int=2
      tandem hub send telemetry tick --partition 0 --count 1000
    """
    from tandem.client import EventData

    if key is not None and partition is not None:
        raise CommandFailed("one of --key and --partition at a time: a key chooses the partition")
    event = EventData(
        read_body(body, file, "a body"), properties=user_properties(properties or []), content_type=content_type
    )

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[SendOne]:
        from tandem.cli.shared.amqp_link import connected_hub

        async with connected_hub(connection_string, hub) as client:
            producer = client.create_producer()
            yield lambda: producer.send(event, partition_id=partition, partition_key=key)

    address = hub if partition is None else f"{hub}/Partitions/{partition}"
    send_all(address, opened(), count, as_json)
    several = f"{count:,} events" if count > 1 else "1 event"
    sent = {"hub": hub, "partition": partition, "partition_key": key, "count": count}
    print_done(f"sent {several} to {address}", sent, as_json)
