"""The ledger: what was reserved, what was spent, and what a call that never settled may have cost."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import msgspec

from ..events import Event
from ..events.kinds import (
    CallStarted,
    CompletionRecorded,
    ExecutionRequested,
    ProposalMade,
    ProposalRequested,
    RequestCancelled,
    RequestFailed,
    RunCompleted,
    RunReconfigured,
    RunStarted,
)
from .base import Projection, answered_place, on


class Call(msgspec.Struct, frozen=True):
    """A model call that was announced and has not settled; charged at `worst_usd` (design rule 9)."""

    model: str
    worst_usd: float


class ModelUse(msgspec.Struct):
    """What one model was used for: settled calls, those of them that failed, tokens and USD."""

    calls: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0


class LedgerState(msgspec.Struct):
    """State of `Ledger`.

    Attributes
    ----------
    reserved
        USD that open requests may cost at worst, by place.
    unsettled, settled
        Calls by ``attempt/call``: announced without an end, and ended. Each counts once, the late
        ones of a request that has its answer too (design rule 4).
    models
        Use by model.
    answered_usd
        What the answers said that they cost: the spend as the strategy sees it.
    budget_usd
        Cap on the spend (None: none).
    """

    reserved: dict[str, float] = {}
    unsettled: dict[str, Call] = {}
    settled: set[str] = set()
    models: dict[str, ModelUse] = {}
    answered_usd: float = 0.0
    budget_usd: float | None = None
    words: set[str] = set()


class Ledger(Projection[LedgerState]):
    """Money and tokens of one run."""

    NAME: ClassVar[str] = "ledger"
    State: ClassVar[type[msgspec.Struct]] = LedgerState

    @on(RunStarted, RunReconfigured)
    def _settings(self, event: Event, data: RunStarted | RunReconfigured) -> None:
        if event.id not in self.state.words:
            self.state.words.add(event.id)
            self.state.budget_usd = _usd_cap(data.settings)

    @on(ProposalRequested)
    def _proposal(self, event: Event, data: ProposalRequested) -> None:
        self.state.reserved[event.place or ""] = data.limits.usd

    @on(ExecutionRequested)
    def _execution(self, event: Event, data: ExecutionRequested) -> None:
        # Most evaluations cost no money; those of a judge that is a model do.
        if data.limits.usd:
            self.state.reserved[event.place or ""] = data.limits.usd

    @on(ProposalMade, RequestFailed)
    def _answered(self, event: Event, data: ProposalMade | RequestFailed) -> None:
        if self.state.reserved.pop(answered_place(event), None) is not None:
            self.state.answered_usd += data.usd

    @on(RequestCancelled)
    def _cancelled(self, _: Event, data: RequestCancelled) -> None:
        self.state.reserved.pop(data.request, None)

    @on(RunCompleted)
    def _completed(self, _: Event, __: RunCompleted) -> None:
        self.state.reserved.clear()

    @on(CallStarted)
    def _started(self, _: Event, data: CallStarted) -> None:
        key = f"{data.attempt}/{data.call}"
        if key not in self.state.settled:
            self.state.unsettled[key] = Call(data.model, data.worst_usd)

    @on(CompletionRecorded)
    def _completion(self, _: Event, data: CompletionRecorded) -> None:
        state = self.state
        key = f"{data.attempt}/{data.call}"
        if key in state.settled:
            return
        state.settled.add(key)
        state.unsettled.pop(key, None)
        use = state.models.get(data.model)
        if use is None:
            use = state.models[data.model] = ModelUse()
        use.calls += 1
        use.failed += data.outcome != "ok"
        use.prompt_tokens += data.usage.prompt_tokens
        use.completion_tokens += data.usage.completion_tokens
        use.usd += data.usd

    @property
    def settled_usd(self) -> float:
        return math.fsum(use.usd for use in self.state.models.values())

    @property
    def unsettled_usd(self) -> float:
        """Worst case of the calls that have not settled, USD."""
        return math.fsum(call.worst_usd for call in self.state.unsettled.values())

    @property
    def reserved_usd(self) -> float:
        """Worst case of the open requests, USD."""
        return math.fsum(self.state.reserved.values())

    @property
    def charged_usd(self) -> float:
        """What the run has cost or may have cost: settled calls, and unsettled ones at their worst."""
        return self.settled_usd + self.unsettled_usd

    @property
    def calls(self) -> int:
        return len(self.state.settled) + len(self.state.unsettled)

    @property
    def tokens(self) -> tuple[int, int]:
        """Prompt and completion tokens of all settled calls."""
        models = self.state.models.values()
        return sum(m.prompt_tokens for m in models), sum(m.completion_tokens for m in models)


def _usd_cap(settings: dict[str, Any]) -> float | None:
    budget = settings.get("budget")
    usd = budget.get("usd") if isinstance(budget, dict) else None
    return None if usd is None else float(usd)
