"""The branches of a strategy, and what one of them waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from ..events.errors import StrategyError

T = TypeVar("T")


class Wait(Generic[T]):
    """One await of a strategy: the runtime resumes the branch with a value or an error."""

    __slots__ = ("start",)

    def __init__(self, start: Callable[[RunningBranch], None]) -> None:
        self.start = start

    def __await__(self) -> Generator[Wait[T], T, T]:
        return (yield self)


class RunningBranch:
    """A branch on its way: its coroutine, where it stands, and what it waits for."""

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

    def __init__(
        self, path: str, make: Callable[[], Awaitable[Any]], finish: Callable[[RunningBranch], None]
    ) -> None:
        self.path = path
        self._make = make
        self._coroutine: Coroutine[Any, Any, Any] | None = None
        self.finish = finish
        self.count = 0
        self.draws: dict[str, int] = {}
        self.children: list[RunningBranch] = []
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


async def _await(branch: Callable[[], Awaitable[T]]) -> T:
    return await branch()


def abandon(branch: RunningBranch) -> None:
    """Close all branches below one, without resuming them."""
    for child in branch.children:
        if not child.ended:
            child.close()
        abandon(child)
    branch.children.clear()
