"""How a worker answers one open request: attempts are counted, effects happen once, results are facts.

This is the part of a worker that knows nothing of queues; `evolog.consumers.worker` brings the
pointers.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ..events import Blob, Event, Payload
from ..events.errors import EvologError, LogError, RequestFailedError, RunError
from ..events.kinds import (
    AttemptStarted,
    CallStarted,
    CompletionRecorded,
    ExecutionRequested,
    ProposalRequested,
    RequestCancelled,
    RequestFailed,
    RunPaused,
    TaskRegistered,
)
from ..infra.log import Blobs, Log, fact, writer
from .evaluation.port import Assignment, Evaluator
from .proposing.port import Brief, Proposer

#: Seconds between two attempts at a request whose attempt failed unexpectedly, times the attempt's number.
RETRY_SECONDS = 1.0
_CACHED_BYTES = 64 * 1024 * 1024


class RetryError(EvologError):
    """The attempt failed and others are left: try again after `seconds`."""

    def __init__(self, seconds: float, why: str) -> None:
        self.seconds = seconds
        super().__init__(why)


class History(msgspec.Struct):
    """What the log holds of a request already."""

    attempts: int = 0
    closed: bool = False
    spent_usd: float = 0.0


async def history_of(log: Log, run: str, place: str, start: int) -> History:
    """Read what earlier attempts at a request left in the log, from sequence `start` on.

    A model call that was started and never settled is charged at its worst case (design rule 9). An
    attempt before a `run.paused` was interrupted by an operator and does not count against the limit.
    """
    request = f"{run}/{place}"
    found = History()
    unsettled: dict[str, float] = {}
    at_work = False
    async for _, event in log.read(run, start=start):
        data = event.data
        if isinstance(data, RunPaused) and at_work:
            found.attempts, at_work = found.attempts - 1, False
        if isinstance(data, RequestCancelled) and data.request == place:
            found.closed = True
        if not event.cause or event.cause[0] != request:
            continue
        if isinstance(data, AttemptStarted):
            found.attempts, at_work = found.attempts + 1, True
        elif isinstance(data, CallStarted):
            unsettled[data.call] = data.worst_usd
        elif isinstance(data, CompletionRecorded):
            unsettled.pop(data.call, None)
            found.spent_usd += data.usd
        elif event.kind in ("proposal.made", "trace.recorded", "request.failed", "timer.fired"):
            found.closed = True
    found.spent_usd += sum(unsettled.values())
    return found


class ContentCache:
    """Blobs read lately, by digest, at most 64 MiB."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def get(self, blob: Blob) -> bytes:
        content = self._kept.get(blob.sha256)
        if content is None:
            content = await self._blobs.get(blob)
            self.keep(blob, content)
        else:
            self._kept.move_to_end(blob.sha256)
        return content

    def keep(self, blob: Blob, content: bytes) -> None:
        if blob.sha256 in self._kept:
            return
        self._kept[blob.sha256] = content
        self._size += len(content)
        while self._size > _CACHED_BYTES and len(self._kept) > 1:
            self._size -= len(self._kept.popitem(last=False)[1])


class Answerer:
    """Answers requests of any run.

    Parameters
    ----------
    log, blobs
        The store.
    proposer_for
        Gives the proposer for a run's request (see `evolog.consumers.workshop`).
    evaluator_for
        Likewise the evaluator.
    """

    def __init__(
        self,
        log: Log,
        blobs: Blobs,
        *,
        proposer_for: Callable[[str, str], Awaitable[Proposer]],
        evaluator_for: Callable[[str, str], Awaitable[Evaluator]],
        role: str,
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._contents = ContentCache(blobs)
        self._proposer_for = proposer_for
        self._evaluator_for = evaluator_for
        self._tasks: dict[tuple[str, str], TaskRegistered] = {}
        self._by = writer(role)

    async def answer(self, request: Event, *, again: bool, seq: int = 1) -> None:
        """Take up one request and append its answer.

        Parameters
        ----------
        again
            Whether it may have been taken up before: then the log is read from `seq` on.

        Raises
        ------
        RetryError
            If this attempt failed and the request has attempts left.
        LogError
            If the log cannot be reached; nothing is lost, the pointer comes back.
        """
        data = request.data
        if not isinstance(data, ProposalRequested | ExecutionRequested):
            raise RunError(f"no worker answers {request.kind} (event {request.id})")
        assert request.place is not None
        past = await history_of(self._log, request.run, request.place, seq) if again else History()
        if past.closed:
            return
        number = past.attempts + 1
        if number > data.limits.attempts:
            await self._fail(request, "attempts", f"{past.attempts} attempts ended without a result", past)
            return
        attempt = f"a-{secrets.token_hex(8)}"
        started = AttemptStarted(attempt=attempt, number=number)
        await self._log.append(fact(request.run, attempt, started, self._by, (request.id,)))
        try:
            result = await self._attempt(request, data, attempt, number, past)
        except RequestFailedError as failure:
            past.attempts, past.spent_usd = number, failure.usd
            await self._fail(request, failure.reason, failure.detail, past)
        except LogError:
            raise
        except Exception as error:  # a worker must outlive any proposer's or evaluator's bug
            past.attempts = number
            why = f"{type(error).__name__}: {error}"
            if number >= data.limits.attempts:
                await self._fail(request, "error", why, past)
            else:
                raise RetryError(RETRY_SECONDS * number, why) from error
        else:
            await self._log.append(
                fact(request.run, f"{attempt}/result", result, self._by, (request.id, f"{request.run}/{attempt}"))
            )

    async def _attempt(
        self,
        request: Event,
        data: ProposalRequested | ExecutionRequested,
        attempt: str,
        number: int,
        past: History,
    ) -> Payload:
        task = await self._task(request.run, data.task)
        if isinstance(data, ExecutionRequested):
            evaluator = await self._evaluator_for(request.run, task.judge)
            assignment = await self._assignment(request, data, task)
            return await evaluator.evaluate(assignment, store=self._store)
        proposer = await self._proposer_for(request.run, data.model)
        brief = await self._brief(request, data, task, attempt, number, past)

        async def record(name: str, payload: Payload) -> None:
            cause = (request.id, f"{request.run}/{attempt}")
            await self._log.append(fact(request.run, f"{attempt}/{name}", payload, self._by, cause))

        try:
            async with asyncio.timeout(data.limits.seconds):
                return await proposer.propose(brief, record=record, store=self._store)
        except TimeoutError:
            spent = await history_of(self._log, request.run, brief.place, 1)
            detail = f"no answer within {data.limits.seconds:g} s (proposer.seconds)"
            raise RequestFailedError(brief.place, "timeout", detail, spent.spent_usd) from None

    async def _fail(self, request: Event, reason: Any, detail: str, past: History) -> None:
        data = RequestFailed(reason=reason, detail=detail, attempts=past.attempts, usd=past.spent_usd)
        # One id for all that find the attempts used up: the request fails once.
        await self._log.append(
            fact(request.run, f"{request.place}/failed-{past.attempts}", data, self._by, (request.id,))
        )

    async def _task(self, run: str, name: str) -> TaskRegistered:
        key = (run, name)
        if key not in self._tasks:
            async for _, event in self._log.read(run):
                if isinstance(event.data, TaskRegistered):
                    self._tasks[run, event.data.name] = event.data
                if key in self._tasks or event.n is not None:
                    break
        try:
            return self._tasks[key]
        except KeyError:
            raise RunError(f"run {run} has no task {name!r}") from None

    async def _assignment(self, request: Event, data: ExecutionRequested, task: TaskRegistered) -> Assignment:
        split = next((split for split in task.splits if split.name == data.split), None)
        if split is None:
            raise RunError(f"task {task.name!r} has no split {data.split!r} (event {request.id})")
        assert request.place is not None
        return Assignment(
            run=request.run,
            place=request.place,
            request=data,
            task=task,
            program=await self._contents.get(data.program),
            harness=await self._contents.get(task.harness),
            evaluator=await self._contents.get(task.evaluator),
            data=await self._contents.get(split.data),
        )

    async def _brief(
        self,
        request: Event,
        data: ProposalRequested,
        task: TaskRegistered,
        attempt: str,
        number: int,
        past: History,
    ) -> Brief:
        assert request.place is not None
        parents = [(await self._contents.get(parent.program)).decode() for parent in data.parents]
        feedback = (await self._contents.get(data.feedback)).decode(errors="replace") if data.feedback else ""
        return Brief(
            run=request.run,
            place=request.place,
            request=data,
            task=task,
            interface=(await self._contents.get(task.interface)).decode(),
            parents=tuple(parents),
            feedback=feedback,
            attempt=attempt,
            attempt_number=number,
            spent_usd=past.spent_usd,
        )

    async def _store(self, *contents: bytes) -> list[Blob]:
        blobs = await self._blobs.put(*contents)
        for blob, content in zip(blobs, contents, strict=True):
            self._contents.keep(blob, content)
        return blobs
