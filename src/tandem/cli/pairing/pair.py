"""`tandem pair`: whether two namespaces can be a pair, and how a pair is doing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tandem.cli.pairing.backlog import Backlog, Demand
from tandem.cli.pairing.capacity import MessageBytes, MessageRate, parse_rate, parse_seconds
from tandem.cli.pairing.paired_clients import age_text, last_heard_text, note_client, presence
from tandem.cli.shared.broker import broker_of
from tandem.cli.shared.commands import command_group
from tandem.cli.shared.failure import CommandFailed
from tandem.cli.shared.options import AsJson, Connection
from tandem.cli.shared.output import neutral, print_json, print_table

if TYPE_CHECKING:
    from tandem.client import MessagingFactorySettings, NamespaceManager, QueueDescription
    from tandem.pairing.ownership import BacklogOwner

__all__ = ["BacklogQueues", "PrimaryNamespace", "Secondary", "app", "client_settings", "owner_of", "primary_string"]

app = command_group(
    "Paired namespaces: sends go on while the primary cannot be sent to.",
    "The primary is the broker of --connection-string, the secondary that of --secondary.",
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
        show_default="as the primary reports it",
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


def owner_of(primary: str, secondary: str, name: str | None) -> BacklogOwner:
    """Find out who the primary is, as far as the namespaces can be asked now."""
    return asyncio.run(_owner(primary, secondary, name))


async def _owner(primary: str, secondary: str, name: str | None) -> BacklogOwner:
    from tandem.client import MessagingError, MessagingFactory, NamespaceManager
    from tandem.connection_string import ServiceAddress
    from tandem.pairing.backlog import list_backlog_queues
    from tandem.pairing.first_contact import reach
    from tandem.pairing.ownership import Reached, resolve_owner

    try:
        queues = await list_backlog_queues(NamespaceManager.from_connection_string(secondary, client_settings()))
    except MessagingError:
        queues = []
    async with MessagingFactory.from_connection_string(primary, client_settings()) as factory:
        try:
            reached = await reach(factory, allow_unresolved=True)
        except MessagingError:
            # The command goes on to say what is wrong with it.
            reached = Reached(False)
        return resolve_owner(ServiceAddress.parse(factory.address), reached, name, queues)


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
    demand = Demand(parse_rate(rate), message_bytes, parse_seconds(outage, "--outage", allow_zero=True))
    if demand.outage_s and demand.messages_per_second is None:
        raise CommandFailed(f"--outage is {outage!r:.40}; give --rate too: how much an outage brings depends on it")
    owner = owner_of(primary, secondary, primary_namespace)
    name = owner.name
    findings = asyncio.run(_check(primary, secondary, owner, backlog_queues, demand))
    is_ok = all(finding.is_ok for finding in findings)
    if as_json:
        print_json({"is_ok": is_ok, "primary_namespace": name, "findings": [asdict(one) for one in findings]})
    else:
        rows = [("ok" if one.is_ok else "NO", one.what, neutral(one.detail)) for one in findings]
        print_table(("", "what", "detail"), rows)
    if not is_ok:
        raise typer.Exit(1)


async def _check(primary: str, secondary: str, owner: BacklogOwner, count: int, demand: Demand) -> list[Finding]:
    from tandem.client import MessagingFactory, NamespaceManager
    from tandem.pairing.backlog import backlog_queue_path

    settings = client_settings()
    primary_manager = NamespaceManager.from_connection_string(primary, settings)
    manager = NamespaceManager.from_connection_string(secondary, settings)
    findings = [await _look("primary: can be reached", _reach(primary_manager))]
    findings.append(await _look("pair: two different namespaces", _different(primary_manager, secondary, owner)))
    manage = await _look("secondary: can be reached, with the right Manage", _count_queues(manager))
    findings.append(manage)
    if not manage.is_ok:
        return findings
    paths = [backlog_queue_path(owner.name, index) for index in range(count)]
    found = {queue.path.lower(): queue for queue in await manager.get_queues()}
    existing = [path for path in paths if path.lower() in found]
    findings += [_judge_queue(path, found.get(path.lower()), owner, manager.address) for path in paths]
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


async def _different(primary: NamespaceManager, secondary: str, owner: BacklogOwner) -> str:
    from tandem.client import MessagingFactory
    from tandem.pairing.first_contact import require_two_namespaces

    async with MessagingFactory.from_connection_string(secondary, client_settings()) as factory:
        await require_two_namespaces(owner, primary.address, factory)
        return factory.address


async def _count_queues(manager: NamespaceManager) -> str:
    return f"{manager.address} has {len(await manager.get_queues()):,} queues"


# Any: what the call returns is of no interest, only that it does.
async def _described(attempt: Awaitable[Any], path: str) -> str:
    await attempt
    return path


def _judge_queue(path: str, queue: QueueDescription | None, owner: BacklogOwner, secondary: str) -> Finding:
    """Report how an existing queue differs from one that pairing makes; not ok if it cannot work or loses messages."""
    from tandem.pairing.backlog import backlog_queue_description, loss_risks
    from tandem.pairing.ownership import ForeignBacklogError, backlog_queues_of

    what = f"backlog queue {path.rpartition('/')[2]}"
    if queue is None:
        return Finding(what, True, f"{path} does not exist yet; pairing makes it")
    try:
        owner.require_own(backlog_queues_of([queue]), secondary)
    except ForeignBacklogError as error:
        return Finding(what, False, str(error))
    wanted = backlog_queue_description(path)
    details = loss_risks(queue)
    is_usable = not details and not queue.requires_session and queue.status.value == "Active"
    details += [
        f"{field} is {getattr(queue, field)} (usually {getattr(wanted, field)})"
        for field in _COMPARED
        if getattr(queue, field) != getattr(wanted, field)
    ]
    if queue.requires_session:
        details.append("requires_session is true: diverted messages have no session id")
    return Finding(what, is_usable, "; ".join([path, *details]))


# Beside those of which `loss_risks` speaks.
_COMPARED: Final = ("max_size_in_megabytes", "lock_duration", "dead_lettering_on_message_expiration", "status")


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
    pinged, and pings are reported. Warns if messages wait and no syphon has polled the backlog for 20 minutes, where
    the secondary is a Tandem broker.

    \b
    Examples:
      tandem pair status --secondary "$SECONDARY"
    """
    owner = owner_of(primary_string(connection_string), secondary, primary_namespace)
    name = owner.name
    queues, entities = asyncio.run(_status(secondary, owner))
    stranded = find_stranded(secondary, name)
    if as_json:
        now = datetime.now(UTC)
        clients = [{**one, "client_state": presence(one, now)} for one in entities]
        print_json({"primary_namespace": name, "backlog_queues": queues, "entities": clients, "stranded": stranded})
        return
    if queues:
        rows = [(one["path"], f"{one['active']:,}", f"{one['dead_lettered']:,}", f"{one['bytes']:,}") for one in queues]
        print_table(("backlog queue", "messages", "dead letters", "bytes"), rows, ("messages", "dead letters", "bytes"))
    else:
        typer.echo(f"There are no backlog queues of {name}: nothing was paired yet.")
    if stranded is not None:
        typer.echo()
        typer.echo(
            f"WARNING: no syphon has polled the backlog since {stranded['polled_at']},\n"
            f"and {stranded['message_count']:,} messages wait in it. Run `tandem syphon run`."
        )
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


async def _status(secondary: str, owner: BacklogOwner) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from tandem.client import NamespaceManager
    from tandem.limits import MAX_BACKLOG_QUEUES
    from tandem.pairing.backlog import list_backlog_queues

    manager = NamespaceManager.from_connection_string(secondary, client_settings())
    found = await list_backlog_queues(manager)
    queues = [queue.description for queue in owner.select(found, MAX_BACKLOG_QUEUES)]
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


def find_stranded(secondary: str, name: str) -> dict[str, Any] | None:
    """The warning of the secondary about this backlog. A secondary that is not a Tandem broker reports none."""
    from tandem.connection_string import ConnectionString
    from tandem.errors import TandemError
    from tandem.management.client import ManagementClient

    try:
        health = ManagementClient(ConnectionString.parse(secondary)).request("GET", "/health")
    except TandemError:
        return None
    for warning in health.get("warnings", []):
        # Only a warning that names its backlog is of use here.
        if isinstance(warning, dict) and str(warning.get("primary_namespace")).lower() == name.lower():
            return {key: warning[key] for key in ("message_count", "queue_count", "polled_at")}
    return None


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
    # Events about the pair as a whole name no entity; of these, only the end of a client matters here.
    is_event = is_event and (bool(event["entity"]) or event.get("event") == "closed")
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
