"""The runtime's implementation of `evolog.replay.Context`: what a strategy's calls and awaits do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..events import Blob, Event, Payload, Ref, RunStatus, blob_of, canonical, content_digest
from ..events.errors import StrategyError
from ..events.kinds import (
    ExecutionRequested,
    RunCheckpointed,
    RunCompleted,
    TaskRegistered,
    TimerRequested,
    VersionRecorded,
)
from .branch import RunningBranch, Wait
from .draw import Draw
from .guard import Unguarded
from .strategy import Answer, Branch, Sealed

if TYPE_CHECKING:
    from .runtime import Runtime

T = TypeVar("T")


class _Pool:
    def __init__(self, runtime: Runtime, place: str, limit: int, owner: RunningBranch) -> None:
        self._runtime = runtime
        self._place = place
        self._limit = limit
        self._owner = owner
        self._queued: deque[_PoolTask] = deque()
        self._finished: deque[_PoolTask] = deque()
        self._running = 0
        self._submitted = 0
        self._waiter: RunningBranch | None = None

    @property
    def pending(self) -> int:
        return self._running + len(self._queued) + len(self._finished)

    def submit(self, branch: Branch[Any]) -> _PoolTask:
        self._submitted += 1
        task = _PoolTask(self._runtime, branch, f"{self._place}.{self._submitted}.", self._ended)
        self._queued.append(task)
        self._launch()
        return task

    def _launch(self) -> None:
        while self._queued and self._running < self._limit:
            task = self._queued.popleft()
            if task.branch.ended:
                continue
            self._running += 1
            self._owner.children.append(task.branch)
            self._runtime._ready.append((task.branch, None, None))

    def _ended(self, task: _PoolTask) -> None:
        self._running -= 1
        self._owner.children.remove(task.branch)
        self._finished.append(task)
        self._launch()
        if self._waiter is not None:
            waiter, self._waiter = self._waiter, None
            self._runtime._ready.append((waiter, self._finished.popleft(), None))

    async def next(self) -> Any:
        if not self.pending:
            raise StrategyError(f"pool {self._place} has no branch left to wait for")

        def start(branch: RunningBranch) -> None:
            if self._finished:
                self._runtime._ready.append((branch, self._finished.popleft(), None))
            else:
                self._waiter = branch

        return await Wait[Any](start)


class _PoolTask:
    def __init__(self, runtime: Runtime, branch: Branch[Any], path: str, ended: Callable[[_PoolTask], None]) -> None:
        self._runtime = runtime
        self.branch = RunningBranch(path, branch, lambda _: ended(self))

    @property
    def place(self) -> str:
        return self.branch.place

    @property
    def done(self) -> bool:
        return self.branch.ended

    def result(self) -> Any:
        return self.branch.result()

    def cancel(self, reason: str) -> None:
        if not self.branch.ended:
            self._runtime._cancel_branch(self.branch, reason)


class RuntimeContext:
    """The runtime's implementation of `evolog.replay.Context`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def run(self) -> str:
        return self._runtime._run

    @property
    def seed(self) -> int:
        assert self._runtime._started is not None
        return self._runtime._started.seed

    @property
    def settings(self) -> Mapping[str, Any]:
        return self._runtime._settings

    @property
    def tasks(self) -> Mapping[str, TaskRegistered]:
        return MappingProxyType(self._runtime._tasks)

    @property
    def now(self) -> int:
        return self._runtime._now

    async def request(self, payload: Payload) -> Answer:
        if isinstance(payload, ExecutionRequested) and payload.purpose == "holdout":
            raise StrategyError("a holdout reading decides nothing: ask for it with ctx.sealed")

        def answer(fact: Event) -> Answer:
            assert isinstance(fact.data, Payload)
            place = fact.cause[0].rpartition("/")[2]
            return Answer(fact, Ref(place=place, digest=content_digest(fact.data)))

        answered: Answer = await self._wait(payload, answer)
        return answered

    async def sealed(self, payload: Payload) -> Sealed:
        if not (isinstance(payload, ExecutionRequested) and payload.purpose == "holdout"):
            raise StrategyError("only a holdout reading is sealed: use ctx.request")
        sealed: Sealed = await self._wait(payload, lambda fact: Sealed(fact.cause[0].rpartition("/")[2]))
        return sealed

    def _wait(self, payload: Payload, answer: Callable[[Event], T]) -> Wait[T]:
        if not payload.ANSWERED_BY:
            raise StrategyError(f"{payload.KIND} is no request, nothing answers it: use ctx.decide")

        def start(branch: RunningBranch) -> None:
            with Unguarded():
                self._runtime._request(branch, payload, answer)

        return Wait(start)

    async def gather(self, *branches: Branch[T]) -> list[T]:
        runtime = self._runtime
        if not branches:
            return []
        children: list[RunningBranch] = []

        def start(branch: RunningBranch) -> None:
            place = branch.step()
            left = len(branches)

            def finish(_: RunningBranch) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    branch.children = [c for c in branch.children if c not in children]
                    error = next((c.error for c in children if c.error is not None), None)
                    runtime._ready.append((branch, [c.value for c in children], error))

            for index, make in enumerate(branches, start=1):
                child = RunningBranch(f"{place}.{index}.", make, finish)
                children.append(child)
                runtime._ready.append((child, None, None))
            branch.children.extend(children)

        return await Wait[list[T]](start)

    def pool(self, n: int) -> _Pool:
        if n < 1:
            raise StrategyError(f"pool({n}): at least one branch must be able to run")
        branch = self._runtime._branch()
        return _Pool(self._runtime, branch.step(), n, branch)

    def draw(self, purpose: str) -> Draw:
        branch = self._runtime._branch()
        again = branch.draws.get(purpose, 0)
        branch.draws[purpose] = again + 1
        suffix = f"#{again}" if again else ""
        return Draw(f"{self.seed}/{purpose}/{branch.peek()}{suffix}")

    def decide(self, payload: Payload) -> Ref:
        if payload.ANSWERED_BY:
            raise StrategyError(f"{payload.KIND} is a request: await ctx.request(...)")
        with Unguarded():
            return self._runtime._make(self._runtime._branch().step(), payload)

    def attach(self, content: bytes) -> Blob:
        self._runtime._attachments.append(content)
        return blob_of(content)

    def checkpoint(self, boundary: str, state: msgspec.Struct) -> None:
        runtime = self._runtime
        branch = runtime._branch()
        if branch is not runtime._main or runtime.open or branch.children:
            raise StrategyError(
                f"checkpoint {boundary!r} at {branch.peek()}: only the main branch may checkpoint, with nothing open"
            )
        with Unguarded():
            blob = self.attach(canonical(state))
            runtime._make(branch.step(), RunCheckpointed(boundary=boundary, state=blob))

    def version(self, name: str, newest: int) -> int:
        runtime = self._runtime
        branch = runtime._branch()
        place = branch.peek()
        recorded = runtime._recorded.versions.get(place)
        if recorded is not None and recorded[0] == name:
            value = recorded[1]
        elif runtime.n < runtime._recorded.decisions:
            return 0  # what the log has next is another decision: it was made without this version
        else:
            value = newest
        self.decide(VersionRecorded(name=name, value=value))
        return value

    async def timer(self, seconds: float, purpose: str) -> None:
        deadline = self.now + round(seconds * 1e9)
        await self._wait(TimerRequested(deadline=deadline, purpose=purpose), lambda _: None)

    async def complete(self, status: RunStatus, reason: str, *, best: str | None, attempts: dict[str, int]) -> None:
        payload = RunCompleted(status=status, reason=reason, best=best, attempts=attempts)
        await self._wait(payload, lambda _: None)
