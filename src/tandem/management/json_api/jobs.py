"""Work on many messages, done in small steps while the broker goes on with everything else.

A job is kept in memory and forgotten with the broker. What its steps did is on disk: the same job, started again, goes
on with what is left.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from tandem.auth import Right
from tandem.engine.namespace import Namespace
from tandem.engine.portion import Portion
from tandem.errors import NotFound, ProtocolError, ServerBusy
from tandem.limits import MAX_JOBS, MAX_MENTIONS, MAX_RUNNING_JOBS
from tandem.management.answers import json_answer
from tandem.management.gate import Gate
from tandem.management.json_api.described import PREFIX, Operation, describes
from tandem.management.json_api.shapes import (
    ErrorDetail,
    JobList,
    JobProgress,
    JobState,
    MentionedMessage,
    ShownJob,
    State,
)

__all__ = ["Job", "JobHandlers", "Jobs", "Plan", "started"]

logger = logging.getLogger(__name__)


@dataclass
class Plan:
    """What a job is to do, step by step."""

    kind: Literal["purge", "resubmit", "move", "undefer"]
    entity: str
    message_state: State
    total: int
    # Messages with numbers in (after, up_to], and not more than `limit` of them.
    after: int
    up_to: int
    # Does one step: behind a number, and at most so many.
    step: Callable[[int, int], Awaitable[Portion]]
    limit: int | None = None
    target: str | None = None
    is_dry_run: bool = False
    removed_properties: tuple[str, ...] = ()


@dataclass
class Job:
    """A plan that is carried out, and how far it is."""

    plan: Plan
    namespace: Namespace
    created_at_ms: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    state: JobState = "running"
    is_cancelled: bool = False
    done_count: int = 0
    skipped_count: int = 0
    failed_count: int = 0
    after: int = 0
    sample: list[MentionedMessage] = field(default_factory=list)
    failures: list[MentionedMessage] = field(default_factory=list)
    error: ErrorDetail | None = None
    finished_at_ms: int | None = None
    task: asyncio.Task[None] | None = None

    def add(self, portion: Portion) -> None:
        self.after = portion.up_to
        self.done_count += portion.done_count
        self.skipped_count += portion.skipped_count
        self.failed_count += portion.failed_count
        for one in portion.mentions:
            kept = self.sample if one.reason is None else self.failures
            if len(kept) < MAX_MENTIONS:
                kept.append(MentionedMessage(one.sequence_number, one.message_id, one.target, one.reason))

    @property
    def is_over(self) -> bool:
        limit = self.plan.limit
        return self.after >= self.plan.up_to or (limit is not None and self.done_count >= limit)

    @property
    def left(self) -> int:
        """How many messages it may still deal with."""
        return (1 << 62) if self.plan.limit is None else self.plan.limit - self.done_count

    def shown(self) -> ShownJob:
        plan = self.plan
        return ShownJob(
            id=self.id,
            kind=plan.kind,
            entity=plan.entity,
            message_state=plan.message_state,
            target=plan.target,
            dry_run=plan.is_dry_run,
            state=self.state,
            progress=JobProgress(self.done_count, self.skipped_count, self.failed_count, plan.total),
            last_sequence_number=self.after,
            removed_properties=list(plan.removed_properties),
            sample=self.sample,
            failures=self.failures,
            error=self.error,
            created_at_ms=self.created_at_ms,
            finished_at_ms=self.finished_at_ms,
        )


class Jobs:
    """The jobs of a broker, of all its namespaces."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._jobs: dict[str, Job] = {}

    def start(self, plan: Plan, namespace: Namespace) -> Job:
        running = sum(job.state == "running" for job in self._jobs.values())
        if running >= MAX_RUNNING_JOBS:
            raise ServerBusy(f"{running} jobs are running, and not more may at the same time: wait for one to end.")
        job = Job(plan, namespace, self._gate.now_ms(), after=plan.after)
        self._jobs[job.id] = job
        if len(self._jobs) > MAX_JOBS:
            del self._jobs[next(key for key, one in self._jobs.items() if one.state != "running")]
        # The task has the context of the request: its steps are taken in the same namespace.
        job.task = asyncio.create_task(self._run(job), name=f"job {job.id}")
        return job

    def find(self, job_id: str, namespace: Namespace) -> Job | None:
        job = self._jobs.get(job_id)
        return job if job is not None and job.namespace is namespace else None

    def all(self, namespace: Namespace) -> list[Job]:
        """The newest first."""
        return [job for job in reversed(self._jobs.values()) if job.namespace is namespace]

    async def stop(self, _: web.Application) -> None:
        """The broker stops. What the steps did so far is done."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None and not job.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: Job) -> None:
        state: JobState = "failed"
        try:
            while not job.is_over and not job.is_cancelled:
                job.add(await job.plan.step(job.after, job.left))
            state = "completed" if job.is_over else "cancelled"
        except ProtocolError as error:
            job.error = ErrorDetail(error.condition, error.description, error.http_status)
        except Exception:
            # The outermost boundary of a job: whoever started it is not there any more.
            logger.exception("the job %s failed", job.id)
            job.error = ErrorDetail("amqp:internal-error", "The broker failed to do it; its log says why.", 500)
        job.state = state
        job.finished_at_ms = self._gate.now_ms()


class JobHandlers:
    """`/jobs`"""

    def __init__(self, gate: Gate, jobs: Jobs) -> None:
        self._gate = gate
        self._jobs = jobs

    @describes(
        Operation(
            "GET",
            "/jobs",
            "list_jobs",
            f"List the last {MAX_JOBS} jobs, the newest first.",
            "Manage on the namespace",
            JobList,
            tag="jobs",
        )
    )
    async def list_all(self, request: web.Request) -> web.Response:
        self._gate.admit(request, "", Right.MANAGE)
        jobs = await self._gate.perform(self._jobs.all)
        return json_answer(JobList([job.shown() for job in jobs]))

    @describes(
        Operation(
            "GET",
            "/jobs/{id}",
            "show_job",
            "Show how far a job is.",
            "Manage on the job's entity",
            ShownJob,
            tag="jobs",
        )
    )
    async def show(self, request: web.Request) -> web.Response:
        return json_answer((await self._find(request)).shown())

    @describes(
        Operation(
            "DELETE",
            "/jobs/{id}",
            "cancel_job",
            "Cancel a job. What it did so far stays done; a job that is over stays as it is.",
            "Manage on the job's entity",
            ShownJob,
            tag="jobs",
        )
    )
    async def cancel(self, request: web.Request) -> web.Response:
        job = await self._find(request)
        job.is_cancelled = True
        if job.task is not None:
            # Until the step is over that it is in.
            await asyncio.wait([job.task])
        return json_answer(job.shown())

    async def _find(self, request: web.Request) -> Job:
        job_id = request.match_info["id"]
        job = await self._gate.perform(lambda namespace: self._jobs.find(job_id, namespace))
        # To who may not manage the namespace, a job that there is not looks like one that is not theirs.
        self._gate.admit(request, "" if job is None else job.plan.entity, Right.MANAGE)
        if job is None:
            raise NotFound(f"There is no job '{job_id:.80}': the last {MAX_JOBS} are remembered, until a restart.")
        return job


def started(job: Job) -> web.Response:
    """The answer to a request that started a job."""
    answer = json_answer(job.shown(), status=202)
    answer.headers["Location"] = f"{PREFIX}/jobs/{job.id}"
    return answer
