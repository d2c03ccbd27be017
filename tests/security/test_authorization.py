"""Who may do what: every way in, for everybody who could come.

    none        no token                         own         all rights, to the entities that are asked for
    listen      a rule of the namespace, Listen  other       all rights, to another queue
    send        the same, Send                   expired     a token of `manage` whose time is over
    manage      the same, Manage                 tampered    a token of `manage` that was given more time

Each table says for every operation who may. All others are refused, and change nothing.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
from yarl import URL

from tandem.amqp import Coordinator, Message, Source, Target
from tandem.amqp.message import encode_message
from tandem.amqp.types import LONG_TYPE, UUID_TYPE, Array, Symbol
from tandem.auth import AuthorizationRule, Right
from tandem.driver import Client, Sender
from tandem.errors import RemoteError
from tandem.server.nodes.management import _OPERATIONS
from tests.markers import mission
from tests.security.desk import (
    EXPIRED,
    HUB,
    NONE,
    OTHER,
    QUEUE,
    ROLES,
    SESSIONS,
    STRANGE,
    SUBSCRIPTION,
    TAMPERED,
    TOPIC,
    Desk,
    open_desk,
    request,
)

LOCK: Final = uuid.UUID(int=1)
EVERYBODY: Final = " ".join(ROLES)
UNAUTHORIZED: Final = "amqp:unauthorized-access"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    async with open_desk(tmp_path / "data") as desk:
        yield desk


# --- HTTP -----------------------------------------------------------------------------------------------------------

_ONE: Final = f"/$api/v1/topics/{TOPIC}/subscriptions/all"
HTTP: Final[dict[str, str]] = {
    # Whether anybody is there, and what could be asked: for everybody.
    "GET /health": EVERYBODY,
    "GET /$api/v1/openapi.json": EVERYBODY,
    # The JSON API: whoever may do anything with an entity may look at it; nobody sees keys there.
    "GET /$api/v1/queues": "listen send manage",
    f"GET /$api/v1/queues/{QUEUE}": "listen send manage own",
    f"PUT /$api/v1/queues/{QUEUE}": "manage own",
    f"PATCH /$api/v1/queues/{QUEUE}": "manage own",
    f"DELETE /$api/v1/queues/{QUEUE}": "manage own",
    "GET /$api/v1/topics": "listen send manage",
    f"GET /$api/v1/topics/{TOPIC}": "listen send manage own",
    f"PUT /$api/v1/topics/{TOPIC}": "manage own",
    f"PATCH /$api/v1/topics/{TOPIC}": "manage own",
    f"DELETE /$api/v1/topics/{TOPIC}": "manage own",
    f"POST /$api/v1/topics/{TOPIC}/explain": "listen send manage own",
    f"GET /$api/v1/topics/{TOPIC}/subscriptions": "listen send manage own",
    f"GET {_ONE}": "listen send manage own",
    f"PUT {_ONE}": "manage own",
    f"PATCH {_ONE}": "manage own",
    f"DELETE {_ONE}": "manage own",
    f"GET {_ONE}/rules": "listen send manage own",
    f"GET {_ONE}/rules/extra": "listen send manage own",
    f"PUT {_ONE}/rules/extra": "manage own",
    f"PATCH {_ONE}/rules/extra": "manage own",
    f"DELETE {_ONE}/rules/extra": "manage own",
    "GET /$api/v1/hubs": "listen send manage",
    "GET /$api/v1/hubs?all=true": "listen send manage",
    f"GET /$api/v1/hubs/{HUB}": "listen send manage own",
    f"PUT /$api/v1/hubs/{HUB}": "manage own",
    f"PATCH /$api/v1/hubs/{HUB}": "manage own",
    f"DELETE /$api/v1/hubs/{HUB}": "manage own",
    f"GET /$api/v1/hubs/{HUB}/consumer-groups": "listen send manage own",
    f"GET /$api/v1/hubs/{HUB}/consumer-groups/extra": "listen send manage own",
    f"PUT /$api/v1/hubs/{HUB}/consumer-groups/new": "manage own",
    f"DELETE /$api/v1/hubs/{HUB}/consumer-groups/extra": "manage own",
    # Processors that share the partitions of a hub are receivers.
    f"GET /$api/v1/hubs/{HUB}/consumer-groups/extra/ownerships": "listen manage own",
    f"POST /$api/v1/hubs/{HUB}/consumer-groups/extra/ownerships": "listen manage own",
    f"GET /$api/v1/hubs/{HUB}/consumer-groups/extra/checkpoints": "listen manage own",
    f"PUT /$api/v1/hubs/{HUB}/consumer-groups/extra/checkpoints/0": "listen manage own",
    f"GET /$api/v1/hubs/{HUB}/partitions": "listen send manage own",
    f"GET /$api/v1/hubs/{HUB}/partitions?at_ms=1": "listen send manage own",
    f"GET /$api/v1/hubs/{HUB}/partitions/0": "listen send manage own",
    # Reading events is receiving, whatever they are read as.
    f"GET /$api/v1/hubs/{HUB}/partitions/0/events": "listen manage own",
    f"GET /$api/v1/hubs/{HUB}/partitions/0/events?format=json": "listen manage own",
    # What the broker writes down is about all entities: a key to one of them does not open it.
    "GET /$api/v1/hubs/$operations": "listen send manage",
    "GET /$api/v1/hubs/$operations/partitions/0/events?format=json": "listen manage",
    "PATCH /$api/v1/hubs/$operations": "manage",
    # Operations on messages: looking at them is receiving, and all else is managing.
    f"GET /$api/v1/entities/{QUEUE}/messages": "listen manage own",
    f"GET /$api/v1/entities/{SESSIONS}/sessions": "listen manage own",
    f"GET /$api/v1/entities/{SESSIONS}/sessions/a/state": "listen manage own",
    f"PUT /$api/v1/entities/{SESSIONS}/sessions/a/state": "listen manage own",
    f"DELETE /$api/v1/entities/{SESSIONS}/sessions/a/state": "listen manage own",
    f"POST /$api/v1/entities/{QUEUE}/purge": "manage own",
    f"POST /$api/v1/entities/{QUEUE}/resubmit": "manage",
    f"POST /$api/v1/entities/{QUEUE}/move": "manage",
    f"POST /$api/v1/entities/{QUEUE}/undefer": "manage own",
    "GET /$api/v1/jobs": "manage",
    "GET /$api/v1/jobs/none": "manage",
    "DELETE /$api/v1/jobs/none": "manage",
    "GET /$api/v1/namespace": "listen send manage",
    "PATCH /$api/v1/namespace": "manage",
    "GET /$api/v1/counts": "listen send manage",
    # Who may manage the namespace may let it fail.
    "GET /$api/v1/diagnosis": "manage",
    "GET /$api/v1/faults": "manage",
    "POST /$api/v1/faults": "manage",
    "DELETE /$api/v1/faults": "manage",
    "GET /$api/v1/faults/1": "manage",
    "DELETE /$api/v1/faults/1": "manage",
    "GET /$api/v1/export": "manage",
    "POST /$api/v1/import": "manage",
    # Keys of the namespace, and of an entity.
    "GET /$api/v1/authorization-rules": "manage",
    f"GET /$api/v1/authorization-rules?entity={QUEUE}": "manage own",
    "GET /$api/v1/authorization-rules/send": "manage",
    "PUT /$api/v1/authorization-rules/new": "manage",
    f"PUT /$api/v1/authorization-rules/new?entity={QUEUE}": "manage own",
    "DELETE /$api/v1/authorization-rules/send": "manage",
    "POST /$api/v1/authorization-rules/send/rotate": "manage",
    # The management API of the service.
    "GET /$namespaceinfo": "manage",
    "GET /$Resources/queues": "manage",
    "GET /$Resources/topics": "manage",
    f"GET /{QUEUE}": "manage own",
    f"PUT /{QUEUE}": "manage own",
    f"DELETE /{QUEUE}": "manage own",
    f"GET /{TOPIC}": "manage own",
    f"PUT /{TOPIC}": "manage own",
    f"DELETE /{TOPIC}": "manage own",
    f"GET /{TOPIC}/subscriptions": "manage own",
    f"GET /{SUBSCRIPTION}": "manage own",
    f"PUT /{SUBSCRIPTION}": "manage own",
    f"DELETE /{SUBSCRIPTION}": "manage own",
    f"GET /{SUBSCRIPTION}/rules": "manage own",
    f"GET /{SUBSCRIPTION}/rules/extra": "manage own",
    f"PUT /{SUBSCRIPTION}/rules/extra": "manage own",
    f"DELETE /{SUBSCRIPTION}/rules/extra": "manage own",
    # Messages over HTTP.
    f"POST /{QUEUE}/messages": "send manage own",
    f"POST /{TOPIC}/messages": "send manage own",
    f"POST /{HUB}/messages": "send manage own",
    f"POST /{HUB}/partitions/0/messages": "send manage own",
    f"POST /{HUB}/publishers/me/messages": "send manage own",
    f"POST /{QUEUE}/messages/head?timeout=0": "listen manage own",
    f"DELETE /{QUEUE}/messages/head?timeout=0": "listen manage own",
    f"POST /{QUEUE}/$DeadLetterQueue/messages/head?timeout=0": "listen manage own",
    f"POST /{SUBSCRIPTION}/messages/head?timeout=0": "listen manage own",
    f"POST /{QUEUE}/messages/1/{LOCK}": "listen manage own",
    f"PUT /{QUEUE}/messages/1/{LOCK}": "listen manage own",
    f"DELETE /{QUEUE}/messages/1/{LOCK}": "listen manage own",
}
# What no row is needed for: nothing is behind these, and a WebSocket carries AMQP.
WITHOUT_A_ROW: Final = {"/$api{path}", "/$servicebus/websocket", "/$servicebus/websocket/"}

_ATOM: Final = '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><{}/></content></entry>'


def body_of(method: str, path: str) -> bytes:
    """What an honest client would send."""
    if path.startswith("/$api/"):
        bodies = {
            "/purge": b'{"state": "active"}',
            "/move": f'{{"target": "{STRANGE}", "state": "active"}}'.encode(),
            "/resubmit": f'{{"target": "{STRANGE}"}}'.encode(),
            "/undefer": b"{}",
            "/state": b'{"state": "x"}',
            "/import": b"{}",
            "/ownerships": b'{"claims": [{"partition": "0", "owner_id": "a"}]}',
            "/checkpoints/0": b'{"sequence_number": 1}',
            "/authorization-rules/new": b'{"rights": ["Send"]}',
        }
        known = [body for end, body in bodies.items() if path.partition("?")[0].endswith(end)]
        return known[0] if known else b"{}"
    if method != "PUT" or "/messages/" in path:
        return b"body" if method == "POST" else b""
    if path.endswith("/rules/extra"):
        return _ATOM.format("RuleDescription").encode()
    if path == f"/{SUBSCRIPTION}":
        return _ATOM.format("SubscriptionDescription").encode()
    return _ATOM.format("TopicDescription" if path == f"/{TOPIC}" else "QueueDescription").encode()


@mission("M4", "M17")
@pytest.mark.parametrize("operation", HTTP)
async def test_over_http_only_they_may(desk: Desk, operation: str) -> None:
    method, path = operation.split(" ")
    allowed = HTTP[operation].split()
    for role in ROLES:
        await desk.furnish()
        before = desk.inventory()
        token = "" if role == NONE else desk.token(role)
        answer = await desk.ask(method, path, body_of(method, path), token=token)
        is_refused = answer.status in {401, 403}
        assert is_refused is (role not in allowed), f"{role}: {answer}"
        assert answer.status < 500, f"{role}: {answer}"
        if is_refused:
            assert answer.status == 401
            assert desk.inventory() == before, role


async def test_every_route_has_a_row(desk: Desk) -> None:
    router = desk.broker.http.router
    found: set[str] = set()
    for operation in HTTP:
        method, path = operation.split(" ")
        url = URL(f"{desk.base}{path}", encoded=True)
        for resource in router.resources():
            match, _ = await resource.resolve(_Request(method, url))  # type: ignore[arg-type] # all that it looks at
            if match is not None:
                found |= {f"{one} {resource.canonical}" for one in (method,)}
                break
    wanted = {
        f"{route.method} {resource.canonical}"
        for resource in router.resources()
        for route in resource
        if resource.canonical not in WITHOUT_A_ROW
    }
    # Methods that nobody has are refused where they are not met by one of the rows.
    wanted = {route for route in wanted if not route.startswith(("* /", "HEAD "))}
    assert wanted <= found, wanted - found


class _Request:
    def __init__(self, method: str, url: URL) -> None:
        self.method = method
        self.rel_url = url.relative()
        self.url = url
        self.match_info = None


# --- links ----------------------------------------------------------------------------------------------------------

Attach = Callable[[Client], Awaitable[Any]]


def session_filter(session_id: str | None) -> Source:
    return Source(SESSIONS, filter={Symbol("com.microsoft:session-filter"): session_id})


async def send_by_way(client: Client) -> None:
    """To another queue, by way of one's own."""
    session = await client._session
    properties: dict[object, object] = {Symbol("com.microsoft:transfer-destination-address"): STRANGE}
    link = session.attach_sender("via", Target(QUEUE), properties=properties)
    await client._attach(link, Sender(client.endpoint, link))


LINKS: Final[dict[str, tuple[str, Attach]]] = {
    "a sender": ("send manage own", lambda client: client.sender(QUEUE)),
    "a sender to a topic": ("send manage own", lambda client: client.sender(TOPIC)),
    "a sender by way of another queue": ("send manage", send_by_way),
    "a receiver": ("listen manage own", lambda client: client.receiver(QUEUE)),
    "a receiver that deletes": ("listen manage own", lambda client: client.receiver(QUEUE, is_settled=True)),
    "a receiver of a subscription": ("listen manage own", lambda client: client.receiver(SUBSCRIPTION)),
    "a receiver of a session": ("listen manage own", lambda client: client.receiver(session_filter("a"))),
    "a receiver of dead letters": ("listen manage own", lambda client: client.receiver(f"{QUEUE}/$DeadLetterQueue")),
    "a receiver of transfer dead letters": (
        "listen manage own",
        lambda client: client.receiver(f"{QUEUE}/$Transfer/$DeadLetterQueue"),
    ),
    "requests to $management": ("listen send manage own", lambda client: client.sender(f"{QUEUE}/$management")),
    "answers of $management": ("listen send manage own", lambda client: client.receiver(f"{QUEUE}/$management")),
    # Anybody may have a transaction: what is done in it needs its own rights.
    "a coordinator": (EVERYBODY, lambda client: client.sender(Coordinator())),
    "requests to $cbs": (EVERYBODY, lambda client: client.sender("$cbs")),
    "answers of $cbs": (EVERYBODY, lambda client: client.receiver("$cbs")),
}

HUB_LINKS: Final[dict[str, tuple[str, Attach]]] = {
    "a sender to a hub": ("send manage own", lambda client: client.sender(HUB)),
    "a sender to a partition": ("send manage own", lambda client: client.sender(f"{HUB}/Partitions/0")),
    "a receiver of events": (
        "listen manage own",
        lambda client: client.receiver(f"{HUB}/ConsumerGroups/$Default/Partitions/0"),
    ),
}


async def is_refused(attach: Awaitable[Any]) -> bool:
    try:
        await attach
    except RemoteError as error:
        return error.condition == UNAUTHORIZED
    return False


async def log_in(desk: Desk, role: str, entities: tuple[str, ...] = (QUEUE, SESSIONS, TOPIC)) -> Client:
    """A connection with a token for each entity that is to be used, as the SDKs put them."""
    client = await desk.connect()
    if role == NONE:
        return client
    audiences = [STRANGE] if role == OTHER else [*entities]
    # Who has rights to everything has them also there.
    audiences += [STRANGE] if role in {"listen", "send", "manage"} else []
    for audience in audiences:
        status = await desk.put_token(client, desk.token(role, audience), f"sb://127.0.0.1/{audience}")
        assert status == (401 if role in {EXPIRED, TAMPERED} else 202)
    return client


@mission("M17")
@pytest.mark.parametrize("kind", LINKS)
async def test_over_amqp_only_they_may_have(desk: Desk, kind: str) -> None:
    allowed, attach = LINKS[kind]
    for role in ROLES:
        async with await log_in(desk, role) as client:
            assert await is_refused(attach(client)) is (role not in allowed.split()), role


@mission("M17")
@pytest.mark.parametrize("kind", HUB_LINKS)
async def test_over_amqp_only_they_may_have_events(desk: Desk, kind: str) -> None:
    allowed, attach = HUB_LINKS[kind]
    for role in ROLES:
        async with await log_in(desk, role, (HUB,)) as client:
            assert await is_refused(attach(client)) is (role not in allowed.split()), role


@mission("M17")
@pytest.mark.parametrize("kind", [*LINKS, *HUB_LINKS])
async def test_who_logs_in_with_a_key_may_have_the_same(desk: Desk, kind: str) -> None:
    allowed, attach = {**LINKS, **HUB_LINKS}[kind]
    for role in ("listen", "send", "manage", "own", "other"):
        async with await desk.connect(role, f"key-{role}") as client:
            assert await is_refused(attach(client)) is (role not in allowed.split()), role


# --- $management ----------------------------------------------------------------------------------------------------

_TOKENS: Final = {"lock-tokens": Array(UUID_TYPE, [LOCK])}
_NUMBERS: Final = {"sequence-numbers": Array(LONG_TYPE, [1])}
_SESSION: Final = {"session-id": "a"}
MANAGEMENT: Final[dict[str, tuple[str, str, dict[str, object]]]] = {
    "renew-lock": ("listen manage own", QUEUE, {**_TOKENS}),
    "update-disposition": ("listen manage own", QUEUE, {**_TOKENS, "disposition-status": "completed"}),
    "peek-message": ("listen manage own", QUEUE, {"from-sequence-number": 0, "message-count": 1}),
    "receive-by-sequence-number": ("listen manage own", QUEUE, {**_NUMBERS}),
    "batch-delete-messages": ("listen manage own", QUEUE, {"message-count": 1}),
    "schedule-message": ("send manage own", QUEUE, {"messages": [{"message": encode_message(data=b"x")}]}),
    "cancel-scheduled-message": ("send manage own", QUEUE, {**_NUMBERS}),
    "renew-session-lock": ("listen manage own", SESSIONS, {**_SESSION}),
    "set-session-state": ("listen manage own", SESSIONS, {**_SESSION, "session-state": b"x"}),
    "get-session-state": ("listen manage own", SESSIONS, {**_SESSION}),
    "get-message-sessions": ("listen manage own", SESSIONS, {"skip": 0, "top": 1}),
    "add-rule": (
        "manage own",
        SUBSCRIPTION,
        {"rule-name": "new", "rule-description": {"sql-filter": {"expression": "a = 1"}}},
    ),
    "remove-rule": ("manage own", SUBSCRIPTION, {"rule-name": "extra"}),
    "enumerate-rules": ("manage own", SUBSCRIPTION, {"skip": 0, "top": 10}),
}


def test_every_operation_has_a_row() -> None:
    assert set(MANAGEMENT) == set(_OPERATIONS)


async def ask_management(client: Client, entity: str, operation: str, body: dict[str, object]) -> Message | None:
    """The answer; None if not even the links are allowed."""
    properties: dict[str, object] = {"operation": f"com.microsoft:{operation}"}
    if await is_refused(client.sender(f"{entity}/$management")):
        return None
    return await request(client, f"{entity}/$management", properties, dict(body))


@mission("M17")
@pytest.mark.parametrize("operation", MANAGEMENT)
async def test_over_management_only_they_may(desk: Desk, operation: str) -> None:
    allowed, entity, body = MANAGEMENT[operation]
    for role in ROLES:
        await desk.furnish()
        before = desk.inventory()
        async with await log_in(desk, role) as client:
            answer = await ask_management(client, entity, operation, body)
            if answer is None:
                assert role not in allowed.split(), role
                continue
            properties = answer.application_properties or {}
            is_allowed = properties["statusCode"] != 401
            assert is_allowed is (role in allowed.split()), f"{role}: {properties}"
            if not is_allowed:
                assert properties["errorCondition"] == UNAUTHORIZED
                assert desk.inventory() == before


# --- ways around ----------------------------------------------------------------------------------------------------


@mission("M17")
@pytest.mark.parametrize(
    "pattern, replacement",
    [
        (r"sr=[^&]*", "sr=sb%3A%2F%2F127.0.0.1%2F"),
        (r"se=(\d+)", r"se=1\1"),
        (r"skn=[^&]*", "skn=listen"),
        (r"sig=[^&]*", "sig="),
        (r"sig=[^&]*", "sig=AAAA"),
        (r"&sig=[^&]*", ""),
        (r"&skn=[^&]*", ""),
        (r"$", "&skn=manage"),
        (r"$", "&se=99999999999"),
        ("SharedAccessSignature", "SharedAccess"),
        ("^.*$", "Bearer abc"),
        ("^.*$", "Bearer eyJhbGciOiJub25lIn0.eyJyb2xlcyI6WyJBenVyZSBTZXJ2aWNlIEJ1cyBEYXRhIE93bmVyIl19."),
    ],
    ids=range(12),
)
async def test_no_part_of_a_token_can_be_changed(desk: Desk, pattern: str, replacement: str) -> None:
    token = desk.token("manage", STRANGE)
    assert (await desk.ask("GET", f"/{STRANGE}", token=token)).status == 200
    changed = re.sub(pattern, replacement, token, count=1)
    assert changed != token
    for path in (f"/{STRANGE}", f"/$api/v1/queues/{STRANGE}", f"/{QUEUE}"):
        answer = await desk.ask("GET", path, token=changed)
        assert answer.status == 401
        assert "key-manage" not in answer.text
        assert changed not in answer.text
    async with await desk.connect() as client:
        assert await desk.put_token(client, changed, f"sb://127.0.0.1/{STRANGE}") in {400, 401}


@mission("M17")
async def test_a_token_is_good_below_what_it_is_for_and_nowhere_else(desk: Desk) -> None:
    token = desk.token("manage", QUEUE)
    for path in (f"/{QUEUE}", f"/{QUEUE.upper()}", f"/{QUEUE}?api-version=2021-05", f"/$api/v1/queues/{QUEUE}"):
        assert (await desk.ask("GET", path, token=token)).status == 200, path
    for path in (
        "/$Resources/queues",
        "/$namespaceinfo",
        f"/{STRANGE}",
        f"/{SESSIONS}",
        "/$api/v1/queues",
        f"/{TOPIC}",
    ):
        assert (await desk.ask("GET", path, token=token)).status == 401, path


@mission("M17")
async def test_the_name_of_the_host_is_no_way_to_another_path(desk: Desk) -> None:
    """A host of `127.0.0.1/mine` would make `/other` something of `mine`."""
    for role in ("own", "manage"):
        token = desk.token(role, QUEUE)
        for host in (f"127.0.0.1/{QUEUE}", f"127.0.0.1%2F{QUEUE}", f"x@127.0.0.1/{QUEUE}", f"127.0.0.1/{QUEUE}?", ""):
            for method, path in (
                ("DELETE", f"/{STRANGE}"),
                ("POST", f"/{STRANGE}/messages"),
                ("GET", "/$api/v1/queues"),
            ):
                answer = await desk.ask(method, path, token=token, headers={"Host": host})
                assert answer.status in {400, 401}, f"{host!r}: {answer}"
    assert desk.broker.namespace.find(STRANGE) is not None


@mission("M17")
async def test_encodings_of_a_path_are_no_way_to_another(desk: Desk) -> None:
    token = desk.token("other")
    for path in (
        f"/{STRANGE}/../{QUEUE}",
        f"/{STRANGE}/%2e%2e/{QUEUE}",
        f"/{STRANGE}%2F..%2F{QUEUE}",
        f"/./{QUEUE}",
        f"//{QUEUE}",
        f"/%2F{QUEUE}",
        f"/{QUEUE}%00",
        f"/{QUEUE}%3F{STRANGE}",
        f"/{QUEUE};{STRANGE}",
        f"/{QUEUE}#/{STRANGE}",
        f"/$api/v1/queues/{STRANGE}%2F..%2F{QUEUE}",
        f"/$api/v1/queues/{STRANGE}/../{QUEUE}",
        f"/$api/v1/queues//{QUEUE}",
        f"/$api/v1/entities/{STRANGE}%2F..%2F{QUEUE}/messages",
    ):
        answer = await desk.ask("GET", path, token=token)
        # What normalises to the other queue is refused, and all else is something of one's own that does not exist.
        assert answer.status in {400, 401, 404} or "Publicly Listed Services" in answer.text, f"{path}: {answer}"
        assert "LockDuration" not in answer.text
        assert "lock_duration_ms" not in answer.text


@mission("M17")
async def test_to_forward_needs_the_right_to_send_there(desk: Desk) -> None:
    """A token for one's own URL says nothing about the queue that the body names."""
    atom = _ATOM.format("QueueDescription").replace(
        "<QueueDescription/>", f"<QueueDescription><ForwardTo>{STRANGE}</ForwardTo></QueueDescription>"
    )
    json_body = f'{{"forward_to": "{STRANGE}"}}'.encode()
    dead_letters = f'{{"forward_dead_lettered_messages_to": "{STRANGE}"}}'.encode()
    narrow = desk.token("manage", QUEUE)
    of_url = desk.token("manage", f"$api/v1/queues/{QUEUE}")
    for token in (desk.token("own"), narrow, of_url):
        for method, path, body in (
            ("PATCH", f"/$api/v1/queues/{QUEUE}", json_body),
            ("PATCH", f"/$api/v1/queues/{QUEUE}", dead_letters),
            ("PUT", f"/{QUEUE}", atom.encode()),
        ):
            answer = await desk.ask(method, path, body, token=token, headers={"If-Match": "*"})
            assert answer.status == 401, answer
            bad = {"If-Match": "*", "ServiceBusSupplementaryAuthorization": desk.token("listen")}
            assert (await desk.ask(method, path, body, token=token, headers=bad)).status == 401
    queue = desk.broker.namespace.get(QUEUE)
    assert (queue.description.forward_to, queue.description.forward_dead_lettered_messages_to) == (None, None)
    supplementary = {"If-Match": "*", "ServiceBusSupplementaryAuthorization": desk.token("send")}
    assert (await desk.ask("PUT", f"/{QUEUE}", atom.encode(), token=narrow, headers=supplementary)).status == 200
    assert queue.description.forward_to == STRANGE


@mission("M17")
async def test_a_token_that_is_signed_for_the_url_is_good_for_that_url(desk: Desk) -> None:
    for role in ("send", "own"):
        token = desk.token(role, f"{QUEUE}/messages")
        assert (await desk.ask("POST", f"/{QUEUE}/messages", b"x", token=token)).status == 201
        assert (await desk.ask("POST", f"/{STRANGE}/messages", b"x", token=token)).status == 401
        assert (await desk.ask("GET", f"/{QUEUE}", token=token)).status == 401
    token = desk.token("manage", f"$api/v1/queues/{QUEUE}")
    assert (await desk.ask("GET", f"/$api/v1/queues/{QUEUE}", token=token)).status == 200
    assert (await desk.ask("GET", f"/$api/v1/queues/{STRANGE}", token=token)).status == 401


@mission("M17")
async def test_the_rule_of_a_queue_that_is_named_like_a_path_has_no_say_over_what_lies_there(desk: Desk) -> None:
    rule = AuthorizationRule("own", Right.MANAGE, "key-own", scope=f"{STRANGE}/messages")
    await desk.broker.perform(lambda namespace: namespace.key_ring.put(rule))
    assert (await desk.ask("POST", f"/{STRANGE}/messages", b"x", token=desk.token("own"))).status == 401
    token = desk.token("own", f"{STRANGE}/messages")
    assert (await desk.ask("POST", f"/{STRANGE}/messages", b"x", token=token)).status == 401
    assert (await desk.ask("DELETE", f"/{STRANGE}/messages/head?timeout=0", token=token)).status == 401


@mission("M17")
async def test_keys_are_shown_to_those_who_manage_only(desk: Desk) -> None:
    rule = (
        "<AuthorizationRules><AuthorizationRule><Rights><AccessRights>Send</AccessRights></Rights><KeyName>k</KeyName>"
        "<PrimaryKey>top-secret</PrimaryKey></AuthorizationRule></AuthorizationRules>"
    )
    document = _ATOM.format("QueueDescription").replace(
        "<QueueDescription/>", f"<QueueDescription>{rule}</QueueDescription>"
    )
    assert (await desk.ask("PUT", "/guarded", document.encode(), token=desk.token("manage"))).status == 201
    assert "top-secret" in (await desk.ask("GET", "/guarded", token=desk.token("manage"))).text
    for path in ("/$api/v1/queues/guarded", "/$api/v1/queues", "/$api/v1/export"):
        for role in ("listen", "send"):
            assert "top-secret" not in (await desk.ask("GET", path, token=desk.token(role))).text
    assert "top-secret" not in (await desk.ask("GET", "/$api/v1/queues", token=desk.token("manage"))).text


@mission("M17")
async def test_what_is_missing_looks_like_what_one_may_not_see(desk: Desk) -> None:
    """Only who may see an entity learns whether there is one."""
    for method, path in (("GET", "/{}"), ("DELETE", "/{}"), ("GET", "/$api/v1/queues/{}"), ("POST", "/{}/messages")):
        for token in ("", desk.token("other"), desk.token(EXPIRED)):
            answers = [await desk.ask(method, path.format(name), token=token) for name in (QUEUE, "missing")]
            assert [answer.status for answer in answers] == [401, 401]
    async with await desk.connect() as client:
        statuses = [
            await desk.put_token(client, desk.token("other"), f"sb://127.0.0.1/{name}") for name in (QUEUE, "missing")
        ]
        assert statuses == [401, 401]
