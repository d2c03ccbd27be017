"""What can be done with many messages at once: purge, resubmit, move, un-defer. Each request starts a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web

from tandem.auth import Right
from tandem.engine.browsing import MessageState, count_of
from tandem.engine.message import SEQUENCE_MASK
from tandem.engine.moving import REMOVED_PROPERTIES, Relocation
from tandem.engine.namespace import Namespace
from tandem.engine.portion import Portion
from tandem.engine.purging import purge
from tandem.engine.queue import Queue
from tandem.engine.undeferring import undefer, undefer_numbers
from tandem.errors import ArgumentError, NotFound
from tandem.management.gate import Gate
from tandem.management.json_api.described import Method, Operation, describes
from tandem.management.json_api.jobs import Jobs, Plan, started
from tandem.management.json_api.reading import ask, moment_ms, read_request
from tandem.management.json_api.shapes import (
    MoveRequest,
    PurgeRequest,
    ResubmitRequest,
    ShownJob,
    UndeferRequest,
)
from tandem.rules import SqlFilter

__all__ = ["TaskHandlers"]

# Sequence numbers that are looked up in one step: each is read with its bytes.
_STEP_NUMBERS: Final = 50


def _describes(
    name: str, summary: str, body: Any, *, right: str = "Manage on the entity"
) -> Callable[[Method], Method]:
    """Describe an operation that starts a job on the messages of an entity."""
    return describes(Operation("POST", f"/entities/{{path}}/{name}", name, summary, right, ShownJob, 202, body))


class TaskHandlers:
    """`/entities/{path}/purge` and its like"""

    def __init__(self, gate: Gate, jobs: Jobs) -> None:
        self._gate = gate
        self._jobs = jobs

    @_describes(
        "purge",
        "Delete all messages of one state, apart from those that are locked, as a job.",
        PurgeRequest,
    )
    async def purge(self, request: web.Request) -> web.Response:
        path = self._admit(request)
        order = await read_request(request, PurgeRequest)
        state = MessageState(order.state)
        before_ms = moment_ms("before", order.before)

        def plan(namespace: Namespace) -> Plan:
            queue = namespace.get(path)

            async def step(after: int, _: int) -> Portion:
                return await self._portion(lambda asker: purge(queue, state, before_ms, after, up_to, asker), queue)

            up_to = queue.next_sequence_number - 1
            total = count_of(queue, state)
            return Plan("purge", queue.name, order.state, total, _after(order.from_), up_to, step)

        return await self._start(plan)

    @_describes(
        "resubmit",
        (
            "Send dead letters back to where they came from, or to a target, as a job. Their delivery count starts "
            f"again, and they lose the properties {' and '.join(REMOVED_PROPERTIES)}."
        ),
        ResubmitRequest,
        right="Manage on the entity, and Send on the target; for `active` without a target, Manage on the namespace",
    )
    async def resubmit(self, request: web.Request) -> web.Response:
        path = self._admit_moving(request)
        order = await read_request(request, ResubmitRequest)
        if order.target is None and order.state == "transfer-dead-lettered":
            raise ArgumentError(
                "target is missing: where messages of a transfer dead-letter queue were to go is not kept"
            )
        if order.target is None and order.state == "active":
            # Each goes back to an entity that it names itself.
            self._gate.admit_other(request, "", Right.MANAGE)
        return await self._relocate(request, path, order, is_resubmission=True)

    @_describes(
        "move",
        (
            "Move messages of one state to another entity, as a job. Scheduled ones stay scheduled, all others are "
            "active there."
        ),
        MoveRequest,
        right="Manage on the entity, and Send on the target",
    )
    async def move(self, request: web.Request) -> web.Response:
        path = self._admit_moving(request)
        return await self._relocate(request, path, await read_request(request, MoveRequest), is_resubmission=False)

    @_describes(
        "undefer",
        "Make deferred messages active again, all or by their sequence numbers, as a job.",
        UndeferRequest,
    )
    async def undefer(self, request: web.Request) -> web.Response:
        path = self._admit_moving(request)
        order = await read_request(request, UndeferRequest)
        numbers = order.sequence_numbers

        def plan(namespace: Namespace) -> Plan:
            queue = namespace.get(path)
            if numbers is not None:
                return self._undefer_numbers(queue, sorted({number & SEQUENCE_MASK for number in numbers}))

            async def step(after: int, _: int) -> Portion:
                return await self._portion(lambda asker: undefer(queue, after, up_to, asker), queue)

            up_to = queue.next_sequence_number - 1
            total = count_of(queue, MessageState.DEFERRED)
            return Plan("undefer", queue.name, "deferred", total, _after(order.from_), up_to, step)

        return await self._start(plan)

    def _undefer_numbers(self, queue: Queue, numbers: list[int]) -> Plan:
        async def step(after: int, _: int) -> Portion:
            some = [number for number in numbers if number > after][:_STEP_NUMBERS]
            return await self._portion(lambda asker: undefer_numbers(queue, some, asker), queue)

        return Plan("undefer", queue.name, "deferred", len(numbers), numbers[0] - 1, numbers[-1], step)

    async def _relocate(
        self, request: web.Request, path: str, order: ResubmitRequest | MoveRequest, *, is_resubmission: bool
    ) -> web.Response:
        target_path = order.target
        if target_path is not None:
            self._gate.admit_other(request, target_path, Right.SEND)
        condition = None if order.filter is None else SqlFilter(order.filter)
        state = MessageState(order.state)

        def plan(namespace: Namespace) -> Plan:
            queue = namespace.get(path)
            target = None if target_path is None else namespace.get(target_path)
            if target is queue and state not in {MessageState.DEAD_LETTERED, MessageState.TRANSFER_DEAD_LETTERED}:
                raise ArgumentError(f"target is {target_path!r:.80}, where the messages are already")
            relocation = Relocation(queue, state, target, condition, is_resubmission, order.dry_run)

            async def step(after: int, limit: int) -> Portion:
                return await self._portion(lambda asker: relocation.step(after, up_to, limit, asker), queue)

            up_to = queue.next_sequence_number - 1
            return Plan(
                "resubmit" if is_resubmission else "move",
                queue.name,
                order.state,
                count_of(queue, state),
                _after(order.from_),
                up_to,
                step,
                limit=order.limit,
                target=None if target is None else target.name,
                is_dry_run=order.dry_run,
                removed_properties=REMOVED_PROPERTIES if is_resubmission else (),
            )

        return await self._start(plan)

    # --- steps ----------------------------------------------------------------------------------------------

    def _admit(self, request: web.Request) -> str:
        path = request.match_info["path"]
        self._gate.admit(request, path, Right.MANAGE)
        return path

    def _admit_moving(self, request: web.Request) -> str:
        """The same for what is work for the broker. Purging makes room, and goes on under overload."""
        path = self._admit(request)
        self._gate.throttle(request, path)
        return path

    async def _start(self, plan: Callable[[Namespace], Plan]) -> web.Response:
        return started(await self._gate.perform(lambda namespace: self._jobs.start(plan(namespace), namespace)))

    async def _portion(self, function: Callable[[object], None], queue: Queue) -> Portion:
        def take(_: Namespace, asker: object) -> None:
            # Another one of the same name is not what the job was started for.
            if queue.is_dropped:
                raise NotFound(f"The messaging entity '{queue.name}' could not be found. It was deleted.")
            function(asker)

        return cast("Portion", await ask(self._gate, take))


def _after(first: int) -> int:
    return max(first & SEQUENCE_MASK, 1) - 1
