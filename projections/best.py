"""The best reading per task, split and purpose, with the baselines beside it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..events import Blob, Direction, Event, Purpose, ReadingStatus
from ..events.kinds import (
    ExecutionRequested,
    RequestCancelled,
    RequestFailed,
    RunCompleted,
    TaskRegistered,
    TraceRecorded,
)
from .base import Projection, answered_place, better, on

BASELINE = "baseline:"


class Measured(msgspec.Struct, frozen=True):
    """One program's reading; `place` is the place of its execution request."""

    candidate: str
    program: Blob
    place: str
    status: ReadingStatus
    score: float | None
    metrics: dict[str, float] = {}
    reason: str | None = None


class Board(msgspec.Struct):
    """Readings for one task, split and purpose.

    Attributes
    ----------
    best
        The best scored candidate; baselines do not compete with it.
    baselines
        The newest reading of each baseline, by its name without ``baseline:``.
    readings
        How many candidates' readings there are, by status.
    named
        For `holdout` only: each candidate's reading by its name, since nothing is chosen there.
    """

    task: str
    split: str
    purpose: Purpose
    best: Measured | None = None
    baselines: dict[str, Measured] = {}
    readings: dict[ReadingStatus, int] = {}
    named: dict[str, Measured] = {}


class Execution(msgspec.Struct, frozen=True):
    """An execution that was asked for and has no result yet."""

    candidate: str
    program: Blob
    board: str


class BestState(msgspec.Struct):
    """State of `BestPerTask`; `boards` by ``task/split/purpose``."""

    boards: dict[str, Board] = {}
    open: dict[str, Execution] = {}
    directions: dict[str, Direction] = {}


class BestPerTask(Projection[BestState]):
    """Who is best where. Holdout readings stand on a board of their own and are never ranked."""

    NAME: ClassVar[str] = "best"
    State: ClassVar[type[msgspec.Struct]] = BestState

    @on(TaskRegistered)
    def _task(self, _: Event, data: TaskRegistered) -> None:
        self.state.directions.setdefault(data.name, data.direction)

    @on(ExecutionRequested)
    def _requested(self, event: Event, data: ExecutionRequested) -> None:
        key = f"{data.task}/{data.split}/{data.purpose}"
        if key not in self.state.boards:
            self.state.boards[key] = Board(data.task, data.split, data.purpose)
        self.state.open[event.place or ""] = Execution(data.candidate, data.program, key)

    @on(TraceRecorded)
    def _trace(self, event: Event, data: TraceRecorded) -> None:
        place = answered_place(event)
        execution = self.state.open.pop(place, None)
        if execution is None:
            return
        board = self.state.boards[execution.board]
        reading = data.reading
        if execution.candidate.startswith(BASELINE):
            board.baselines[execution.candidate.removeprefix(BASELINE)] = _measured(execution, place, data)
            return
        board.readings[reading.status] = board.readings.get(reading.status, 0) + 1
        if board.purpose == "holdout":
            board.named[execution.candidate] = _measured(execution, place, data)
        elif reading.score is not None:
            direction = self.state.directions.get(board.task, "maximize")
            if better(reading.score, board.best.score if board.best else None, direction):
                board.best = _measured(execution, place, data)

    @on(RequestFailed)
    def _failed(self, event: Event, _: RequestFailed) -> None:
        self.state.open.pop(answered_place(event), None)

    @on(RequestCancelled)
    def _cancelled(self, _: Event, data: RequestCancelled) -> None:
        self.state.open.pop(data.request, None)

    @on(RunCompleted)
    def _completed(self, _: Event, __: RunCompleted) -> None:
        self.state.open.clear()

    def boards(self, purpose: Purpose | None = None) -> list[Board]:
        """The boards (of one purpose), by task, split and purpose."""
        found = [board for board in self.state.boards.values() if purpose in (None, board.purpose)]
        return sorted(found, key=lambda board: (board.task, board.split, board.purpose))


def _measured(execution: Execution, place: str, data: TraceRecorded) -> Measured:
    reading = data.reading
    return Measured(
        execution.candidate,
        execution.program,
        place,
        reading.status,
        reading.score,
        reading.metrics,
        reading.reason,
    )
