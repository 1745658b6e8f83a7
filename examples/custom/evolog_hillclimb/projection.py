"""A projection: how often the climber moved, and the score after each round."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from evolog.events import Event
from evolog.projections import Projection, on

from .events import ClimberMoved


class MovesState(msgspec.Struct):
    scores: list[float] = []
    moves: int = 0
    candidate: str = ""


class Moves(Projection[MovesState]):
    NAME: ClassVar[str] = "moves"
    State: ClassVar[type[msgspec.Struct]] = MovesState

    @on(ClimberMoved)
    def _moved(self, _: Event, data: ClimberMoved) -> None:
        self.state.scores.append(data.score)
        if data.candidate != self.state.candidate:
            self.state.moves += 1
            self.state.candidate = data.candidate
