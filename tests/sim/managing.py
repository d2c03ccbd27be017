"""What clients do besides: browse and delete, keep state, bundle things in transactions, manage queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from tandem.engine.description import EntityStatus, QueueDescription
from tandem.engine.message import SEQUENCE_MASK
from tandem.engine.subscription_description import SubscriptionDescription
from tandem.errors import (
    ArgumentError,
    NotAllowed,
    NotFound,
    ProtocolError,
    QuotaExceeded,
    TransactionRollback,
    TransactionTimeout,
    TransactionUnknownId,
)
from tests.sim.clients import Ask, Connection, SimTransaction
from tests.sim.ledger import MAIN, Book, Hold, Violation
from tests.sim.receiving import close_receiver, expected_peek, is_lock_valid, leave_sessions, pick_lock, settlement
from tests.sim.sending import send_in_transaction, sent_bytes
from tests.sim.topics import describe_subscription, describe_topic

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = [
    "create_queue",
    "declare",
    "delete",
    "delete_batch",
    "discharge",
    "drop_connection",
    "enlist",
    "get_state",
    "list_sessions",
    "peek",
    "set_state",
    "update",
]

_LOCK_DURATIONS_MS: Final = (1_000, 1_000, 5_000, 60_000)
_LIMITS: Final = (1, 2, 3, 3, 10)
_LIVES_MS: Final = (1_000, 5_000, 60_000)
_WINDOWS_MS: Final = (20_000, 60_000, 600_000)
_TRANSACTION_MS: Final = 120_000


# --- browsing and deleting ------------------------------------------------------------------------------------------


def peek(world: World) -> None:
    random = world.random.random
    book = world.pick_book()
    if book is None:
        return
    kind = int(random() * 3)
    stream = book.number << 2 | kind
    book.accessed_ms = world.now_ms
    first = 1 + int(random() * (book.tail + 1))
    count = 1 + int(random() * 20)
    is_sessionful = kind == MAIN and book.description.requires_session
    session_id = f"s{int(random() * world.profile.session_count)}" if is_sessionful and random() < 0.5 else None
    tail = book.tail if kind == MAIN else SEQUENCE_MASK
    expected: list[int] = []
    now_ms = world.now_ms

    def asked() -> None:
        expected.extend(expected_peek(world, stream, first - 1, count, session_id, tail, now_ms))

    def decided(answer: object) -> None:
        if isinstance(answer, NotFound):
            return
        uids = [int.from_bytes(payload[-8:], "big") for payload in cast("list[bytes]", answer)]
        # A page of bytes may end before the page of messages does.
        if uids != expected[: len(uids)] or (len(uids) < len(expected) and not world.profile.large_share):
            raise Violation("browsing shows what is there", f"{uids} instead of {expected} of {stream}")

    subqueue = world.subqueue(stream)
    world.ask("peek", decided, asked, lambda ask: subqueue.peek(first, count, session_id, ask))


def delete_batch(world: World) -> None:
    random = world.random.random
    book = world.pick_book()
    if book is None:
        return
    stream = book.number << 2 | (MAIN if random() < 0.7 else 1)
    auditor = world.auditor
    if auditor.deleting:
        return
    book.accessed_ms = world.now_ms
    before_ms = world.now_ms - (0 if random() < 0.5 else int(random() * 10_000))
    count = 1 + int(random() * 10)
    auditor.deleting[stream] = (before_ms, None)
    auditor.deleted_count = 0

    def decided(answer: object) -> None:
        auditor.deleting.clear()
        if isinstance(answer, NotFound):
            return
        if answer != auditor.deleted_count or auditor.deleted_count > count:
            raise Violation("batch delete deletes what it was asked to", f"{answer!r} and {auditor.deleted_count}")

    world.note(f"delete {count} messages of {stream} from before {before_ms}")
    subqueue = world.subqueue(stream)
    world.ask("delete", decided, None, lambda ask: subqueue.delete_batch(count, before_ms, None, ask))


# --- sessions -------------------------------------------------------------------------------------------------------


def set_state(world: World) -> None:
    receiver = world.pick_receiver()
    if receiver is None or not receiver.has_session:
        return
    session_id = cast("str", receiver.session_id)
    draw = world.random.random()
    state = None if draw < 0.2 else bytes(int(draw * 50))
    sessions = receiver.subqueue.sessions
    assert sessions is not None
    auditor = world.auditor
    stream = receiver.stream
    wanted = (stream, session_id, state)

    def decided(answer: object) -> None:
        if wanted in auditor.session_states and stream >> 2 in world.ledger.books:
            raise Violation("session state is what was set", f"{wanted} was not written")

    def asked() -> None:
        auditor.session_states.append(wanted)

    try:
        world.ask("set state", decided, asked, lambda ask: sessions.set_state(session_id, state, ask))
    except QuotaExceeded:
        if not world.namespace.is_disk_full and not world.ledger.is_full(world.ledger.books[stream >> 2], 50):
            raise


def get_state(world: World) -> None:
    receiver = world.pick_receiver()
    if receiver is None or not receiver.has_session:
        return
    session_id = cast("str", receiver.session_id)
    sessions = receiver.subqueue.sessions
    assert sessions is not None
    stream = receiver.stream
    expected: list[object] = []

    def asked() -> None:
        expected.append(world.ledger.session_states.get((stream, session_id)))

    def decided(answer: object) -> None:
        if not isinstance(answer, NotFound) and (cast("tuple[bytes | None]", answer)[0] or None) != expected[0]:
            raise Violation("session state is what was set", f"{answer!r} instead of {expected[0]!r}")

    world.ask("get state", decided, asked, lambda ask: sessions.get_state(session_id, ask))


def list_sessions(world: World) -> None:
    book = world.pick_book()
    if book is None or not book.description.requires_session:
        return
    stream = book.number << 2
    sessions = world.subqueue(stream).sessions
    assert sessions is not None
    expected: set[str] = set()

    def asked() -> None:
        expected.update(world.ledger.ready_sessions(stream))

    def decided(answer: object) -> None:
        if not isinstance(answer, NotFound) and answer != sorted(expected):
            raise Violation("the sessions that are listed are those that are there", f"{answer!r}, not {expected}")

    world.ask("list sessions", decided, asked, lambda ask: sessions.list_sessions(None, 0, 1_000, ask))


# --- transactions ---------------------------------------------------------------------------------------------------


def declare(world: World) -> None:
    connection = world.pick_connection()
    if len(connection.transactions) < 3:
        engine = world.namespace.transactions.declare(connection)
        world.note(f"declare {engine.identifier.hex()} on connection {connection.index}")
        connection.transactions.append(SimTransaction(connection, engine, world.now_ms + _TRANSACTION_MS))


def _pick_transaction(world: World) -> SimTransaction | None:
    transactions = world.pick_connection().transactions
    return transactions[int(world.random.random() * len(transactions))] if transactions else None


def enlist(world: World) -> None:
    """Make a send or a settlement part of a transaction."""
    transaction = _pick_transaction(world)
    if transaction is None:
        return
    try:
        world.namespace.transactions.find(transaction.engine.identifier, transaction.connection)
    except (TransactionTimeout, TransactionUnknownId) as error:
        if transaction.deadline_ms > world.now_ms:
            raise Violation("a transaction lasts as long as it was promised", repr(error)) from error
        forget(transaction)
        return
    if world.random.random() < 0.5:
        send_in_transaction(world, transaction)
    else:
        _enlist_settlement(world, transaction)


def _enlist_settlement(world: World, transaction: SimTransaction) -> None:
    lock = pick_lock(world)
    if lock is None:
        return
    how = ("complete", "complete", "abandon", "defer", "dead-letter")[int(world.random.random() * 5)]
    if how == "dead-letter" and lock.outlet.subqueue.is_dead_letter:
        how = "complete"
    valid = is_lock_valid(world, lock)
    entry = world.ledger.by_row.get(lock.message.row)
    is_enlisted = entry is not None and entry.lock is lock and entry.transaction is not None
    world.note(f"{how} {entry if valid else lock.message.sequence_number} in {transaction.engine.identifier.hex()}")
    try:
        transaction.engine.settle(lock, settlement(world, lock, how))
    except ProtocolError as error:
        queue = lock.outlet.subqueue.queue
        # It may be about another partition.
        is_partitioned = (queue if queue.topic is None else queue.topic).description.enable_partitioning
        if valid and not is_enlisted and transaction.message_count < 100 and not is_partitioned:
            raise Violation("a lock lasts as long as it was promised", f"{how} of {entry}: {error!r}") from error
        return
    if valid is False or entry is None:
        raise Violation("a lock that is over is worth nothing", f"{how} of {entry} was enlisted")
    transaction.message_count += 1
    entry.transaction = transaction
    if isinstance(entry.holder, Hold):
        entry.holder.was_enlisted = True
    transaction.settlements.append((entry, lock, how))


def forget(transaction: SimTransaction) -> None:
    """The transaction is over; the locks that it kept are as they would be without it."""
    transaction.is_open = False
    if transaction in transaction.connection.transactions:
        transaction.connection.transactions.remove(transaction)
    for entry, lock, _ in transaction.settlements:
        if entry.lock is lock:
            entry.transaction = None
            if isinstance(entry.holder, Hold):
                entry.holder.grace_ms = transaction.connection.world.now_ms + 1_000


def discharge(world: World) -> None:
    transaction = _pick_transaction(world)
    if transaction is None:
        return
    is_failed = world.random.random() < 0.3
    identifier = transaction.engine.identifier
    world.note(f"discharge {identifier.hex()}, failed {is_failed}")
    is_possible = all(entry.lock is lock for entry, lock, _ in transaction.settlements)
    ledger, auditor = world.ledger, world.auditor
    numbers = {intent.number for intent in transaction.sends}
    is_possible = is_possible and not transaction.is_doomed and all(number in ledger.books for number in numbers)
    is_tight = world.namespace.is_disk_full or any(
        number in ledger.books and ledger.is_full(ledger.books[number], max(200_000, sent_bytes(transaction, number)))
        for number in numbers
    )
    if not is_failed and is_possible:
        for entry, _, how in transaction.settlements:
            auditor.settling[entry.uid] = how
        for intent in transaction.sends:
            auditor.sends[intent.uid] = intent
    world.namespace.transactions.discharge(identifier, transaction.connection, is_failed, Ask(world, "discharge"))
    # Answered at once: nothing in it has to ask the store.
    _, error = world.namespace.effects.replies[-1]
    if isinstance(error, TransactionRollback | TransactionTimeout | TransactionUnknownId):
        auditor.settling.clear()
        auditor.sends.clear()
        is_lawful = isinstance(error, TransactionRollback) and (not is_possible or is_tight)
        if not is_lawful and transaction.deadline_ms > world.now_ms:
            raise Violation("a transaction is all or nothing", f"refused for {error!r}") from error
        forget(transaction)
        return
    if not is_failed and not is_possible:
        raise Violation("a transaction is all or nothing", "committed with a part that cannot be done")
    forget(transaction)
    world.scheduled += [intent.uid for intent in transaction.sends if intent.due_ms]
    world.deferred += [entry.uid for entry, _, how in transaction.settlements if how == "defer"]
    if not is_failed:
        # All of it has to be in the effects now, and so in one batch.
        auditor.audit()
        if auditor.settling or auditor.sends:
            raise Violation("a transaction is all or nothing", f"left undone: {auditor.settling} {auditor.sends}")


# --- connections and queues -----------------------------------------------------------------------------------------


def drop_connection(world: World, connection: Connection | None = None) -> None:
    """The connection is gone, and its transactions and receivers with it."""
    connection = connection or world.pick_connection()
    world.note(f"connection {connection.index} is gone")
    for receiver in list(connection.receivers):
        close_receiver(world, receiver)
        world.auditor.audit()
    for transaction in list(connection.transactions):
        forget(transaction)
    world.namespace.transactions.roll_back_of(connection)
    connection.is_deaf = False


def _describe(world: World, name: str, requires_session: bool, old: Book | None) -> QueueDescription | None:
    random = world.random.random
    fixed = old.description if old is not None else None
    others = [
        book.description.name
        for book in world.ledger.books.values()
        if book is not old and book.topic_name is None and not book.description.requires_session
    ]
    forward_to = dead_to = None
    if others and random() < world.profile.forwarding_share:
        name_of_other = others[int(random() * len(others))]
        if random() < 0.5 and not requires_session:
            forward_to = name_of_other
        else:
            dead_to = name_of_other
    status = EntityStatus.ACTIVE
    if random() < 0.1:
        status = list(EntityStatus)[int(random() * 4)]
    try:
        return QueueDescription(
            name,
            lock_duration_ms=_LOCK_DURATIONS_MS[int(random() * len(_LOCK_DURATIONS_MS))],
            max_size_in_megabytes=1 if random() < world.profile.small_share else 1_024,
            requires_duplicate_detection=(fixed.requires_duplicate_detection if fixed is not None else random() < 0.25),
            requires_session=requires_session,
            default_message_time_to_live_ms=(
                _LIVES_MS[int(random() * len(_LIVES_MS))] if random() < world.profile.expiring_share / 2 else None
            ),
            dead_lettering_on_message_expiration=random() < 0.5,
            duplicate_detection_history_time_window_ms=_WINDOWS_MS[int(random() * len(_WINDOWS_MS))],
            max_delivery_count=_LIMITS[int(random() * len(_LIMITS))],
            status=status,
            auto_delete_on_idle_ms=300_000 if random() < 0.03 else None,
            enable_partitioning=fixed.enable_partitioning if fixed is not None else random() < 0.15,
            forward_to=forward_to,
            forward_dead_lettered_messages_to=dead_to,
        )
    except ArgumentError:
        return None


def create_queue(world: World) -> None:
    if len(world.books("queue")) >= world.profile.queue_count:
        return
    world.queue_count += 1
    random = world.random.random
    # Names come again; one that others may forward to never becomes that of a queue with sessions.
    requires_session = random() < world.profile.session_share
    prefix = "s" if requires_session else "q"
    name = f"{prefix}{world.queue_count}" if random() < 0.5 else f"{prefix}-{int(random() * 3)}"
    description = None if world.ledger.find(name) is not None else _describe(world, name, requires_session, None)
    if description is None:
        return
    world.note(f"create {description.to_fields()}")
    world.auditor.descriptions[name] = description
    world.namespace.create_queue(description)
    world.namespace.effects.reply(Ask(world, f"create {name}"), None)


def update(world: World) -> None:
    """A queue, a topic or a subscription gets other properties."""
    book = world.pick_book()
    if book is None:
        return
    name = book.description.name
    description: QueueDescription | None
    if isinstance(book.description, SubscriptionDescription):
        description = describe_subscription(world, book.description.topic_name, book.description.subscription_name)
    elif book.is_topic:
        description = describe_topic(world, name, book)
    else:
        description = _describe(world, name, book.description.requires_session, book)
    if description is None:
        return
    world.note(f"update {description.to_fields()}")
    receivers = [one for one in world.receivers if one.is_open and one.stream >> 2 == book.number]
    if description.forward_to is not None:
        # Those that receive from a queue which begins to forward go first, as their clients would have to.
        for receiver in receivers:
            close_receiver(world, receiver)
            world.auditor.audit()
    elif not description.can_receive:
        leave_sessions(world, receivers)
    world.auditor.descriptions[name] = description
    world.namespace.update_queue(world.queue(book), description)
    world.namespace.effects.reply(Ask(world, f"update {name}"), None)


def delete(world: World) -> None:
    """A queue, a subscription, or a topic with all its subscriptions."""
    book = world.pick_book()
    if book is None or world.random.random() < 0.5:
        return
    world.note(f"delete {book.description.name}")
    numbers = {book.number}
    if book.is_topic:
        numbers.update([one.number for one in world.ledger.subscriptions(book)])
    receivers = [one for one in world.receivers if one.stream >> 2 in numbers]
    leave_sessions(world, receivers)
    queue = world.queue(book)
    world.auditor.dropping.update(numbers)
    world.namespace.delete(queue)
    world.namespace.effects.reply(Ask(world, f"delete {book.description.name}"), None)
    try:
        world.namespace.get(book.description.name)
    except NotFound:
        return
    raise NotAllowed(f"{book.description.name} was deleted and is still there")
