"""The engine and a store in memory on a desk: commands are given, time is moved, and what comes out lies in lists."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import cast

from tandem.amqp.batch import BATCH_FORMAT, make_batch
from tandem.amqp.message import Header, Message, Properties, encode_message
from tandem.amqp.types import Timestamp
from tandem.engine.consumer import Consumer
from tandem.engine.description import QueueDescription
from tandem.engine.effects import Effects, Notice
from tandem.engine.lock_table import Lock
from tandem.engine.namespace import Namespace
from tandem.engine.queries import Query
from tandem.engine.queue import Queue
from tandem.engine.subqueue import SubQueue
from tandem.engine.transactions import Transaction
from tandem.errors import ProtocolError
from tandem.ids import Nonces
from tandem.server.restoring import restore
from tandem.testing.memory_store import MemoryStore

__all__ = ["START_MS", "Desk", "body", "payload", "properties_of"]

START_MS = 1_800_000_000_000


def payload(
    text: str = "a",
    *,
    message_id: str | None = None,
    session_id: str | None = None,
    partition_key: str | None = None,
    via_partition_key: str | None = None,
    ttl_ms: int | None = None,
    due_ms: int | None = None,
) -> bytes:
    """A message as a client encodes it."""
    annotations: dict[str, object] = {}
    if due_ms is not None:
        annotations["x-opt-scheduled-enqueue-time"] = Timestamp(due_ms)
    if partition_key is not None:
        annotations["x-opt-partition-key"] = partition_key
    if via_partition_key is not None:
        annotations["x-opt-via-partition-key"] = via_partition_key
    return encode_message(
        header=None if ttl_ms is None else Header(ttl_ms=ttl_ms),
        message_annotations=annotations,
        properties=Properties(message_id=message_id or text[:20], group_id=session_id),
        data=text.encode(),
    )


def body(message: bytes | Lock) -> str:
    """The text of a message that was delivered."""
    data = Message(message.payload if isinstance(message, Lock) else message).data
    assert data is not None
    return data.decode()


def properties_of(message: bytes | Lock) -> dict[str, object]:
    """Its application properties."""
    found = Message(message.payload if isinstance(message, Lock) else message).application_properties
    return {str(key): value for key, value in (found or {}).items()}


class Desk:
    """A namespace whose effects are performed at once."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self.now_ms = START_MS
        self.delivered: list[Lock] = []
        self.handed_out: list[bytes] = []
        self.notices: list[Notice] = []
        self.answers: list[object] = []
        self._start()

    def _start(self) -> None:
        # By how much shared bodies grew in batches that are written and not committed.
        self.shared_bytes: dict[int, int] = {}
        random = Random(1)
        self.namespace = Namespace("test", Nonces(lambda: random.randbytes(4_096)), self.now_ms)
        restore(self.namespace, self.store)
        self.flush()

    def restart(self) -> None:
        """As after a crash: whatever was not committed is gone, and so are locks and receivers."""
        self.store.crash()
        self.store.reopen()
        self._start()

    # --- commands -------------------------------------------------------------------------------------------

    def queue(self, name: str = "orders", **fields: object) -> Queue:
        queue = self.namespace.create_queue(QueueDescription.from_fields({"name": name, **fields}))
        self.flush()
        return queue

    def update(self, queue: Queue, **fields: object) -> None:
        description = QueueDescription.from_fields({**queue.description.to_fields(), **fields})
        self.namespace.update_queue(queue, description)
        self.flush()

    def send(self, queue: Queue, *messages: bytes) -> None:
        """Each of these, one after the other."""
        for message in messages:
            queue.send(message, 0)
        self.flush()

    def send_batch(self, queue: Queue, *messages: bytes) -> None:
        queue.send(make_batch(list(messages)), BATCH_FORMAT)
        self.flush()

    def receiver(self, subqueue: SubQueue, credit: int = 10, *, deletes: bool = False) -> Consumer:
        consumer = subqueue.open_consumer(None, deletes)
        self.grant(consumer, credit)
        return consumer

    def receiver_without_flush(self, subqueue: SubQueue) -> Consumer:
        """A receiver whose credit is part of the turn that is not over yet."""
        consumer = subqueue.open_consumer(None, False)
        assert consumer.outlet is not None
        consumer.outlet.grant(consumer, 10, False)
        return consumer

    def grant(self, consumer: Consumer, credit: int, *, is_draining: bool = False) -> None:
        assert consumer.outlet is not None
        consumer.outlet.grant(consumer, credit, is_draining)
        self.flush()

    def accept(
        self, queue: Queue, session_id: str | None, *, wait_ms: int = 5_000, credit: int = 10, deletes: bool = False
    ) -> Consumer:
        consumer = queue.main.accept_session(None, deletes, session_id, wait_ms)
        self.flush()
        if consumer.outlet is not None:
            self.grant(consumer, credit)
        return consumer

    def ask(self, question: Callable[[object], None]) -> object:
        """The answer to a command that has to ask the store."""
        self.answers.clear()
        question("asker")
        self.flush()
        (answer,) = self.answers
        return answer

    def discharge(self, transaction: Transaction, *, is_failed: bool = False) -> None:
        """Commit a transaction of "owner", or roll it back; raise what it is refused with."""
        discharge = self.namespace.transactions.discharge
        answer = self.ask(lambda asker: discharge(transaction.identifier, "owner", is_failed, asker))
        if isinstance(answer, ProtocolError):
            raise answer

    def peek(self, subqueue: SubQueue, count: int = 100) -> list[str]:
        answer = self.ask(lambda asker: subqueue.peek(1, count, None, asker))
        return [body(one) for one in cast("list[bytes]", answer)]

    def take(self) -> list[Lock]:
        """What was delivered since the last time."""
        taken, self.delivered = self.delivered, []
        return taken

    def take_bodies(self) -> list[str]:
        return [body(lock) for lock in self.take()]

    def take_handed_out(self) -> list[str]:
        taken, self.handed_out = self.handed_out, []
        return [body(one) for one in taken]

    def take_notices(self) -> list[Notice]:
        taken, self.notices = self.notices, []
        return taken

    # --- rhythm ---------------------------------------------------------------------------------------------

    def advance(self, by_ms: int) -> None:
        """Time passes, and what is due is done."""
        self.now_ms += by_ms
        self.namespace.begin(self.now_ms)
        self.flush()
        while self.namespace.next_deadline_ms() <= self.now_ms:
            self.namespace.tick()
            self.flush()

    def flush(self) -> None:
        """Write, ask and commit until there is nothing more to do."""
        for _ in range(1_000):
            batch, duplicates = self.write()
            self.commit(batch, duplicates)
            self.namespace.settle_turn()
            effects = self.namespace.effects
            is_quiet = not (effects.has_writes or effects.queries or effects.replies)
            if is_quiet and not (effects.deliveries or effects.notices or effects.event_deliveries):
                return
        raise AssertionError("the engine does not come to rest")

    def write(self) -> tuple[list[Effects], set[int]]:
        """The first half of a flush: everything is written and nothing committed."""
        namespace = self.namespace
        queries: list[Query] = []
        batch: list[Effects] = []
        duplicates: set[int] = set()
        while True:
            namespace.settle_turn()
            effects = namespace.take_effects()
            batch.append(effects)
            written = self.store.write(effects)
            duplicates.update(written.duplicates)
            for stream, by_bytes in written.shared_bytes.items():
                self.shared_bytes[stream] = self.shared_bytes.get(stream, 0) + by_bytes
            queries += effects.queries
            if not queries:
                return batch, duplicates
            self.store.read(queries.pop(0))

    def commit(self, batch: list[Effects], duplicates: set[int]) -> None:
        """The second half: it is on disk, and told."""
        self.store.commit()
        self.store.events.committed()
        self.namespace.shared(self.shared_bytes)
        self.shared_bytes = {}
        for effects in batch:
            self.delivered += effects.deliveries
            self.notices += effects.notices
            self.namespace.committed(effects, duplicates)
            self.answers += [answer for _, answer in effects.replies]
            self.handed_out += [one.payload for one in effects.handed_out]
