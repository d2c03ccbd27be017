"""`tandem pair`: whether two namespaces can be a pair, and how a pair is doing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem.cli.capacity import MessageBytes, MessageRate, parse_rate, parse_seconds
from tandem.cli.entities import broker_of
from tandem.cli.failure import CommandFailed
from tandem.cli.options import AsJson, Connection
from tandem.cli.output import neutral, print_json, print_table
from tandem.cli.pair_backlog import Backlog, Demand
from tandem.cli.pair_clients import age_text, last_heard_text, note_client, presence

if TYPE_CHECKING:
    from tandem.client import MessagingFactorySettings, NamespaceManager, QueueDescription

__all__ = ["BacklogQueues", "PrimaryNamespace", "Secondary", "app", "client_settings", "name_of", "primary_string"]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Paired namespaces: sends go on while the primary cannot be sent to.\n\n"
        "The primary is the broker of --connection-string, the secondary that of --secondary."
    ),
)

# Events. How far back the states of entities are looked for.
_MAX_EVENTS: Final = 10_000
_STATE_EVENTS: Final = ("failing", "failed-over", "restored")

# Seconds. To read what is there already.
_READ_TIMEOUT_S: Final = 5.0

Secondary = Annotated[
    str,
    typer.Option(
        "--secondary",
        envvar="TANDEM_SECONDARY_CONNECTION_STRING",
        metavar="TEXT",
        help="The secondary namespace, as `tandem connection-string` prints it.",
    ),
]
BacklogQueues = Annotated[int, typer.Option("--backlog-queues", help="How many backlog queues are used.", min=1)]
PrimaryNamespace = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The primary's name in those of the backlog queues.",
        show_default="as its address tells it",
    ),
]


def client_settings() -> MessagingFactorySettings:
    """A command is not patient: somebody waits for it."""
    from datetime import timedelta

    from tandem.client import MessagingFactorySettings, RetryPolicy

    return MessagingFactorySettings(operation_timeout=timedelta(seconds=15), retry_policy=RetryPolicy(max_attempts=3))


def primary_string(connection_string: str | None) -> str:
    """That of the primary, found as other commands find their broker."""
    return connection_string or str(broker_of(None))


def name_of(connection_string: str, given: str | None) -> str:
    from tandem.client.service_address import parse_connection_string
    from tandem.pairing.backlog import primary_namespace_name

    return given or primary_namespace_name(str(parse_connection_string(connection_string).address))


# --- check ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    is_ok: bool
    detail: str
    # For programs, where the detail has numbers.
    figures: dict[str, Any] | None = None


@app.command("check")
def check_pair(
    secondary: Secondary,
    backlog_queues: BacklogQueues = 10,
    primary_namespace: PrimaryNamespace = None,
    rate: MessageRate = None,
    message_bytes: MessageBytes = 1_024,
    outage: Annotated[
        str,
        typer.Option(metavar="TIME", help="With --rate: the outage that the backlog queues have to absorb."),
    ] = "0s",
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Check whether a pair would work: both namespaces, the rights, and the backlog queues. Nothing is changed.

    With --rate it says how long an outage the backlog queues absorb, and with --outage how many of them that needs.

    \b
    Examples:
      tandem pair check --secondary "$SECONDARY"
      tandem pair check --secondary "$SECONDARY" --rate 500 --message-bytes 4096 --outage 8h
      tandem pair check --connection-string "$PRIMARY" --secondary "$SECONDARY" --backlog-queues 5 --json
    """
    primary = primary_string(connection_string)
    name = name_of(primary, primary_namespace)
    demand = Demand(parse_rate(rate), message_bytes, parse_seconds(outage, "--outage", allow_zero=True))
    if demand.outage_s and demand.messages_per_second is None:
        raise CommandFailed(f"--outage is {outage!r:.40}; give --rate too: how much an outage brings depends on it")
    findings = asyncio.run(_check(primary, secondary, name, backlog_queues, demand))
    is_ok = all(finding.is_ok for finding in findings)
    if as_json:
        print_json({"is_ok": is_ok, "primary_namespace": name, "findings": [asdict(one) for one in findings]})
    else:
        rows = [("ok" if one.is_ok else "NO", one.what, neutral(one.detail)) for one in findings]
        print_table(("", "what", "detail"), rows)
    if not is_ok:
        raise typer.Exit(1)


async def _check(primary: str, secondary: str, name: str, count: int, demand: Demand) -> list[Finding]:
    from tandem.client import MessagingFactory, NamespaceManager
    from tandem.pairing.backlog import backlog_queue_path

    settings = client_settings()
    primary_manager = NamespaceManager.from_connection_string(primary, settings)
    manager = NamespaceManager.from_connection_string(secondary, settings)
    findings = [await _look("primary: can be reached", _reach(primary_manager))]
    findings.append(
        Finding("pair: two different namespaces", primary_manager.address != manager.address, manager.address)
    )
    manage = await _look("secondary: can be reached, with the right Manage", _count_queues(manager))
    findings.append(manage)
    if not manage.is_ok:
        return findings
    paths = [backlog_queue_path(name, index) for index in range(count)]
    found = {queue.path.lower(): queue for queue in await manager.get_queues()}
    existing = [path for path in paths if path.lower() in found]
    findings += [_judge_queue(path, found.get(path.lower())) for path in paths]
    findings += await _judge_backlog(
        {path: found.get(path.lower()) for path in paths}, primary_manager, manager, demand
    )
    if existing:
        async with MessagingFactory.from_connection_string(secondary, settings) as factory:
            sender, receiver = factory.create_message_sender(existing[0]), factory.create_message_receiver(existing[0])
            findings.append(await _look("secondary: the right Send", _described(sender.open(), existing[0])))
            findings.append(
                await _look("secondary: the right Listen (for a syphon)", _described(receiver.peek(), existing[0]))
            )
    return findings


async def _judge_backlog(
    queues: Mapping[str, QueueDescription | None],
    primary: NamespaceManager,
    secondary: NamespaceManager,
    demand: Demand,
) -> list[Finding]:
    backlog = Backlog(queues, await secondary.max_message_size_in_kilobytes())
    size, room = await backlog.judge_message_size(primary), backlog.judge_room(demand)
    return [
        Finding("backlog queues: the largest message", size.is_ok, size.detail),
        Finding("backlog queues: room for an outage", room.is_ok, room.detail, room.figures),
    ]


async def _look(what: str, attempt: Awaitable[str]) -> Finding:
    from tandem.errors import TandemError

    try:
        return Finding(what, True, await attempt)
    except TandemError as error:
        return Finding(what, False, str(error))


async def _reach(manager: NamespaceManager) -> str:
    """An answer is enough: senders need no right to manage."""
    from tandem.client import UnauthorizedAccessError

    try:
        return await _count_queues(manager)
    except UnauthorizedAccessError:
        return f"{manager.address}, without the right Manage, which is not needed"


async def _count_queues(manager: NamespaceManager) -> str:
    return f"{manager.address} has {len(await manager.get_queues()):,} queues"


# Any: what the call returns is of no interest, only that it does.
async def _described(attempt: Awaitable[Any], path: str) -> str:
    await attempt
    return path


def _judge_queue(path: str, queue: QueueDescription | None) -> Finding:
    """An existing queue is used as it is; that it differs is worth a word, and no failure unless it cannot work."""
    from tandem.pairing.backlog import backlog_queue_description

    what = f"backlog queue {path.rpartition('/')[2]}"
    if queue is None:
        return Finding(what, True, f"{path} does not exist yet; pairing makes it")
    wanted = backlog_queue_description(path)
    differing = [
        f"{field} is {getattr(queue, field)} (usually {getattr(wanted, field)})"
        for field in _COMPARED
        if getattr(queue, field) != getattr(wanted, field)
    ]
    is_usable = not queue.requires_session and queue.status.value == "Active"
    if queue.requires_session:
        differing.append("requires_session is true: diverted messages have no session id")
    return Finding(what, is_usable, "; ".join([path, *differing]))


_COMPARED: Final = (
    "max_size_in_megabytes",
    "max_delivery_count",
    "default_message_time_to_live",
    "auto_delete_on_idle",
    "lock_duration",
    "dead_lettering_on_message_expiration",
    "status",
)


# --- status ---------------------------------------------------------------------------------------------------------


@app.command("status")
def show_status(
    secondary: Secondary,
    primary_namespace: PrimaryNamespace = None,
    connection_string: Connection = None,
    as_json: AsJson = False,
) -> None:
    """Show the backlog, and the state of each entity as paired clients have reported it.

    `last heard` says when a client reported last, and whether it was closed, or is gone: an entity that failed over is
    pinged, and pings are reported.

    \b
    Examples:
      tandem pair status --secondary "$SECONDARY"
    """
    name = name_of(primary_string(connection_string), primary_namespace)
    queues, entities = asyncio.run(_status(secondary, name))
    if as_json:
        now = datetime.now(UTC)
        clients = [{**one, "client_state": presence(one, now)} for one in entities]
        print_json({"primary_namespace": name, "backlog_queues": queues, "entities": clients})
        return
    if queues:
        rows = [(one["path"], f"{one['active']:,}", f"{one['dead_lettered']:,}", f"{one['bytes']:,}") for one in queues]
        print_table(("backlog queue", "messages", "dead letters", "bytes"), rows, ("messages", "dead letters", "bytes"))
    else:
        typer.echo(f"There are no backlog queues of {name}: nothing was paired yet.")
    if entities:
        typer.echo()
        now = datetime.now(UTC)
        for one in entities:
            one |= {"since": age_text(one["since"], now), "last heard": last_heard_text(one, now)}
        columns = ("entity", "state", "since", "client", "last heard", "diverted", "syphoned")
        print_table(
            columns,
            [[neutral(str(one[column])) for column in columns] for one in entities],
            ("diverted", "syphoned"),
            ("state", "since"),
        )


async def _status(secondary: str, name: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from tandem.client import NamespaceManager
    from tandem.pairing.backlog import backlog_queue_path

    manager = NamespaceManager.from_connection_string(secondary, client_settings())
    prefix = backlog_queue_path(name, 0)[:-1].lower()
    queues = [queue for queue in await manager.get_queues() if queue.path.lower().startswith(prefix)]
    queues.sort(key=lambda queue: (len(queue.path), queue.path))
    described = [
        {
            "path": queue.path,
            "active": queue.active_message_count or 0,
            "dead_lettered": queue.dead_letter_message_count or 0,
            "bytes": queue.size_in_bytes or 0,
        }
        for queue in queues
    ]
    return described, summarize(await _read_events(secondary))


async def _read_events(secondary: str) -> list[dict[str, Any]]:
    """What clients told last, oldest first. A secondary without such a hub has none."""
    from tandem.client import EventHubClient, EventPosition, MessagingError
    from tandem.pairing.events import CLIENTS_PARTITION, OPERATIONS_HUB

    events: list[dict[str, Any]] = []
    async with EventHubClient.from_connection_string(secondary, OPERATIONS_HUB, client_settings()) as hub:
        try:
            partition = await hub.get_partition_properties(CLIENTS_PARTITION)
        except MessagingError:
            return []
        last = partition.last_enqueued_sequence_number
        first = max(partition.beginning_sequence_number, last - _MAX_EVENTS + 1)
        position = EventPosition.from_sequence_number(first, is_inclusive=True)
        consumer = hub.create_consumer("$Default", CLIENTS_PARTITION, position)
        read = first - 1
        while not partition.is_empty and read < last:
            batch = await consumer.receive_batch(1_000, _READ_TIMEOUT_S)
            if not batch:
                break
            read = batch[-1].sequence_number or last
            events += [event for event in map(_event, [one.body for one in batch]) if event is not None]
    return events


def _event(body: bytes) -> dict[str, Any] | None:
    """Anybody with the right may write to the hub: what is no event of a pair is passed over."""
    try:
        event = json.loads(body)
    except ValueError:
        return None
    is_event = isinstance(event, dict) and event.get("kind") == "pairing" and isinstance(event.get("entity"), str)
    return event if is_event else None


def summarize(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last state of each entity for each client, when that was heard of, and how many messages it moved."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    clients: dict[str, dict[str, Any]] = {}
    for event in events:
        key = (event["entity"], str(event.get("client")))
        kind = event.get("event")
        note_client(clients.setdefault(key[1], {"ping_interval_s": None}), event)
        if kind == "closed":
            # It is about the client, and not about an entity.
            continue
        one = found.setdefault(
            key,
            {"entity": key[0], "client": key[1], "state": "healthy", "since": "", "diverted": 0, "syphoned": 0},
        )
        if kind in _STATE_EVENTS:
            one["state"] = "healthy" if kind == "restored" else kind
            one["since"] = event.get("time")
        elif kind in {"diverted", "syphoned"} and isinstance(event.get("count"), int):
            one[kind] += event["count"]
    known = [one | clients[one["client"]] for one in found.values()]
    return sorted(known, key=lambda one: (one["entity"], one["client"]))
