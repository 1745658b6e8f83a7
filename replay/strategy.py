"""What a strategy is, and what it may ask of the runtime."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from ..events import Blob, Event, Payload, Ref, RunStatus
from ..events.kinds import TaskRegistered
from .draw import Draw

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Branch = Callable[[], Awaitable[T]]


class Answer(msgspec.Struct, frozen=True):
    """The fact that answered a request, and how other decisions name it."""

    event: Event
    ref: Ref

    @property
    def data(self) -> Any:
        return self.event.data


class Sealed(msgspec.Struct, frozen=True):
    """The answer to a holdout request: it says that there is a reading and nothing of what it says.

    A strategy cannot select by what it cannot see (design rule 7).
    """

    place: str


class Task(Protocol, Generic[T_co]):
    """A branch of a pool."""

    @property
    def place(self) -> str: ...

    @property
    def done(self) -> bool: ...

    def result(self) -> T_co:
        """What the branch returned; raises what it raised.

        Raises
        ------
        StrategyError
            If it has not ended.
        """
        ...

    def cancel(self, reason: str) -> None:
        """Cancel the branch's open requests; `RequestCancelledError` is raised at its await."""
        ...


class Pool(Protocol):
    """Branches that run at once, at most `n`, taken up as they end (steady-state search)."""

    def submit(self, branch: Branch[T]) -> Task[T]: ...

    async def next(self) -> Task[Any]:
        """The next branch that ended, in the order of the facts that ended them.

        Raises
        ------
        StrategyError
            If no branch is left.
        """
        ...

    @property
    def pending(self) -> int:
        """Branches submitted and not yet returned by `next`."""
        ...


class Context(Protocol):
    """What the runtime offers a strategy. Its awaits are requests; nothing else may be awaited."""

    @property
    def run(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """The run's effective settings as plain JSON, the newest that the strategy has consumed."""
        ...

    @property
    def tasks(self) -> Mapping[str, TaskRegistered]: ...

    @property
    def now(self) -> int:
        """The latest time among the facts consumed so far (ns, UTC). It never goes back."""
        ...

    async def request(self, payload: Payload) -> Answer:
        """Append a request and wait for the first fact that answers it.

        Raises
        ------
        RequestFailedError
            If the answer is `request.failed`.
        RequestCancelledError
            If the strategy cancelled it.
        """
        ...

    async def sealed(self, payload: Payload) -> Sealed:
        """Append a holdout request; the answer carries no reading."""
        ...

    async def gather(self, *branches: Branch[T]) -> list[T]:
        """Run branches at once and return their results in order when all have ended.

        If some raised, the first one's error (in the order of branches) is raised then.
        """
        ...

    def pool(self, n: int) -> Pool: ...

    def draw(self, purpose: str) -> Draw:
        """A generator of its own, seeded by the run's seed, the purpose and the place."""
        ...

    def decide(self, payload: Payload) -> Ref:
        """Append a decision; the result names it for other decisions."""
        ...

    def attach(self, content: bytes) -> Blob:
        """Store content that the next decision refers to."""
        ...

    def checkpoint(self, boundary: str, state: msgspec.Struct) -> None:
        """Append the strategy's state, from which a takeover goes on. Only on the main branch, with nothing open.

        Raises
        ------
        StrategyError
            Elsewhere.
        """
        ...

    def version(self, name: str, newest: int) -> int:
        """Which version of changed code this run uses here: `newest` in a live run, 0 where an old log goes past."""
        ...

    async def timer(self, seconds: float, purpose: str) -> None:
        """Wait until `seconds` after `now`."""
        ...

    async def complete(self, status: RunStatus, reason: str, *, best: str | None, attempts: dict[str, int]) -> None:
        """Append `run.completed` and wait for an operator to ask for more; `settings` are new then."""
        ...


class Strategy(Protocol):
    """A search strategy: a loop over a typed state.

    Attributes
    ----------
    NAME
        As in ``search.strategy`` and the entry point group ``evolog.strategies``.
    Settings
        Struct of the strategy's own keys in the table ``[search]``.
    State
        Struct that `checkpoint` writes and a takeover starts from.
    """

    NAME: ClassVar[str]
    Settings: ClassVar[type[msgspec.Struct]]
    State: ClassVar[type[msgspec.Struct]]

    async def run(self, ctx: Context, state: Any | None) -> None:
        """Search, from the beginning (`state` is None) or from a checkpoint."""
        ...
