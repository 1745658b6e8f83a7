"""What became of each attempt: admitted, rejected, refused, failed, cancelled or open (design rule 5)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from ..events import Event
from ..events.kinds import (
    CandidateAdmitted,
    CandidateRejected,
    ExecutionRequested,
    ProposalMade,
    ProposalRefused,
    ProposalRequested,
    RequestCancelled,
    RequestFailed,
    RunCompleted,
    TraceRecorded,
)
from .base import Projection, answered_place, on

Ended = Literal["admitted", "rejected", "refused", "failed", "cancelled"]
Standing = Literal["proposing", "made", "failed", "cancelled"]
ENDED: tuple[Ended, ...] = ("admitted", "rejected", "refused", "failed", "cancelled")


class Outcomes(msgspec.Struct, frozen=True):
    """Attempts by outcome; `attempts` is the sum of all others."""

    attempts: int
    admitted: int
    rejected: int
    refused: int
    failed: int
    cancelled: int
    open: int


class AttemptsState(msgspec.Struct):
    """State of `Attempts`.

    Attributes
    ----------
    attempts
        Proposals asked for; each is named by the place of its request.
    standing
        Attempts whose outcome is not decided. One whose execution ended without a trace is
        ``failed`` or ``cancelled`` here until a decision about its candidate says otherwise.
    ended
        Attempts by outcome.
    executions
        Open executions: place to candidate and purpose.
    evaluations
        Ended executions by purpose and status of the reading (or ``failed``, ``cancelled``).
    """

    attempts: int = 0
    standing: dict[str, Standing] = {}
    ended: dict[Ended, int] = {}
    operators: dict[str, int] = {}
    refusals: dict[str, int] = {}
    failures: dict[str, int] = {}
    executions: dict[str, tuple[str, str]] = {}
    evaluations: dict[str, dict[str, int]] = {}


class Attempts(Projection[AttemptsState]):
    """Every proposal asked for has exactly one outcome; none is open once the run is completed."""

    NAME: ClassVar[str] = "attempts"
    State: ClassVar[type[msgspec.Struct]] = AttemptsState

    @on(ProposalRequested)
    def _proposal(self, event: Event, data: ProposalRequested) -> None:
        state = self.state
        state.attempts += 1
        state.operators[data.operator] = state.operators.get(data.operator, 0) + 1
        state.standing[event.place or ""] = "proposing"

    @on(ProposalMade)
    def _made(self, event: Event, _: ProposalMade) -> None:
        place = answered_place(event)
        if self.state.standing.get(place) == "proposing":
            self.state.standing[place] = "made"

    @on(ProposalRefused)
    def _refused(self, _: Event, data: ProposalRefused) -> None:
        if self._end(data.proposal.place, "refused"):
            self.state.refusals[data.reason] = self.state.refusals.get(data.reason, 0) + 1

    @on(CandidateAdmitted)
    def _admitted(self, _: Event, data: CandidateAdmitted) -> None:
        self._end(data.candidate, "admitted")

    @on(CandidateRejected)
    def _rejected(self, _: Event, data: CandidateRejected) -> None:
        self._end(data.candidate, "rejected")

    @on(ExecutionRequested)
    def _execution(self, event: Event, data: ExecutionRequested) -> None:
        self.state.executions[event.place or ""] = (data.candidate, data.purpose)

    @on(TraceRecorded)
    def _trace(self, event: Event, data: TraceRecorded) -> None:
        self._executed(answered_place(event), data.reading.status)

    @on(RequestFailed)
    def _failed(self, event: Event, data: RequestFailed) -> None:
        place = answered_place(event)
        state = self.state
        if state.standing.get(place) == "proposing":
            self._end(place, "failed")
        else:
            candidate = self._executed(place, "failed")
            if candidate is None:
                return
            if candidate in state.standing:
                state.standing[candidate] = "failed"
        state.failures[data.reason] = state.failures.get(data.reason, 0) + 1

    @on(RequestCancelled)
    def _cancelled(self, _: Event, data: RequestCancelled) -> None:
        if self.state.standing.get(data.request) == "proposing":
            self._end(data.request, "cancelled")
            return
        candidate = self._executed(data.request, "cancelled")
        if candidate is not None and candidate in self.state.standing:
            self.state.standing[candidate] = "cancelled"

    @on(RunCompleted)
    def _completed(self, _: Event, __: RunCompleted) -> None:
        # The strategy has given up what it had in hand when it was stopped.
        state = self.state
        for standing in state.standing.values():
            ended: Ended = "failed" if standing == "failed" else "cancelled"
            state.ended[ended] = state.ended.get(ended, 0) + 1
        state.standing.clear()
        for place in list(state.executions):
            self._executed(place, "cancelled")

    def _end(self, candidate: str, outcome: Ended) -> bool:
        if self.state.standing.pop(candidate, None) is None:
            return False
        self.state.ended[outcome] = self.state.ended.get(outcome, 0) + 1
        return True

    def _executed(self, place: str, outcome: str) -> str | None:
        execution = self.state.executions.pop(place, None)
        if execution is None:
            return None
        candidate, purpose = execution
        by_outcome = self.state.evaluations.setdefault(purpose, {})
        by_outcome[outcome] = by_outcome.get(outcome, 0) + 1
        return candidate

    @property
    def outcomes(self) -> Outcomes:
        counts: dict[str, int] = {outcome: self.state.ended.get(outcome, 0) for outcome in ENDED}
        undecided = list(self.state.standing.values())
        for outcome in ("failed", "cancelled"):
            counts[outcome] += undecided.count(outcome)
        left = undecided.count("proposing") + undecided.count("made")
        return Outcomes(attempts=self.state.attempts, open=left, **counts)
