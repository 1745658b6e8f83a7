"""Where the search stands: its generation, its newest checkpoint, and what it waits for."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..events import Blob, Event
from ..events.kinds import (
    ExecutionRequested,
    ParentsSelected,
    ProposalMade,
    ProposalRequested,
    RequestCancelled,
    RequestFailed,
    RunCheckpointed,
    RunCompleted,
    RunReconfigured,
    TimerFired,
    TimerRequested,
    TraceRecorded,
)
from .base import Projection, answered_place, on


class Boundary(msgspec.Struct, frozen=True):
    """The newest `run.checkpointed`: its place and ordinal, and the blob of the strategy's state."""

    boundary: str
    place: str
    n: int
    state: Blob


class CheckpointState(msgspec.Struct):
    """State of `SearchCheckpoint`.

    Attributes
    ----------
    generation
        The generation that is (or was last) worked on; None before the first.
    candidates
        Proposals asked for so far.
    open
        Requests without an answer: place to kind.
    """

    generation: int | None = None
    candidates: int = 0
    checkpoint: Boundary | None = None
    open: dict[str, str] = {}


class SearchCheckpoint(Projection[CheckpointState]):
    """What a director that takes over would go on from."""

    NAME: ClassVar[str] = "checkpoint"
    State: ClassVar[type[msgspec.Struct]] = CheckpointState

    @on(ParentsSelected)
    def _selected(self, _: Event, data: ParentsSelected) -> None:
        self.state.generation = data.generation

    @on(ProposalRequested)
    def _proposal(self, event: Event, _: ProposalRequested) -> None:
        self.state.candidates += 1
        self.state.open[event.place or ""] = event.kind

    @on(ExecutionRequested, TimerRequested)
    def _requested(self, event: Event, _: ExecutionRequested | TimerRequested) -> None:
        self.state.open[event.place or ""] = event.kind

    @on(RunCompleted)
    def _completed(self, event: Event, _: RunCompleted) -> None:
        # Nothing but an operator's word is waited for at the end.
        self.state.open.clear()
        self.state.open[event.place or ""] = event.kind

    @on(ProposalMade, TraceRecorded, TimerFired, RequestFailed, RunReconfigured)
    def _answered(self, event: Event, data: msgspec.Struct) -> None:
        place = answered_place(event)
        asked = self.state.open.get(place)
        if asked is not None and type(data) in _ANSWERS[asked]:
            del self.state.open[place]

    @on(RequestCancelled)
    def _cancelled(self, _: Event, data: RequestCancelled) -> None:
        self.state.open.pop(data.request, None)

    @on(RunCheckpointed)
    def _checkpointed(self, event: Event, data: RunCheckpointed) -> None:
        assert event.place is not None
        assert event.n is not None
        self.state.checkpoint = Boundary(data.boundary, event.place, event.n, data.state)


_ANSWERS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    ProposalRequested.KIND: (ProposalMade, RequestFailed),
    ExecutionRequested.KIND: (TraceRecorded, RequestFailed),
    TimerRequested.KIND: (TimerFired,),
    RunCompleted.KIND: (RunReconfigured,),
}
