"""Convergence: the best score and the mean against the number of candidates evaluated."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..events import Direction, Event
from ..events.kinds import CandidateEvaluated, TaskRegistered
from .base import Projection, better, on


class Improvement(msgspec.Struct, frozen=True):
    """A new best: after how many evaluated candidates, which one, and its score."""

    candidates: int
    candidate: str
    score: float


class Generation(msgspec.Struct):
    """One generation: its candidates, those that were scored and the sum of their scores.

    `candidates` and `best` are totals of the run at its end.
    """

    generation: int
    evaluated: int = 0
    scored: int = 0
    total: float = 0.0
    candidates: int = 0
    best: float | None = None

    @property
    def mean(self) -> float | None:
        return self.total / self.scored if self.scored else None


class ConvergenceState(msgspec.Struct):
    """State of `Convergence`; `total` is the sum of all scores, `generations` are in log order."""

    candidates: int = 0
    scored: int = 0
    total: float = 0.0
    best: float | None = None
    improvements: list[Improvement] = []
    generations: list[Generation] = []
    direction: Direction = "maximize"
    registered: bool = False


class Convergence(Projection[ConvergenceState]):
    """How the search got better, in candidates and in generations."""

    NAME: ClassVar[str] = "convergence"
    State: ClassVar[type[msgspec.Struct]] = ConvergenceState

    @on(TaskRegistered)
    def _task(self, _: Event, data: TaskRegistered) -> None:
        if not self.state.registered:
            self.state.direction, self.state.registered = data.direction, True

    @on(CandidateEvaluated)
    def _evaluated(self, _: Event, data: CandidateEvaluated) -> None:
        state = self.state
        state.candidates += 1
        if not state.generations or state.generations[-1].generation != data.generation:
            state.generations.append(Generation(data.generation))
        generation = state.generations[-1]
        score = data.mean
        if score is not None:
            state.scored += 1
            state.total += score
            generation.scored += 1
            generation.total += score
            if better(score, state.best, state.direction):
                state.best = score
                state.improvements.append(Improvement(state.candidates, data.candidate, score))
        generation.evaluated += 1
        generation.candidates = state.candidates
        generation.best = state.best

    @property
    def mean(self) -> float | None:
        """Mean over all scored candidates."""
        return self.state.total / self.state.scored if self.state.scored else None
