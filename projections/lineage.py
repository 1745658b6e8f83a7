"""Descent: which candidates an evaluated candidate was made from, by which operator."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from ..events import Blob, Event
from ..events.kinds import CandidateAdmitted, CandidateEvaluated, CandidateEvicted, CandidateRejected
from .base import Projection, on

Standing = Literal["evaluated", "admitted", "rejected", "evicted"]


class Descent(msgspec.Struct):
    """One evaluated candidate: what it was made of and where it stands."""

    parents: tuple[str, ...]
    operator: str
    generation: int
    program: Blob
    score: float | None
    standing: Standing = "evaluated"


class LineageState(msgspec.Struct):
    """State of `Lineage`."""

    candidates: dict[str, Descent] = {}


class Lineage(Projection[LineageState]):
    """Every evaluated candidate with its parents; candidates that were never evaluated have no children."""

    NAME: ClassVar[str] = "lineage"
    State: ClassVar[type[msgspec.Struct]] = LineageState

    @on(CandidateEvaluated)
    def _evaluated(self, _: Event, data: CandidateEvaluated) -> None:
        self.state.candidates[data.candidate] = Descent(
            data.parents, data.operator, data.generation, data.program, data.mean
        )

    @on(CandidateAdmitted)
    def _admitted(self, _: Event, data: CandidateAdmitted) -> None:
        self._stands(data.candidate, "admitted")

    @on(CandidateRejected)
    def _rejected(self, _: Event, data: CandidateRejected) -> None:
        self._stands(data.candidate, "rejected")

    @on(CandidateEvicted)
    def _evicted(self, _: Event, data: CandidateEvicted) -> None:
        self._stands(data.candidate, "evicted")

    def _stands(self, candidate: str, standing: Standing) -> None:
        descent = self.state.candidates.get(candidate)
        if descent is not None:
            descent.standing = standing

    def ancestors(self, candidate: str) -> list[tuple[int, str, Descent | None]]:
        """`candidate` and everything it descends from, depth first, each once: (depth, name, descent).

        The descent is None for a name that was not evaluated (yet).
        """
        found: list[tuple[int, str, Descent | None]] = []
        seen: set[str] = set()
        stack = [(0, candidate)]
        while stack:
            depth, name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            descent = self.state.candidates.get(name)
            found.append((depth, name, descent))
            if descent is not None:
                stack.extend((depth + 1, parent) for parent in reversed(descent.parents))
        return found
