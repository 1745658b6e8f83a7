"""An event kind of one's own: the hill climber moved to a better program."""

from __future__ import annotations

from typing import ClassVar

from evolog.events import Origin, Payload, register


@register
class ClimberMoved(Payload, frozen=True, kw_only=True):
    """The climber's position after a round; `candidate` is where it stands now."""

    KIND: ClassVar[str] = "climber.moved"
    ORIGIN: ClassVar[Origin] = "decision"

    round: int
    candidate: str
    score: float
