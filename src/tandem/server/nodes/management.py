"""`<entity>/$management`: requests about single messages and sessions, each answered on a link of its own.

Every operation is a function from the body of the request to a step of the engine. What it answers with is written as
the SDKs expect it, type by type: an array is not a list here.

A request may name a transaction, which .NET does for every request inside a `TransactionScope`. The table of operations
states what each of them does then.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from tandem.addresses import Address
from tandem.amqp import (
    ACCEPTED,
    AmqpError,
    IncomingDelivery,
    LinkAttached,
    Message,
    ReceiverLink,
    Rejected,
    TransactionalState,
)
from tandem.amqp.encode import encode
from tandem.amqp.message import MessageId, Properties, encode_message
from tandem.amqp.rewriting import without_body
from tandem.amqp.types import LONG_TYPE, STRING_TYPE, TIMESTAMP_TYPE, Array, Int, Symbol, Timestamp
from tandem.auth import Right
from tandem.engine.lock_table import Lock
from tandem.engine.metering import OK
from tandem.engine.open_transaction import Transaction
from tandem.engine.sessions import Sessions
from tandem.engine.subqueue import SubQueue
from tandem.engine.subscription import Subscription
from tandem.errors import (
    ArgumentError,
    DecodeError,
    MessageNotFound,
    NotAllowed,
    NotFound,
    OperationNotImplemented,
    ProtocolError,
    Scope,
    SessionLockLost,
    SessionNotFound,
)
from tandem.limits import (
    DECODED_BYTES_PER_BYTE,
    MAX_ITEMS_PER_REQUEST,
    MAX_MANAGEMENT_REQUEST_BYTES,
    MAX_PEEK_BYTES,
    MAX_PERFORMATIVE_BYTES,
    MAX_RECEIVE_BYTES,
    MAX_RULES_PER_SUBSCRIPTION,
    MESSAGE_OVERHEAD_BYTES,
    REQUEST_WORK,
)
from tandem.server.admission import Admission
from tandem.server.faults.active_faults import Verdict
from tandem.server.nodes.link_meter import LinkMeter, outcome_of
from tandem.server.nodes.request_gate import Room
from tandem.server.nodes.responses import find_response_link
from tandem.server.nodes.rules import read_rule, rule_description
from tandem.server.nodes.settlement import checked_properties
from tandem.wire_names import DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON, OPERATION_PREFIX, TRACKING_ID

if TYPE_CHECKING:
    from tandem.server.peer import Peer

__all__ = ["ManagementLink"]

# Requests. As the service grants.
_CREDIT: Final = 100

# "List the sessions with messages or state", as the SDKs ask for it: the first moment of the year 10000.
_ALL_SESSIONS_MS: Final = 253_402_300_800_000

Body = dict[str, object]
# What a request is answered with: a status and a body, or what has gone wrong.
Answer = tuple[int, Body] | ProtocolError


class _Request:
    """A request under way."""

    __slots__ = (
        "body",
        "came_at_ms",
        "convert",
        "is_mute",
        "link",
        "message_id",
        "metered_as",
        "properties",
        "reply_to",
        "room",
        "sizes",
        "state",
        "tracking_id",
        "transaction",
    )

    def __init__(self, link: ManagementLink, message: Message, state: TransactionalState | None, room: Room) -> None:
        self.room = room
        properties = message.properties or Properties()
        self.link = link
        self.message_id: MessageId | None = properties.message_id
        self.reply_to = properties.reply_to
        self.properties = message.application_properties or {}
        self.tracking_id = self.properties.get(TRACKING_ID)
        body = message.value
        if body is not None and not isinstance(body, dict):
            raise DecodeError(f"the body of a management request must be a map, got {body!r:.80}", Scope.DELIVERY)
        self.body: Body = {str(key): value for key, value in (body or {}).items()}
        # The transaction that it names, and that transaction itself once it is known to be open.
        self.state = state
        self.transaction: Transaction | None = None
        # From what the engine answers to what the client is answered.
        self.convert: Callable[[object], Answer] = _empty
        # A fault lets it be done and not answered.
        self.is_mute = False
        # What it is counted as: an operation for each of these sizes.
        self.came_at_ms = link.subqueue.namespace.now_ms
        self.metered_as = "manage"
        self.sizes = [0]

    @property
    def peer(self) -> Peer:
        return self.link.peer

    def release(self, answer: object) -> None:
        """The engine has answered, and what it did is on disk."""
        if isinstance(answer, ProtocolError):
            self.answer(answer)
        else:
            self.answer(self.convert(answer))

    def _count(self, answer: Answer) -> None:
        is_refused = isinstance(answer, ProtocolError) and not isinstance(answer, _Nothing)
        outcome = outcome_of(answer) if is_refused and isinstance(answer, ProtocolError) else OK
        tally = self.link.meter.tally(self.metered_as, outcome)
        for size_bytes in self.sizes:
            tally.add(size_bytes)
        tally.add_latency(self.link.subqueue.namespace.now_ms - self.came_at_ms, len(self.sizes))

    def answer(self, answer: Answer) -> None:
        self._count(answer)
        if self.is_mute:
            self.room.leave()
            return
        properties: dict[str, object]
        body: Body = {}
        if isinstance(answer, ProtocolError):
            description = self.link.peer.tracker.text(answer.description, self.link.address.path)
            # Nothing to peek at, nothing to list: not an error, but said in these words.
            status = 204 if isinstance(answer, _Nothing) else answer.http_status
            properties = {
                "statusCode": Int(status),
                "statusDescription": description,
                "errorCondition": Symbol(answer.condition),
            }
        else:
            status, body = answer
            properties = {"statusCode": Int(status), "statusDescription": "OK" if status == 200 else "No Content"}
        if isinstance(self.tracking_id, str):
            properties[TRACKING_ID] = self.tracking_id
        self.link.respond(self, properties, body)

    # --- the body, field by field ---------------------------------------------------------------------------

    def text(self, field: str) -> str:
        value = self.body.get(field)
        if isinstance(value, str):
            return str(value)
        raise ArgumentError(f"{field} must be a string, got {value!r:.80}")

    def optional_text(self, field: str) -> str | None:
        return None if self.body.get(field) is None else self.text(field)

    def number(self, field: str, default: int | None = None) -> int:
        value = self.body.get(field)
        if value is None and default is not None:
            return default
        if isinstance(value, int) and not isinstance(value, bool):
            return int(value)
        raise ArgumentError(f"{field} must be a number, got {value!r:.80}")

    def items(self, field: str) -> list[object]:
        """An array, or a list where a client writes one."""
        value = self.body.get(field)
        items = value.items if isinstance(value, Array) else value
        if not isinstance(items, list) or not items:
            raise ArgumentError(f"{field} must be an array that is not empty, got {value!r:.80}")
        if len(items) > MAX_ITEMS_PER_REQUEST:
            raise ArgumentError(f"{field} has {len(items)} items; at most {MAX_ITEMS_PER_REQUEST} are allowed")
        return items

    def numbers(self, field: str) -> list[int]:
        items = self.items(field)
        for item in items:
            if not isinstance(item, int) or isinstance(item, bool):
                raise ArgumentError(f"{field} must hold numbers, got {item!r:.80}")
        return cast("list[int]", items)

    def tokens(self) -> list[bytes]:
        items = self.items("lock-tokens")
        for item in items:
            if not isinstance(item, uuid.UUID):
                raise ArgumentError(f"lock-tokens must hold uuids, got {item!r:.80}")
        return [item.bytes for item in cast("list[uuid.UUID]", items)]


class _Nothing(ProtocolError):
    """There is nothing to answer with; the condition says what there is none of."""


class _NoMessages(_Nothing):
    condition = MessageNotFound.condition


class _NoSessions(_Nothing):
    condition = SessionNotFound.condition


class _NoRules(_Nothing):
    condition = NotFound.condition


class ManagementLink:
    """The link on which requests about one entity arrive."""

    def __init__(self, peer: Peer, event: LinkAttached, subqueue: SubQueue, address: Address) -> None:
        link = event.link
        assert isinstance(link, ReceiverLink)
        self.peer = peer
        self.address = address
        self.link = link
        self.subqueue = subqueue
        self.meter = LinkMeter(peer, subqueue.path, subqueue.queue.description.kind)
        reply = link.attach_reply()
        message_bytes = subqueue.queue.max_message_size_bytes + MAX_PERFORMATIVE_BYTES
        reply.max_message_size = max(MAX_MANAGEMENT_REQUEST_BYTES, message_bytes)
        link.accept(reply)
        link.work_per_delivery = REQUEST_WORK
        link.grant(_CREDIT)

    def on_delivery(self, delivery: IncomingDelivery) -> None:
        link = self.link
        if link.credit < _CREDIT // 2:
            link.grant(_CREDIT)
        requests = self.peer.requests
        room = Room(requests, len(delivery.payload) + MESSAGE_OVERHEAD_BYTES)
        requests.submit(partial(self._start, delivery, room))

    def _start(self, delivery: IncomingDelivery, room: Room) -> None:
        link = self.link
        state = delivery.state if isinstance(delivery.state, TransactionalState) else None
        try:
            request = _Request(self, Message(delivery.payload), state, room)
        except DecodeError as error:
            link.settle(delivery, Rejected(AmqpError.of(error)))
            room.leave()
            return
        link.settle(delivery, ACCEPTED if state is None else TransactionalState(state.txn_id, ACCEPTED))
        self._answer(request, partial(self._perform, request))

    def _answer(self, request: _Request, step: Callable[[], None]) -> None:
        try:
            step()
        except ProtocolError as error:
            request.answer(error)

    def _perform(self, request: _Request) -> None:
        name = request.properties.get("operation")
        found = _OPERATIONS.get(str(name).lower().removeprefix(OPERATION_PREFIX)) if isinstance(name, str) else None
        if found is None:
            raise OperationNotImplemented(
                f"operation is {name!r:.80}; {self.address.path}/$management has {', '.join(sorted(_OPERATIONS))}"
            )
        right, metered_as, part, operation = found
        request.metered_as = metered_as
        peer = self.peer
        if peer.services.admission is not None:
            self._check_admission(peer.services.admission, right)
        peer.require(right, self.address)
        queue = self.subqueue.queue
        if peer.services.faults is not None:
            again = partial(self._answer, request, partial(self._operate, request, part, operation))
            met = peer.meet(right, queue.name, again)
            if met is not None and met.verdict is not Verdict.MUTED:
                request.room.leave()
                return
            request.is_mute = met is not None
        self._operate(request, part, operation)

    def _check_admission(self, admission: Admission, right: Right) -> None:
        """Raise ServerBusy if it is refused at present."""
        now_ms = self.subqueue.namespace.now_ms
        if right is Right.LISTEN:
            admission.check_settlement(now_ms)
        else:
            admission.check_management(self.subqueue.queue.name, now_ms)

    def _operate(self, request: _Request, part: _Part, operation: _Operation) -> None:
        if self.subqueue.queue.is_dropped:
            # A request is about the entity that has the name now, or about none.
            self.subqueue = subqueue = self.subqueue.namespace.resolve(self.address)
            self.meter = LinkMeter(self.peer, subqueue.path, subqueue.queue.description.kind)
        if request.state is not None:
            # Only now: a fault may have held the request up for longer than its transaction was open.
            transaction = self.subqueue.namespace.transactions.find(request.state.txn_id, self.peer)
            if part is _Part.REFUSES:
                raise NotAllowed(
                    f"{request.properties.get('operation')} cannot be part of a transaction, and nothing was done. Do "
                    "it outside of the transaction.",
                    Scope.DELIVERY,
                )
            request.transaction = transaction
        operation(self, request)
        # It was read, and may be large.
        request.body = {}

    def respond(self, request: _Request, properties: dict[str, object], body: Body) -> None:
        response = find_response_link(self.peer.response_links, self.address.resource, request.reply_to, self.link)
        if response is None:
            request.room.leave()
            return
        response.send(
            encode_message(
                properties=Properties(correlation_id=request.message_id),
                application_properties=properties,
                value=body,
            ),
            request.room,
        )

    def expected_bytes(self, count: int) -> int:
        """Return how large an answer with so many messages is at most."""
        return max(1, count) * (self.subqueue.queue.max_message_size_bytes + MESSAGE_OVERHEAD_BYTES)

    def close(self) -> None:
        """Answers under way find no link, and that is all."""


# --- operations -----------------------------------------------------------------------------------------------------


def _empty(_answer: object) -> Answer:
    return 200, {}


def _renew_lock(link: ManagementLink, request: _Request) -> None:
    subqueue = link.subqueue
    tokens = request.tokens()
    request.sizes = [0] * len(tokens)
    locks = [subqueue.find_lock(token) for token in tokens]
    transaction = request.transaction
    ends_ms = [subqueue.renew(lock) for lock in locks] if transaction is None else transaction.renew(locks)
    request.answer((200, {"expirations": Array(TIMESTAMP_TYPE, [Timestamp(end_ms) for end_ms in ends_ms])}))


def _update_disposition(link: ManagementLink, request: _Request) -> None:
    subqueue = link.subqueue
    status = request.text("disposition-status")
    tokens = request.tokens()
    request.sizes = [0] * len(tokens)
    request.metered_as = _SETTLEMENTS.get(status, request.metered_as)
    # A token that is named twice is that of one message.
    locks = list(dict.fromkeys([subqueue.find_lock(token) for token in tokens]))
    settle = _settlement(request, subqueue, status)
    if request.transaction is not None:
        request.transaction.settle_all(locks, settle, _held_bytes(request))
        request.answer((200, {}))
        return
    for lock in locks:
        settle(lock)
    subqueue.namespace.effects.reply(request, None)


def _held_bytes(request: _Request) -> int:
    """Return what a settlement holds in memory while its transaction is open: what it sets on the messages."""
    fields = ("properties-to-modify", "deadletter-reason", "deadletter-description")
    return DECODED_BYTES_PER_BYTE * sum([len(encode(request.body[name])) for name in fields if name in request.body])


def _settlement(request: _Request, subqueue: SubQueue, status: str) -> Callable[[Lock], None]:
    properties = checked_properties(request.body.get("properties-to-modify"))
    if status == "completed":
        return subqueue.complete
    if status == "abandoned":
        return lambda lock: subqueue.abandon(lock, properties)
    if status in {"defered", "deferred"}:
        return lambda lock: subqueue.defer(lock, properties)
    if status == "suspended":
        subqueue.check_can_dead_letter()
        reason = request.body.get("deadletter-reason")
        description = request.body.get("deadletter-description")
        checked_properties({DEAD_LETTER_REASON: reason, DEAD_LETTER_ERROR_DESCRIPTION: description})
        return lambda lock: subqueue.dead_letter(lock, reason, description, properties)
    raise ArgumentError(
        f"disposition-status is {status!r:.80}; it must be one of completed, abandoned, defered, suspended"
    )


def _peek(link: ManagementLink, request: _Request) -> None:
    def convert(answer: object) -> Answer:
        payloads = cast("list[bytes]", answer)
        if not payloads:
            return _NoMessages("There is no message to browse.")
        if omits_body:
            payloads = [without_body(payload) for payload in payloads]
        return 200, {"messages": [{"message": payload} for payload in payloads]}

    omits_body = request.body.get("omit-message-body") is True
    count = request.number("message-count", 1)
    request.convert = convert
    request.room.reserve(min(MAX_PEEK_BYTES, link.expected_bytes(count)))
    link.subqueue.peek(request.number("from-sequence-number", 0), count, request.optional_text("session-id"), request)


def _receive_by_sequence_number(link: ManagementLink, request: _Request) -> None:
    def convert(answer: object) -> Answer:
        messages: list[object] = []
        for lock, payload in cast("list[tuple[Lock | None, bytes]]", answer):
            entry: dict[str, object] = {"message": payload}
            if lock is not None:
                entry["lock-token"] = uuid.UUID(bytes=lock.token)
            messages.append(entry)
        request.sizes = [len(payload) for _, payload in cast("list[tuple[Lock | None, bytes]]", answer)]
        return 200, {"messages": messages}

    request.convert = convert
    deletes = request.number("receiver-settle-mode", 1) == 0
    numbers = request.numbers("sequence-numbers")
    request.room.reserve(min(MAX_RECEIVE_BYTES, link.expected_bytes(len(numbers))))
    link.subqueue.receive_deferred(numbers, deletes, request.optional_text("session-id"), request, link.peer.gate)


def _schedule(link: ManagementLink, request: _Request) -> None:
    queue = link.subqueue.queue
    if link.subqueue.is_dead_letter or queue.topic is not None:
        raise NotAllowed(f"Messages cannot be sent to '{link.subqueue.path}'.", Scope.DELIVERY)
    drafts = []
    for item in request.items("messages"):
        payload = item.get("message") if isinstance(item, dict) else None
        if not isinstance(payload, bytes):
            raise ArgumentError(f"messages must hold maps with a binary 'message', got {item!r:.80}")
        drafts += queue.read(payload, 0)
    # Each of them has room: so must all of them together.
    queue.check_room(sum([draft.message.size_bytes for draft in drafts]))
    request.room.hold(len(drafts) * MESSAGE_OVERHEAD_BYTES)
    if request.transaction is not None:
        # The numbers are answered now, and the messages exist with the discharge.
        request.transaction.send(queue, drafts, link.peer.cross_entity.via(link.link.session, queue))
        queue.reserve_sequence_numbers(drafts)
    else:
        queue.take(drafts)
    request.sizes = [draft.message.size_bytes for draft in drafts]
    # One for each message. A ping is taken and never stored: it keeps the number 0, which no message has.
    numbers = [draft.message.visible_sequence_number for draft in drafts]
    request.convert = lambda _: (200, {"sequence-numbers": Array(LONG_TYPE, numbers)})
    queue.namespace.effects.reply(request, None)


def _cancel_scheduled(link: ManagementLink, request: _Request) -> None:
    numbers = request.numbers("sequence-numbers")
    request.sizes = [0] * len(numbers)
    if request.transaction is not None:
        request.transaction.cancel_scheduled(link.subqueue, numbers, request)
    else:
        link.subqueue.cancel_scheduled(numbers, request)


def _batch_delete(link: ManagementLink, request: _Request) -> None:
    def convert(answer: object) -> Answer:
        count = cast("int", answer)
        if not count:
            return _NoMessages("There is no message to delete.")
        return 200, {"message-count": Int(count)}

    request.convert = convert
    if link.subqueue.queue.description.enable_partitioning:
        raise NotAllowed("Batch delete is not available on a partitioned entity.", Scope.DELIVERY)
    link.subqueue.delete_batch(
        request.number("message-count"),
        request.number("enqueued-time-utc", link.subqueue.namespace.now_ms),
        request.optional_text("session-id"),
        request,
    )


def _sessions(link: ManagementLink) -> Sessions:
    sessions = link.subqueue.sessions
    if sessions is None:
        raise NotAllowed(f"The entity '{link.subqueue.path}' does not require sessions.", Scope.DELIVERY)
    return sessions


def _held_session_id(link: ManagementLink, request: _Request) -> str:
    """Return the session that a request is about. A receiver of the same connection has to hold it."""
    session_id = request.text("session-id")
    if _sessions(link).held(session_id).consumer.gate is not link.peer.gate:
        raise SessionLockLost(
            f"The session '{session_id:.80}' is held by another connection: its lock here has expired. Accept the "
            "session again.",
            Scope.DELIVERY,
        )
    return session_id


def _renew_session_lock(link: ManagementLink, request: _Request) -> None:
    sessions, session_id = _sessions(link), _held_session_id(link, request)
    transaction = request.transaction
    until_ms = sessions.renew(session_id) if transaction is None else transaction.renew_session(sessions, session_id)
    request.answer((200, {"expiration": Timestamp(until_ms)}))


def _set_session_state(link: ManagementLink, request: _Request) -> None:
    sessions = _sessions(link)
    session_id = _held_session_id(link, request)
    state = request.body.get("session-state")
    if state is not None and not isinstance(state, bytes):
        raise ArgumentError(f"session-state must be a binary or null, got {state!r:.80}")
    if request.transaction is not None:
        request.transaction.set_session_state(sessions, session_id, state)
        request.answer((200, {}))
        return
    sessions.set_state(session_id, state, request)


def _get_session_state(link: ManagementLink, request: _Request) -> None:
    sessions = _sessions(link)
    session_id = _held_session_id(link, request)
    request.convert = lambda answer: (200, {"session-state": cast("tuple[bytes | None]", answer)[0]})
    request.room.reserve(link.expected_bytes(1))
    if request.transaction is not None:
        request.transaction.get_session_state(sessions, session_id, request)
    else:
        sessions.get_state(session_id, request)


def _get_message_sessions(link: ManagementLink, request: _Request) -> None:
    skip = request.number("skip", 0)

    def convert(answer: object) -> Answer:
        session_ids = cast("list[object]", answer)
        if not session_ids:
            return _NoSessions("There is no session to list.")
        return 200, {"skip": Int(skip + len(session_ids)), "sessions-ids": Array(STRING_TYPE, session_ids)}

    request.convert = convert
    updated_ms = request.number("last-updated-time", _ALL_SESSIONS_MS)
    _sessions(link).list_sessions(
        None if updated_ms >= _ALL_SESSIONS_MS else updated_ms, skip, request.number("top", 100), request
    )


def _subscription(link: ManagementLink) -> Subscription:
    queue = link.subqueue.queue
    if not isinstance(queue, Subscription):
        raise NotAllowed(f"The entity '{link.address.path}' is no subscription: it has no rules.", Scope.DELIVERY)
    return queue


def _add_rule(link: ManagementLink, request: _Request) -> None:
    subscription = _subscription(link)
    namespace = subscription.namespace
    subscription.add_rule(read_rule(request.text("rule-name"), request.body.get("rule-description"), namespace.now_ms))
    namespace.effects.reply(request, None)


def _remove_rule(link: ManagementLink, request: _Request) -> None:
    subscription = _subscription(link)
    subscription.remove_rule(request.text("rule-name"))
    subscription.namespace.effects.reply(request, None)


def _enumerate_rules(link: ManagementLink, request: _Request) -> None:
    rules = sorted(_subscription(link).rules.values(), key=lambda rule: rule.name.lower())
    skip = max(0, request.number("skip", 0))
    # As many as are asked for: the Java SDK asks once, and takes the answer for all rules.
    page = rules[skip : skip + max(0, request.number("top", MAX_RULES_PER_SUBSCRIPTION))]
    if not page:
        raise _NoRules("There is no rule to list.")
    request.answer((200, {"rules": [{"rule-description": rule_description(rule)} for rule in page]}))


# What settling is counted as, by the disposition status.
_SETTLEMENTS: Final = {
    "completed": "complete",
    "abandoned": "abandon",
    "defered": "defer",
    "deferred": "defer",
    "suspended": "dead-letter",
}


class _Part(enum.Enum):
    """The part of an operation in the transaction that its request names.

    The service documents sends, settlements, lock renewals and the state of sessions as operations of a transaction;
    receiving is none, and management does not mix with messaging.
    """

    # Takes effect with the commit; a rollback leaves everything as it was before.
    JOINS = 1
    # Has no effect that a rollback could undo.
    READS = 2
    # Cannot wait for a commit: it is refused, and nothing is done.
    REFUSES = 3


_Operation = Callable[[ManagementLink, _Request], None]

# By name: the right that it needs, what it is counted as in the stream of operations, its part in a transaction, and
# what it does.
_OPERATIONS: Final[dict[str, tuple[Right, str, _Part, _Operation]]] = {
    "renew-lock": (Right.LISTEN, "renew", _Part.JOINS, _renew_lock),
    "update-disposition": (Right.LISTEN, "settle", _Part.JOINS, _update_disposition),
    "peek-message": (Right.LISTEN, "peek", _Part.READS, _peek),
    "receive-by-sequence-number": (Right.LISTEN, "receive", _Part.REFUSES, _receive_by_sequence_number),
    "schedule-message": (Right.SEND, "schedule", _Part.JOINS, _schedule),
    "cancel-scheduled-message": (Right.SEND, "cancel-scheduled", _Part.JOINS, _cancel_scheduled),
    "batch-delete-messages": (Right.LISTEN, "delete", _Part.REFUSES, _batch_delete),
    "renew-session-lock": (Right.LISTEN, "renew", _Part.JOINS, _renew_session_lock),
    "set-session-state": (Right.LISTEN, "session-state", _Part.JOINS, _set_session_state),
    "get-session-state": (Right.LISTEN, "session-state", _Part.READS, _get_session_state),
    "get-message-sessions": (Right.LISTEN, "list-sessions", _Part.READS, _get_message_sessions),
    "add-rule": (Right.MANAGE, "manage", _Part.REFUSES, _add_rule),
    "remove-rule": (Right.MANAGE, "manage", _Part.REFUSES, _remove_rule),
    "enumerate-rules": (Right.MANAGE, "manage", _Part.READS, _enumerate_rules),
}
