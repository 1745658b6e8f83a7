"""The archive: which candidates are in it, the best ever admitted, and who had to leave."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..events import Blob, Direction, Event
from ..events.kinds import (
    CandidateAdmitted,
    CandidateEvaluated,
    CandidateEvicted,
    CandidateRejected,
    TaskRegistered,
)
from .base import Projection, better, on


class Origin(msgspec.Struct, frozen=True):
    """Where an evaluated candidate came from, kept until its admission is decided."""

    parents: tuple[str, ...]
    operator: str
    generation: int


class Member(msgspec.Struct, frozen=True):
    """A candidate in the archive; `place` is the place of its admission."""

    candidate: str
    program: Blob
    score: float
    island: int
    place: str
    parents: tuple[str, ...] = ()
    operator: str = ""
    generation: int = 0


class Eviction(msgspec.Struct, frozen=True):
    """A candidate that left; `place` is the place of that decision."""

    candidate: str
    score: float
    island: int
    place: str


class ArchiveState(msgspec.Struct):
    """State of `Archive`. `best` is the best ever admitted, in the archive or not."""

    members: dict[str, Member] = {}
    undecided: dict[str, Origin] = {}
    evictions: list[Eviction] = []
    best: Member | None = None
    direction: Direction = "maximize"
    registered: bool = False


class Archive(Projection[ArchiveState]):
    """Members by name. The direction of the scores is that of the first task registered."""

    NAME: ClassVar[str] = "archive"
    State: ClassVar[type[msgspec.Struct]] = ArchiveState

    @on(TaskRegistered)
    def _task(self, _: Event, data: TaskRegistered) -> None:
        if not self.state.registered:
            self.state.direction, self.state.registered = data.direction, True

    @on(CandidateEvaluated)
    def _evaluated(self, _: Event, data: CandidateEvaluated) -> None:
        self.state.undecided[data.candidate] = Origin(data.parents, data.operator, data.generation)

    @on(CandidateAdmitted)
    def _admitted(self, event: Event, data: CandidateAdmitted) -> None:
        state = self.state
        origin = state.undecided.pop(data.candidate, Origin((), "", 0))
        member = Member(
            data.candidate,
            data.program,
            data.score,
            data.island,
            event.place or "",
            origin.parents,
            origin.operator,
            origin.generation,
        )
        state.members[data.candidate] = member
        if better(data.score, state.best.score if state.best else None, state.direction):
            state.best = member

    @on(CandidateRejected)
    def _rejected(self, _: Event, data: CandidateRejected) -> None:
        self.state.undecided.pop(data.candidate, None)

    @on(CandidateEvicted)
    def _evicted(self, event: Event, data: CandidateEvicted) -> None:
        self.state.members.pop(data.candidate, None)
        self.state.evictions.append(Eviction(data.candidate, data.score, data.island, event.place or ""))

    @property
    def best(self) -> Member | None:
        return self.state.best

    def members(self) -> list[Member]:
        """The members, best first; equal scores by name."""
        sign = -1.0 if self.state.direction == "maximize" else 1.0
        return sorted(self.state.members.values(), key=lambda m: (sign * m.score, m.candidate))
