"""What clients do that send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import Header, Properties, encode_message
from tandem.amqp.types import Timestamp
from tandem.engine.message import NEVER_MS
from tandem.errors import EntityDisabled, NotAllowed, QuotaExceeded
from tests.sim.arrivals import SendIntent
from tests.sim.clients import Ask, SimTransaction
from tests.sim.ledger import MAIN, Book, Violation
from tests.sim.vocabulary import Content

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["cancel_scheduled", "make_message", "send", "send_batch", "send_in_transaction", "send_ping", "send_via"]

_PADDING: Final = bytes(200_000)
_LIVES_MS: Final = (0, 1_000, 1_500, 5_000, 60_000, 3_600_000)
_DELAYS_MS: Final = (-5_000, 1, 20, 1_000, 5_000, 60_000, 3_600_000)


def make_message(world: World, book: Book) -> tuple[bytes, SendIntent]:
    """A message that nobody has sent before, as to its last eight bytes."""
    random = world.random.random
    world.uid += 1
    uid = world.uid
    description = book.description
    draw = random()
    message_id = f"m{uid}"
    if description.requires_duplicate_detection and draw < 0.4:
        # Once more what was sent before, or what others send.
        message_id = f"d{int(random() * 20)}"
    group_id = None
    group_share = world.profile.group_share + (0.5 * world.profile.session_share if book.is_topic else 0)
    if description.requires_session or random() < group_share:
        group_id = f"s{int(random() * world.profile.session_count)}"
    content = Content.draw(world.random, message_id, group_id) if world.profile.topic_count else None
    content = content or Content(message_id, group_id=group_id)
    time_to_live_ms = NEVER_MS
    if random() < world.profile.expiring_share:
        time_to_live_ms = _LIVES_MS[int(random() * len(_LIVES_MS))]
    due_ms = 0
    if random() < world.profile.scheduled_share:
        due_ms = world.now_ms + _DELAYS_MS[int(random() * len(_DELAYS_MS))]
    size = int(random() * world.profile.large_bytes) if random() < world.profile.large_share else int(draw * 100)
    payload = encode_message(
        header=None if time_to_live_ms == NEVER_MS else Header(ttl_ms=time_to_live_ms),
        message_annotations={"x-opt-scheduled-enqueue-time": Timestamp(due_ms)} if due_ms else None,
        properties=content.properties,
        application_properties=content.user or None,
        data=_PADDING[:size] + uid.to_bytes(8, "big"),
    )
    is_scheduled = due_ms > world.now_ms
    return payload, SendIntent(
        uid,
        book.number,
        len(payload),
        content,
        time_to_live_ms,
        due_ms if is_scheduled else 0,
        due_ms,
        None,
    )


def _judge_refusal(world: World, book: Book, error: Exception, size_bytes: int) -> None:
    """Whether a send was refused for a reason."""
    world.auditor.sends.clear()
    if isinstance(error, EntityDisabled) and not book.description.can_send:
        return
    if isinstance(error, QuotaExceeded) and (world.namespace.is_disk_full or world.ledger.is_full(book, size_bytes)):
        return
    raise Violation("a send is refused only for a reason", f"to {book.description.name}: {error!r}") from error


def _acknowledge(world: World, uids: list[int]) -> Ask:
    def released(_: object) -> None:
        ledger = world.ledger
        for uid in uids:
            entries = ledger.of_send.get(uid, [])
            if not entries and uid not in ledger.fates:
                raise Violation("nothing acknowledged is lost", f"message {uid} was acknowledged and is nowhere")
            for entry in entries:
                if entry.uid in ledger.entries:
                    entry.is_acknowledged = True
                elif entry.uid not in ledger.fates:
                    raise Violation("nothing acknowledged is lost", f"{entry} was acknowledged and is nowhere")

    return Ask(world, f"send of {uids}", released)


def _take(world: World, book: Book, payload: bytes, message_format: int, intents: list[SendIntent]) -> None:
    queue = world.queue(book)
    for intent in intents:
        world.auditor.sends[intent.uid] = intent
        if intent.due_ms:
            world.scheduled.append(intent.uid)
    world.note(f"send {[intent.uid for intent in intents]} to {book.description.name}: {intents[0]}")
    try:
        if intents[0].destination is None:
            queue.send(payload, message_format)
        else:
            drafts = queue.read(payload, message_format)
            for draft in drafts:
                draft.destination = intents[0].destination
            queue.take(drafts)
    except (EntityDisabled, QuotaExceeded) as error:
        world.note(f"  refused: {error!r}")
        _judge_refusal(world, book, error, sum([intent.size_bytes for intent in intents]))
        return
    if not book.description.can_send:
        raise Violation("a disabled queue takes nothing", book.description.name)
    world.namespace.effects.reply(_acknowledge(world, [intent.uid for intent in intents]), None)


def send(world: World) -> None:
    book = world.pick_target()
    if book is not None:
        payload, intent = make_message(world, book)
        _take(world, book, payload, 0, [intent])


def send_batch(world: World) -> None:
    book = world.pick_target()
    if book is None:
        return
    made = [make_message(world, book) for _ in range(1 + int(world.random.random() * world.profile.batch_size))]
    _take(world, book, make_batch([payload for payload, _ in made]), BATCH_FORMAT, [intent for _, intent in made])


def send_via(world: World) -> None:
    """By way of one queue to another one, which may be missing."""
    book = world.pick_target()
    target = world.pick_target()
    if book is None or target is None:
        return
    payload, intent = make_message(world, book)
    if intent.due_ms or book is target or target.description.requires_session:
        return
    name = target.description.name if world.random.random() < 0.8 else "missing"
    _take(world, book, payload, 0, [intent._replace(destination=name)])


def send_ping(world: World) -> None:
    """A ping is accepted, counted and never kept."""
    book = world.pick_target()
    if book is None or not book.description.can_send or book.description.requires_session:
        return
    queue = world.queue(book)
    before = queue.ping_count
    payload = encode_message(properties=Properties(content_type="application/vnd.ms-servicebus-ping"), data=b"")
    try:
        queue.send(payload, 0)
    except QuotaExceeded as error:
        _judge_refusal(world, book, error, len(payload))
        return
    book.accessed_ms = world.now_ms
    if queue.ping_count != before + 1:
        raise Violation("a ping is counted", book.description.name)


def send_in_transaction(world: World, transaction: SimTransaction) -> None:
    """The message is there with the discharge, or never."""
    book = world.pick_target()
    if book is None:
        return
    payload, intent = make_message(world, book)
    queue = world.queue(book)
    try:
        drafts = queue.read(payload, 0)
    except (EntityDisabled, QuotaExceeded) as error:
        _judge_refusal(world, book, error, intent.size_bytes)
        return
    world.note(f"send {intent} in transaction {transaction.engine.identifier.hex()}")
    try:
        transaction.engine.send(queue, drafts)
    except NotAllowed:
        # It is full, or about another partition.
        if transaction.message_count < 100 and not queue.description.enable_partitioning:
            raise
        return
    except QuotaExceeded as error:
        # Each of its sends fits alone, and together they are too much.
        _judge_refusal(world, book, error, intent.size_bytes + sent_bytes(transaction, book.number))
        transaction.is_doomed = True
        transaction.message_count += 1
        return
    transaction.message_count += 1
    transaction.sends.append(intent)


def sent_bytes(transaction: SimTransaction, number: int) -> int:
    """Return how much a transaction sends to one entity."""
    return sum([intent.size_bytes for intent in transaction.sends if intent.number == number])


def cancel_scheduled(world: World) -> None:
    """All of these or none."""
    uids = world.pick_some(world.scheduled)
    entries = [world.ledger.entries[uid] for uid in uids if uid in world.ledger.entries]
    if not entries or entries[0].kind != MAIN:
        return
    stream = entries[0].stream
    numbers = [entry.seq for entry in entries if entry.stream == stream]
    book = world.ledger.books[stream >> 2]
    book.accessed_ms = world.now_ms
    ledger, auditor = world.ledger, world.auditor
    is_possible = False

    def asked() -> None:
        """The question is read: this is the moment that decides."""
        nonlocal is_possible
        found = [ledger.by_row.get(stream << 44 | number) for number in set(numbers)]
        is_possible = all(entry is not None and entry.state == 2 for entry in found)
        if is_possible:
            auditor.cancelled.update([entry.uid for entry in found if entry is not None])

    def decided(answer: object) -> None:
        if (answer is None) is not is_possible and number_exists(world, stream):
            raise Violation("a scheduled message is cancelled or sent", f"{numbers} of {stream}: {answer!r}")
        if auditor.cancelled:
            raise Violation("a scheduled message is cancelled or sent", f"{auditor.cancelled} were not removed")

    world.note(f"cancel {numbers} of stream {stream}")
    world.ask("cancel", decided, asked, lambda ask: world.subqueue(stream).cancel_scheduled(numbers, ask))


def number_exists(world: World, stream: int) -> bool:
    return stream >> 2 in world.ledger.books
