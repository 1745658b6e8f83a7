"""The deterministic runtime: drives a strategy by feeding it the run's facts in log order.

There is no event loop, no clock and no thread here. `Runtime.feed` takes one fact and returns the
decisions that follow from it. Live, a director appends them; on resume and replay they are compared
with the recorded ones (`evolog.replay.course`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from ..events import Event, Payload, Ref, content_digest
from ..events.errors import (
    RequestCancelledError,
    RequestFailedError,
    RunStoppedError,
    StrategyError,
)
from ..events.kinds import (
    RequestCancelled,
    RequestFailed,
    RunCheckpointed,
    RunCompleted,
    RunReconfigured,
    RunStarted,
    RunStopped,
    TaskRegistered,
)
from .branch import RunningBranch, Wait, abandon
from .context import RuntimeContext
from .guard import Guard
from .strategy import Strategy


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
    """What the runtime must know of the recorded decisions in advance, for `version`.

    `decisions` counts them; `versions` has what `version.recorded` says at each place.
    """

    decisions: int = 0
    versions: Mapping[str, tuple[str, int]] = {}


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
        self._ready: deque[tuple[RunningBranch, Any, Exception | None]] = deque()
        self._waiting: dict[str, tuple[RunningBranch, Callable[[Event], Any]]] = {}
        self._made: list[Decision] = []
        self._attachments: list[bytes] = []
        self._current: RunningBranch | None = None
        self._main: RunningBranch | None = None
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
            main = RunningBranch("", lambda: self._strategy.run(RuntimeContext(self), state), self._finish_main)
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
        abandon(main)
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
                if not isinstance(wait, Wait):
                    raise StrategyError(
                        f"at {branch.peek()} the strategy awaited {type(wait).__qualname__}, which is none of the "
                        "runtime's awaits: use ctx.request, gather, pool or timer"
                    )
                wait.start(branch)
            finally:
                self._current = None
            if self._guard.violation is not None:
                raise self._guard.violation

    def _end(self, branch: RunningBranch) -> None:
        branch.ended = True
        branch.finish(branch)

    def _finish_main(self, branch: RunningBranch) -> None:
        self.done = True
        error = branch.error
        if error is not None and not isinstance(error, RunStoppedError):
            raise StrategyError(
                f"the strategy raised {type(error).__name__} after decision {self.n - 1}: {error}"
            ) from error

    # What the context uses.

    def _branch(self) -> RunningBranch:
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

    def _request(self, branch: RunningBranch, payload: Payload, answer: Callable[[Event], Any]) -> None:
        place = branch.step()
        self._make(place, payload)
        self._waiting[place] = (branch, answer)
        self.open[place] = payload
        branch.waits_for = place

    def _cancel_branch(self, branch: RunningBranch, reason: str) -> None:
        for child in branch.children:
            if not child.ended:
                self._cancel_branch(child, reason)
        place = branch.waits_for
        if place is not None:
            self._cancel(place, reason)
            self._close(place)
            self._ready.append((branch, None, RequestCancelledError(place, reason)))
