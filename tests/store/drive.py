"""What the tests of the stores share: messages, batches as the engine makes them, and every question."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from tandem.amqp.message import Header, Message, Properties, encode_message
from tandem.amqp.stored import Stored, prepare
from tandem.engine.description import QueueDescription
from tandem.engine.effects import (
    DropHub,
    DropProgress,
    DropQueue,
    Effects,
    Move,
    PutHub,
    PutProgress,
    PutQueue,
    PutRule,
    SetSessionState,
    SetState,
)
from tandem.engine.hubs.description import EventHubDescription
from tandem.engine.hubs.event import Event
from tandem.engine.hubs.record import EventRecord
from tandem.engine.message import ACTIVE, NEVER_MS, SCHEDULED, BrokeredMessage, SharedBody
from tandem.engine.queries import (
    DueQuery,
    EnqueuedBeforeQuery,
    EventsQuery,
    ExpiredQuery,
    MessagesQuery,
    NextTimesQuery,
    ReadySessionsQuery,
    RowsQuery,
    SessionListQuery,
    SessionStateQuery,
)
from tandem.engine.queue import STREAMS_PER_QUEUE
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.engine.topic_description import TopicDescription
from tandem.store.base import Store

QUEUE: Final = 1
MAIN: Final = QUEUE * STREAMS_PER_QUEUE
DEAD: Final = MAIN + 1
LAST: Final = (1 << 44) - 1


def stored(body: bytes = b"body", annotations: dict[str, object] | None = None) -> Stored:
    return prepare(
        Message(
            encode_message(
                header=Header(durable=True),
                message_annotations=annotations,
                properties=Properties(message_id="m"),
                data=body,
            )
        )
    )


def message(number: int, stream: int = MAIN, **fields: Any) -> BrokeredMessage:
    """A message with these fields. Any: they have the types of its slots."""
    one = BrokeredMessage(
        stream, number, ACTIVE, 0, 1_000, NEVER_MS, 0, NEVER_MS, None, 100, 0, 0, 0, None, stored(b"%d" % number)
    )
    for name, value in fields.items():
        setattr(one, name, value)
    return one


def scheduled(number: int, due_at_ms: int, stream: int = MAIN) -> BrokeredMessage:
    return message(number, stream, state=SCHEDULED, due_at_ms=due_at_ms)


def put_hub(number: int, **fields: object) -> Effects:
    effects = Effects()
    description = EventHubDescription.from_fields({"name": f"hub-{number}", **fields})
    effects.changes.append(PutHub(number, description.stored_fields(), 1_000, 1_000))
    return effects


def drop_hub(number: int) -> Effects:
    effects = Effects()
    effects.changes.append(DropHub(number))
    return effects


def put_progress(hub_number: int, partition_id: int, group: str, **fields: object) -> Effects:
    effects = Effects()
    effects.changes.append(PutProgress(hub_number, partition_id, group, dict(fields)))
    return effects


def drop_progress(hub_number: int, group: str) -> Effects:
    effects = Effects()
    effects.changes.append(DropProgress(hub_number, group))
    return effects


def appended(hub_number: int, first: int, *bodies: bytes, partition_id: int = 0) -> Effects:
    """Events that follow each other, each in a transfer of its own."""
    effects = Effects()
    for number, body in enumerate(bodies, first):
        payload = encode_message(properties=Properties(message_id=f"{number}"), data=[body])
        effects.events.append(EventRecord(hub_number, partition_id, number, 1, 1_000 + number, payload, False, "key"))
    return effects


def put_queue(number: int = QUEUE, **fields: object) -> Effects:
    effects = Effects()
    described = QueueDescription.from_fields({"name": f"queue-{number}", **fields})
    effects.changes.append(PutQueue(number, "queue", described.to_fields(), 10, 20))
    return effects


def put_topic(number: int, *subscriptions: int) -> Effects:
    """A topic and its subscriptions, each with a rule that selects everything."""
    effects = Effects()
    topic = TopicDescription(f"topic-{number}")
    effects.changes.append(PutQueue(number, "topic", topic.to_fields(), 10, 20))
    for one in subscriptions:
        fields = SubscriptionDescription(topic.name, f"sub-{one}").to_fields()
        effects.changes.append(PutQueue(one, "subscription", fields, 10, 20))
        effects.changes.append(PutRule(one, "$Default", {"filter": {"kind": "true"}, "action": None}, 10))
    return effects


def published(
    body_number: int, topic: int, *copies: BrokeredMessage, bytes_: Stored | None = None, size_bytes: int = 100
) -> Effects:
    """Copies of one message in several subscriptions. Copies keep the bytes they have, if these are given for them."""
    shared = bytes_ or stored(b"shared")
    effects = Effects()
    effects.bodies[body_number] = SharedBody(body_number, topic * STREAMS_PER_QUEUE, size_bytes, shared)
    for one in copies:
        one.body_number = body_number
        if one.stored is None:
            one.stored = shared
        effects.appended.append(one)
        effects.stream_change(one.stream).add(one, 1)
        counter = effects.stream_change(one.stream - one.stream % STREAMS_PER_QUEUE)
        counter.next_sequence_number = max(counter.next_sequence_number, one.sequence_number + 1)
    return effects


def drop_queue(number: int = QUEUE) -> Effects:
    effects = Effects()
    effects.changes.append(DropQueue(number))
    return effects


def sent(*messages: BrokeredMessage) -> Effects:
    """New messages, and the numbers that they took."""
    effects = Effects()
    for one in messages:
        effects.appended.append(one)
        effects.stream_change(one.stream).add(one, 1)
        counter = effects.stream_change(one.stream - one.stream % STREAMS_PER_QUEUE)
        counter.next_sequence_number = max(counter.next_sequence_number, one.sequence_number + 1)
        counter.accessed_at_ms = one.enqueued_time_ms
    return effects


def removed(*messages: BrokeredMessage) -> Effects:
    effects = Effects()
    for one in messages:
        effects.removed.append(one.row)
        effects.stream_change(one.stream).add(one, -1)
        if one.body_number:
            effects.release(one.body_number)
    return effects


def set_state(
    one: BrokeredMessage, state: int, delivery_count: int = 0, properties: dict[str, object] | None = None
) -> Effects:
    effects = Effects()
    change = effects.stream_change(one.stream)
    change.add(one, -1)
    one.state = state
    one.delivery_count = delivery_count
    change.add(one, 1)
    effects.changes.append(SetState(one.row, state, delivery_count, properties))
    return effects


def moved(one: BrokeredMessage, stream: int, number: int, properties: dict[str, object] | None = None) -> Effects:
    """To another place, where the message is active and of no session."""
    effects = Effects()
    row = one.row
    effects.stream_change(one.stream).add(one, -1)
    one.stream = stream
    one.sequence_number = number
    one.state = ACTIVE
    one.due_at_ms = 0
    one.session_id = None
    one.stored = None
    effects.stream_change(stream).add(one, 1)
    counter = effects.stream_change(stream - stream % STREAMS_PER_QUEUE)
    counter.next_sequence_number = max(counter.next_sequence_number, number + 1)
    effects.changes.append(Move(row, one, properties))
    return effects


def session_state(session_id: str, state: bytes | None, at_ms: int, by_bytes: int = 0, stream: int = MAIN) -> Effects:
    effects = Effects()
    effects.stream_change(stream).size_bytes += by_bytes
    effects.changes.append(SetSessionState(stream, session_id, state, at_ms))
    return effects


def committed(store: Store, *batches: Effects) -> set[int]:
    """Write and commit, and return the rows of duplicates."""
    duplicates: set[int] = set()
    for effects in batches:
        duplicates.update(store.write(effects).duplicates)
    store.commit()
    store.events.committed()
    return duplicates


# --- answers ------------------------------------------------------------------------------------------------


def _ask(store: Store, query: Callable[[Callable[..., None]], Any]) -> Any:
    """Any: what a query is answered depends on it."""
    answers: list[tuple[Any, ...]] = []
    store.read(query(lambda *answer: answers.append(answer)))
    assert len(answers) == 1
    return answers[0] if len(answers[0]) > 1 else answers[0][0]


def messages(
    store: Store,
    stream: int = MAIN,
    after: int = 0,
    up_to: int = LAST,
    limit: int = 1_000,
    limit_bytes: int = 1 << 30,
    session_id: str | None = None,
    is_active_only: bool = False,
) -> list[BrokeredMessage]:
    found: list[BrokeredMessage] = _ask(
        store,
        lambda answer: MessagesQuery(stream, after, up_to, limit, limit_bytes, session_id, is_active_only, answer),
    )
    return found


def numbers(found: Iterable[BrokeredMessage]) -> list[int]:
    return [one.sequence_number for one in found]


def rows(
    store: Store, sequence_numbers: list[int], stream: int = MAIN, limit_bytes: int = 1_000_000
) -> list[BrokeredMessage]:
    found: list[BrokeredMessage] = _ask(store, lambda answer: RowsQuery(stream, sequence_numbers, limit_bytes, answer))
    return found


def due(store: Store, now_ms: int, limit: int = 1_000, stream: int = MAIN) -> list[int]:
    return numbers(_ask(store, lambda answer: DueQuery(stream, now_ms, limit, False, answer)))


def expired(
    store: Store, now_ms: int, after_ms: int = 0, after: int = 0, limit: int = 1_000, stream: int = MAIN
) -> list[int]:
    return numbers(_ask(store, lambda answer: ExpiredQuery(stream, now_ms, after_ms, after, limit, answer)))


def enqueued_before(
    store: Store,
    enqueued_ms: int,
    after: int = 0,
    up_to: int = LAST,
    limit: int = 1_000,
    session_id: str | None = None,
    stream: int = MAIN,
) -> list[int]:
    return numbers(
        _ask(store, lambda answer: EnqueuedBeforeQuery(stream, enqueued_ms, after, up_to, limit, session_id, answer))
    )


def next_times(store: Store, after_ms: int = 0, after: int = 0, stream: int = MAIN) -> tuple[int, int]:
    times: tuple[int, int] = _ask(store, lambda answer: NextTimesQuery(stream, after_ms, after, answer))
    return times


def events(store: Store, hub_number: int, first: int = 0, partition_id: int = 0) -> list[Event]:
    found: list[Event] = _ask(
        store, lambda answer: EventsQuery(hub_number, partition_id, first, 1_000, 1_000_000, answer)
    )
    return found


def ready_sessions(store: Store, limit: int = 1_000, stream: int = MAIN) -> list[str]:
    found: list[str] = _ask(store, lambda answer: ReadySessionsQuery(stream, limit, answer))
    return found


def session_list(
    store: Store, updated_after_ms: int | None = None, skip: int = 0, limit: int = 1_000, stream: int = MAIN
) -> list[str]:
    found: list[str] = _ask(store, lambda answer: SessionListQuery(stream, updated_after_ms, skip, limit, answer))
    return found


def state_of(store: Store, session_id: str, stream: int = MAIN) -> bytes | None:
    state: bytes | None = _ask(store, lambda answer: SessionStateQuery(stream, session_id, answer))
    return state


def seen(one: BrokeredMessage) -> tuple[object, ...]:
    """All that a message is, to compare."""
    kept = one.stored
    return (
        *(one.stream, one.sequence_number, one.state, one.delivery_count, one.enqueued_time_ms, one.expires_at_ms),
        *(one.due_at_ms, one.time_to_live_ms, one.session_id, one.size_bytes, one.enqueue_sequence_number),
        *(one.hop_count, one.partition, one.dead_letter_source, one.body_number),
        None if kept is None else (kept.header_fields, kept.bare),
        None if kept is None else (kept.delivery_annotations.encoded, kept.delivery_annotations.count),
        None if kept is None else (kept.message_annotations.encoded, kept.message_annotations.count),
    )
