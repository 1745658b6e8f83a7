"""The director: the one writer of a run's decisions (design sections 3 and 5).

It feeds the run's facts to the strategy in log order, appends what the strategy decides, and puts a
pointer into the work queue for each open request. All that it knows comes from the log: kill it at
any moment and the next one goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from ..events import Event, Payload, encode
from ..events.errors import RunError, StrategyError
from ..events.kinds import (
    ExecutionRequested,
    ProposalRequested,
    RunCheckpointed,
    RunCompleted,
    RunPaused,
    TimerFired,
    TimerRequested,
    ViewsDigested,
)
from ..infra.log import Blobs, Log, Stored, Work, WorkQueue, fact, writer
from ..infra.tasks import cancel
from ..projections import Views
from ..replay import Course, Decision, Strategy, Survey

ROLE_OF: dict[type[Payload], str] = {ProposalRequested: "proposing", ExecutionRequested: "evaluation"}
#: Most facts taken into one step. A step's decisions are appended together.
_STEP = 256
#: Events up to which a run is read once at takeover; a longer one is read twice, since it may not fit into memory.
_KEPT = 50_000
#: Seconds without a new event after which the work queue is checked for lost pointers.
_QUIET_SECONDS = 3.0


class Director:
    """Directs one run until its strategy has completed.

    Parameters
    ----------
    log, blobs, work
        The store.
    run
        The run's id.
    strategy_for
        Gives a fresh strategy object for the name in `run.started`.
    on_event
        Called with each event of the run in log order, for progress; it must not block.
    """

    def __init__(
        self,
        log: Log,
        blobs: Blobs,
        work: WorkQueue,
        run: str,
        strategy_for: Callable[[str], Strategy],
        *,
        on_event: Callable[[Stored], None] | None = None,
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._work = work
        self._run = run
        self._strategy_for = strategy_for
        self._on_event = on_event or (lambda _: None)
        self._by = writer("director")
        self._course: Course
        self._next_n = 0
        self._last_decision = 0
        self._timers: dict[str, asyncio.Task[None]] = {}
        #: Decisions that may still be open requests, by place.
        self._requests: dict[str, Stored] = {}

    async def direct(self) -> RunCompleted:
        """Direct the run to its end.

        Returns
        -------
        RunCompleted
            The decision that ended it.

        Raises
        ------
        ConflictError
            If another director has taken the run over.
        DivergenceError, ForbiddenCallError, StrategyError
            If the strategy does not decide as recorded, or does what it must not. A `run.paused`
            says so in the log.
        """
        try:
            tip = await self._take_over()
            return await self._follow(tip)
        except StrategyError as error:
            reason = f"strategy: {error}"
            identity = f"op-paused-{self._next_n}-{time.time_ns():x}"
            await self._log.append(fact(self._run, identity, RunPaused(reason=reason), self._by))
            raise
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _take_over(self) -> int:
        survey, tip = Survey(), 0
        kept: list[Stored] | None = []
        async for stored in self._log.read(self._run):
            survey.add(stored.event)
            if kept is not None:
                kept.append(stored)
                if len(kept) > _KEPT:
                    kept = None
        if survey.strategy is None:
            raise RunError(f"run {self._run!r} is not in the log: 'evolog ls' lists what is")
        checkpoint = None
        if survey.takeover is not None:
            assert isinstance(survey.takeover.event.data, RunCheckpointed)
            checkpoint = survey.takeover, await self._blobs.get(survey.takeover.event.data.state)
        self._course = Course(self._strategy_for(survey.strategy), survey, checkpoint)
        async for stored in self._log.read(self._run) if kept is None else _each(kept):
            self._take(stored)
            tip = stored.seq
            if stored.event.place in self._course.runtime.open:
                self._requests[stored.event.place] = stored
            if len(self._requests) > 2 * len(self._course.runtime.open) + _STEP:
                self._forget_answered()
        self._forget_answered()
        await self._work.purge(self._run)
        await self._put(list(self._requests.values()), again=True)
        await self._append()
        return tip

    def _forget_answered(self) -> None:
        still_open = self._course.runtime.open
        self._requests = {place: one for place, one in self._requests.items() if place in still_open}

    def _take(self, stored: Stored) -> None:
        """Apply one stored event to the course."""
        seq, event = stored
        if event.n is None:
            self._course.apply(event)
        else:
            if event.n < self._next_n:
                return
            if event.n > self._next_n:
                raise RunError(
                    f"run {self._run}: decision {self._next_n} is missing before {event.id} at sequence {seq}; "
                    "run 'evolog doctor' and restore the log from an export"
                )
            self._course.apply(event)
            self._next_n = event.n + 1
            self._last_decision = seq
        self._on_event(stored)

    async def _follow(self, tip: int) -> RunCompleted:
        arrivals: asyncio.Queue[Stored | BaseException] = asyncio.Queue()
        # Another director's decisions need not be followed: appending behind them is refused.
        facts = self._log.follow(self._run, start=tip + 1, origin="fact")
        reader = asyncio.create_task(_pump(facts, arrivals))
        try:
            while True:
                completed = self._completion()
                if completed is not None:
                    return completed
                if self._course.runtime.done:
                    raise StrategyError(f"the strategy of run {self._run} returned without completing it")
                await self._step(arrivals)
        finally:
            await cancel(reader)

    def _completion(self) -> RunCompleted | None:
        if self._course.pending:
            return None
        for payload in self._course.runtime.open.values():
            if isinstance(payload, RunCompleted):
                return payload
        return None

    async def _step(self, arrivals: asyncio.Queue[Stored | BaseException]) -> None:
        try:
            async with asyncio.timeout(_QUIET_SECONDS):
                item = await arrivals.get()
        except TimeoutError:
            await self._restore_pointers()
            return
        for _ in range(_STEP):
            if isinstance(item, BaseException):
                raise item
            self._take(item)
            if arrivals.empty():
                break
            item = arrivals.get_nowait()
        await self._append()

    async def _append(self) -> None:
        """Append what the strategy has decided, and put pointers for its new requests."""
        decisions = list(self._course.pending)
        if not decisions:
            return
        contents = [content for decision in decisions for content in decision.attachments]
        if contents:
            await self._blobs.put(*contents)
        events = [self._event(decision) for decision in decisions]
        sequences = await self._log.decide(events, after=self._last_decision)
        stored = [Stored(seq, event) for seq, event in zip(sequences, events, strict=True)]
        for one in stored:
            self._take(one)
        self._last_decision = sequences[-1]
        self._forget_answered()
        still_open = self._course.runtime.open
        opened = {one.event.place: one for one in stored if one.event.place in still_open and one.event.place}
        self._requests.update(opened)
        await self._put(list(opened.values()), again=False)

    async def _restore_pointers(self) -> None:
        """Put back the pointers of open requests where the work queue has fewer: somebody purged it."""
        waiting = [self._requests[p] for p in self._course.runtime.open if p in self._requests]
        waiting = [one for one in waiting if type(one.event.data) in ROLE_OF]
        if len(waiting) > await self._work.count(self._run):
            await self._work.purge(self._run)
            await self._put(waiting, again=True)

    def _event(self, decision: Decision) -> Event:
        return Event(
            kind=decision.data.KIND,
            v=decision.data.VERSION,
            id=f"{self._run}/{decision.place}",
            run=self._run,
            n=decision.n,
            place=decision.place,
            at=time.time_ns(),
            by=self._by,
            cause=decision.cause,
            data=decision.data,
        )

    async def _put(self, requests: list[Stored], *, again: bool) -> None:
        pointers = []
        for seq, event in requests:
            role = ROLE_OF.get(type(event.data))  # type: ignore[arg-type]
            if role is not None:
                assert event.place is not None
                pointers.append(Work(role, self._run, event.place, seq, again, encode(event)))
            elif isinstance(event.data, TimerRequested):
                self._start_timer(event, event.data)
        if pointers:
            await self._work.put(*pointers)

    def _start_timer(self, event: Event, timer: TimerRequested) -> None:
        async def fire() -> None:
            await asyncio.sleep(max(0.0, (timer.deadline - time.time_ns()) / 1e9))
            fired = TimerFired(deadline=timer.deadline)
            await self._log.append(fact(self._run, f"{event.place}/fired", fired, self._by, (event.id,)))

        if event.id not in self._timers:
            self._timers[event.id] = asyncio.create_task(fire())


async def _each(events: list[Stored]) -> AsyncIterator[Stored]:
    for stored in events:
        yield stored


async def _pump(events: AsyncIterator[Stored], into: asyncio.Queue[Any]) -> None:
    try:
        async with aclosing(events) as following:  # type: ignore[type-var]
            async for stored in following:
                into.put_nowait(stored)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        into.put_nowait(error)


async def record_views(log: Log, run: str) -> dict[str, str]:
    """Append the digests of all projections as of the run's last `run.completed`, once, and return them.

    Raises
    ------
    RunError
        If the run is not completed.
    """
    views = Views()
    digests: dict[str, str] | None = None
    as_of, recorded = "", False
    async for _, event in log.read(run):
        views.apply(event)
        if isinstance(event.data, RunCompleted):
            digests, as_of, recorded = views.digests(), event.id, False
        elif isinstance(event.data, ViewsDigested) and event.data.as_of == as_of:
            recorded = True
    if digests is None:
        raise RunError(f"run {run} is not completed: 'evolog resume {run}' goes on with it")
    if not recorded:
        data = ViewsDigested(as_of=as_of, views=digests)
        await log.append(fact(run, f"{as_of.rpartition('/')[2]}/views", data, writer("director"), (as_of,)))
    return digests
