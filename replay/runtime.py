"""The deterministic runtime: drives a strategy by feeding it the run's facts in log order.

There is no event loop, no clock and no thread here. `Runtime.feed` takes one fact and returns the
decisions that follow from it. Live, a director appends them; on resume and replay they are compared
with the recorded ones (`evolog.replay.course`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec

from ..events import Blob, Event, Payload, Ref, RunStatus, blob_of, canonical, content_digest
from ..events.errors import (
    RequestCancelledError,
    RequestFailedError,
    RunStoppedError,
    StrategyError,
)
from ..events.kinds import (
    ExecutionRequested,
    RequestCancelled,
    RequestFailed,
    RunCheckpointed,
    RunCompleted,
    RunReconfigured,
    RunStarted,
    RunStopped,
    TaskRegistered,
    TimerRequested,
    VersionRecorded,
)
from .draw import Draw
from .guard import Guard, Unguarded
from .strategy import Answer, Branch, Sealed, Strategy

T = TypeVar("T")


class Decision(msgspec.Struct, frozen=True):
    """A decision that the strategy made: its ordinal, its place, and the ids of the facts it followed.

    `attachments` are contents that must be stored before the decision is appended.
    """

    n: int
    place: str
    data: Payload
    cause: tuple[str, ...]
    attachments: tuple[bytes, ...] = ()


class Recorded(msgspec.Struct, frozen=True):
    """What the runtime must know of the recorded decisions in advance, for `version`."""

    places: frozenset[str] = frozenset()
    versions: Mapping[str, tuple[str, int]] = {}


class _Wait(Generic[T]):
    """One await of a strategy: the runtime resumes the branch with a value or an error."""

    __slots__ = ("start",)

    def __init__(self, start: Callable[[_Branch], None]) -> None:
        self.start = start

    def __await__(self) -> Generator[_Wait[T], T, T]:
        return (yield self)


class _Branch:
    __slots__ = (
        "_coroutine",
        "_make",
        "children",
        "count",
        "draws",
        "ended",
        "error",
        "finish",
        "path",
        "value",
        "waits_for",
    )

    def __init__(self, path: str, make: Callable[[], Awaitable[Any]], finish: Callable[[_Branch], None]) -> None:
        self.path = path
        self._make = make
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self.finish = finish
        self.count = 0
        self.draws: dict[str, int] = {}
        self.children: list[_Branch] = []
        self.waits_for: str | None = None
        self.ended = False
        self.value: Any = None
        self.error: Exception | None = None

    @property
    def coroutine(self) -> Coroutine[Any, Any, Any]:
        # Made when first stepped: a branch that never starts leaves no coroutine behind.
        if self._coroutine is None:
            self._coroutine = _await(self._make)
        return self._coroutine

    def close(self) -> None:
        self.ended = True
        if self._coroutine is not None:
            self._coroutine.close()

    def peek(self) -> str:
        return f"{self.path}{self.count + 1}"

    def step(self) -> str:
        self.count += 1
        self.draws.clear()
        return f"{self.path}{self.count}"

    @property
    def place(self) -> str:
        return self.path.removesuffix(".")

    def result(self) -> Any:
        if not self.ended:
            raise StrategyError(f"branch {self.place} has not ended: await pool.next() first")
        if self.error is not None:
            raise self.error
        return self.value


class Runtime:
    """Drives one strategy through one run.

    Parameters
    ----------
    strategy
        The strategy to drive. The same object must not be driven twice.
    recorded
        What is known of decisions already in the log (see `Recorded`).

    Attributes
    ----------
    n
        How many decisions the strategy has made so far (their ordinals are 0 to n-1).
    done
        Whether the strategy has returned.
    open
        Open requests: place to the request's payload, in the order they were made.
    """

    def __init__(self, strategy: Strategy, recorded: Recorded = Recorded()) -> None:  # noqa: B008 (frozen)
        self._strategy = strategy
        self._recorded = recorded
        self._ready: deque[tuple[_Branch, Any, Exception | None]] = deque()
        self._waiting: dict[str, tuple[_Branch, Callable[[Event], Any]]] = {}
        self._made: list[Decision] = []
        self._attachments: list[bytes] = []
        self._current: _Branch | None = None
        self._main: _Branch | None = None
        self._trigger: tuple[str, ...] = ()
        self._latest_fact = ""
        self._started: RunStarted | None = None
        self._settings: Mapping[str, Any] = MappingProxyType({})
        self._tasks: dict[str, TaskRegistered] = {}
        self._resume_from: tuple[Any, int] | None = None
        self._run = ""
        self._now = 0
        self._guard = Guard()
        self.open: dict[str, Payload] = {}
        self.n = 0
        self.done = False

    # What the director and the replayer use.

    def start_from(self, checkpoint: Event, state: bytes, *, now: int, settings: Mapping[str, Any] | None) -> None:
        """Go on from a checkpoint once the run's opening facts have been fed.

        Parameters
        ----------
        checkpoint
            The `run.checkpointed` event.
        state
            Its state blob.
        now
            The strategy's time there (ns).
        settings
            Effective settings there, if an operator changed them since the start.
        """
        decoded = msgspec.json.decode(state, type=self._strategy.State)
        assert checkpoint.n is not None
        assert checkpoint.place is not None
        self._resume_from = (decoded, int(checkpoint.place))
        self.n = checkpoint.n + 1
        self._now = now
        if settings is not None:
            self._settings = MappingProxyType(dict(settings))

    def feed(self, fact: Event) -> list[Decision]:
        """Give the strategy one fact, in log order, and return the decisions that follow.

        Facts that answer no open request, late results and observers' facts change nothing.

        Raises
        ------
        ForbiddenCallError
            If the strategy read a clock, the environment, a file or global randomness.
        StrategyError
            If the strategy raised, or used the runtime wrongly.
        """
        data = fact.data
        if isinstance(data, RunStarted | TaskRegistered):
            self._open_run(fact, data)
        elif isinstance(data, RunReconfigured):
            self._consume(fact)
            self._settings = MappingProxyType(dict(data.settings))
            self._answer(fact)
        elif isinstance(data, RunStopped):
            over = any(isinstance(payload, RunCompleted) for payload in self.open.values())
            if self._main is not None and not self.done and not over:
                self._consume(fact)
                self._stop(data.reason)
        else:
            self._answer(fact)
        if self._ready:
            self._drain()
        made, self._made = self._made, []
        return made

    def _consume(self, fact: Event) -> None:
        self._trigger = (fact.id,)
        if fact.at > self._now:
            self._now = fact.at
            self._latest_fact = fact.id

    def _open_run(self, fact: Event, data: RunStarted | TaskRegistered) -> None:
        if self._main is not None:
            return
        if isinstance(data, RunStarted):
            if self._started is not None:
                return
            self._started = data
            self._run = fact.run
            if not self._settings:
                self._settings = MappingProxyType(data.settings)
        else:
            self._tasks.setdefault(data.name, data)
        self._consume(fact)
        if self._started is not None and all(task.name in self._tasks for task in self._started.tasks):
            state, count = self._resume_from or (None, 0)
            main = _Branch("", lambda: self._strategy.run(_Context(self), state), self._finish_main)
            main.count = count
            self._main = main
            self._ready.append((main, None, None))

    def _answer(self, fact: Event) -> None:
        if not fact.cause:
            return
        run, _, place = fact.cause[0].rpartition("/")
        waiting = self._waiting.get(place)
        if waiting is None or run != self._run or fact.kind not in self.open[place].ANSWERED_BY:
            return
        self._consume(fact)
        branch, answer = waiting
        self._close(place)
        if isinstance(fact.data, RequestFailed):
            failed = fact.data
            self._ready.append((branch, None, RequestFailedError(place, failed.reason, failed.detail, failed.usd)))
        else:
            self._ready.append((branch, answer(fact), None))

    def _close(self, place: str) -> None:
        branch, _ = self._waiting.pop(place)
        branch.waits_for = None
        del self.open[place]

    def _stop(self, reason: str) -> None:
        # Children are abandoned, not resumed: what they would do next is no longer wanted.
        main = self._main
        assert main is not None
        for place in list(self.open):
            self._cancel(place, reason)
            self._close(place)
        self._ready.clear()
        _abandon(main)
        self._ready.append((main, None, RunStoppedError(reason)))

    def _cancel(self, place: str, reason: str) -> None:
        self._make(f"{place}.cancelled", RequestCancelled(request=place, reason=reason))

    def _drain(self) -> None:
        while self._ready:
            branch, value, error = self._ready.popleft()
            if branch.ended:
                continue
            self._current = branch
            try:
                with self._guard:
                    wait = branch.coroutine.send(value) if error is None else branch.coroutine.throw(error)
            except StopIteration as stop:
                branch.value = stop.value
                self._end(branch)
            except (StrategyError, RecursionError):
                raise
            except Exception as failure:
                branch.error = failure
                self._end(branch)
            else:
                if not isinstance(wait, _Wait):
                    raise StrategyError(
                        f"at {branch.peek()} the strategy awaited {type(wait).__qualname__}, which is none of the "
                        "runtime's awaits: use ctx.request, gather, pool or timer"
                    )
                wait.start(branch)
            finally:
                self._current = None
            if self._guard.violation is not None:
                raise self._guard.violation

    def _end(self, branch: _Branch) -> None:
        branch.ended = True
        branch.finish(branch)

    def _finish_main(self, branch: _Branch) -> None:
        self.done = True
        error = branch.error
        if error is not None and not isinstance(error, RunStoppedError):
            raise StrategyError(
                f"the strategy raised {type(error).__name__} after decision {self.n - 1}: {error}"
            ) from error

    # What the context uses.

    def _branch(self) -> _Branch:
        if self._current is None:
            raise StrategyError("the context was used outside a step of the strategy: only its coroutine may use it")
        return self._current

    def _make(self, place: str, data: Payload) -> Ref:
        if data.ORIGIN != "decision":
            raise StrategyError(f"at {place} the strategy decided a {data.KIND}, which is a fact")
        cause = self._trigger
        if isinstance(data, RunCheckpointed):
            cause = (*cause, self._latest_fact)
        attachments, self._attachments = tuple(self._attachments), []
        self._made.append(Decision(self.n, place, data, cause, attachments))
        self.n += 1
        return Ref(place=place, digest=content_digest(data))

    def _request(self, branch: _Branch, payload: Payload, answer: Callable[[Event], Any]) -> None:
        place = branch.step()
        self._make(place, payload)
        self._waiting[place] = (branch, answer)
        self.open[place] = payload
        branch.waits_for = place

    def _cancel_branch(self, branch: _Branch, reason: str) -> None:
        for child in branch.children:
            if not child.ended:
                self._cancel_branch(child, reason)
        place = branch.waits_for
        if place is not None:
            self._cancel(place, reason)
            self._close(place)
            self._ready.append((branch, None, RequestCancelledError(place, reason)))


def _abandon(branch: _Branch) -> None:
    for child in branch.children:
        if not child.ended:
            child.close()
        _abandon(child)
    branch.children.clear()


class _Pool:
    def __init__(self, runtime: Runtime, place: str, limit: int, owner: _Branch) -> None:
        self._runtime = runtime
        self._place = place
        self._limit = limit
        self._owner = owner
        self._queued: deque[_PoolTask] = deque()
        self._finished: deque[_PoolTask] = deque()
        self._running = 0
        self._submitted = 0
        self._waiter: _Branch | None = None

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

        def start(branch: _Branch) -> None:
            if self._finished:
                self._runtime._ready.append((branch, self._finished.popleft(), None))
            else:
                self._waiter = branch

        return await _Wait[Any](start)


class _PoolTask:
    def __init__(self, runtime: Runtime, branch: Branch[Any], path: str, ended: Callable[[_PoolTask], None]) -> None:
        self._runtime = runtime
        self.branch = _Branch(path, branch, lambda _: ended(self))

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


async def _await(branch: Callable[[], Awaitable[T]]) -> T:
    return await branch()


class _Context:
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

    def _wait(self, payload: Payload, answer: Callable[[Event], T]) -> _Wait[T]:
        if not payload.ANSWERED_BY:
            raise StrategyError(f"{payload.KIND} is no request, nothing answers it: use ctx.decide")

        def start(branch: _Branch) -> None:
            with Unguarded():
                self._runtime._request(branch, payload, answer)

        return _Wait(start)

    async def gather(self, *branches: Branch[T]) -> list[T]:
        runtime = self._runtime
        if not branches:
            return []
        children: list[_Branch] = []

        def start(branch: _Branch) -> None:
            place = branch.step()
            left = len(branches)

            def finish(_: _Branch) -> None:
                nonlocal left
                left -= 1
                if left == 0:
                    branch.children = [c for c in branch.children if c not in children]
                    error = next((c.error for c in children if c.error is not None), None)
                    runtime._ready.append((branch, [c.value for c in children], error))

            for index, make in enumerate(branches, start=1):
                child = _Branch(f"{place}.{index}.", make, finish)
                children.append(child)
                runtime._ready.append((child, None, None))
            branch.children.extend(children)

        return await _Wait[list[T]](start)

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
        elif place in runtime._recorded.places:
            return 0
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
