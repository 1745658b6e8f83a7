"""The port of an evaluator: it answers one `execution.requested`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from ...events import Blob
from ...events.kinds import ExecutionRequested, TaskRegistered, TraceRecorded


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """An execution request with the contents that it names, read from the blob store."""

    run: str
    place: str
    request: ExecutionRequested
    task: TaskRegistered
    program: bytes
    harness: bytes
    evaluator: bytes
    data: bytes


Store = Callable[..., Awaitable[list[Blob]]]


class Evaluator(Protocol):
    async def evaluate(self, assignment: Assignment, *, store: Store) -> TraceRecorded:
        """Run and judge a program. A fault of the infrastructure is a reading that is `not_run`, never a score."""
        ...
