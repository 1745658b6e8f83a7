"""Hill climbing: propose a few neighbours of the best program at once, move to the best of them if it is better."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import msgspec
from evolog.events import Blob, Limits
from evolog.events.errors import RequestFailedError, RunStoppedError
from evolog.events.kinds import (
    CandidateAdmitted,
    CandidateEvaluated,
    CandidateReading,
    CandidateRejected,
    ExecutionRequested,
    Parent,
    ProposalRefused,
    ProposalRequested,
)
from evolog.replay import Answer, Context

from .events import ClimberMoved


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[search]``: how many neighbours are tried at once."""

    neighbours: int = 4


class State(msgspec.Struct, kw_only=True):
    """Where the climber stands. All that the strategy knows between rounds must be in here."""

    round: int = 0
    proposals: int = 0
    candidate: str | None = None
    program: Blob | None = None
    score: float | None = None


class Neighbour(msgspec.Struct, kw_only=True):
    """A neighbour that was tried; without a trace, nothing could be measured."""

    candidate: str = ""
    program: Blob | None = None
    parents: tuple[Parent, ...] = ()
    trace: Answer | None = None


class HillClimb:
    NAME: ClassVar[str] = "hillclimb"
    Settings: ClassVar[type[msgspec.Struct]] = Settings
    State: ClassVar[type[msgspec.Struct]] = State

    async def run(self, ctx: Context, state: State | None) -> None:
        state = state or State()
        while True:
            try:
                while state.proposals < ctx.settings["budget"]["candidates"]:
                    await self.one_round(ctx, state)
                    ctx.checkpoint(f"round {state.round}", state)
                status, reason = "completed", "budget.candidates reached"
            except RunStoppedError as stopped:
                status, reason = "stopped", str(stopped)
            await ctx.complete(status, reason, best=state.candidate, attempts={"proposals": state.proposals})

    async def one_round(self, ctx: Context, state: State) -> None:
        neighbours = ctx.settings["search"].get("neighbours", Settings().neighbours)
        # Branches see the state as it is now; it changes below, when all have ended, in the order of places.
        tried = await ctx.gather(*[partial(self.neighbour, ctx, state)] * neighbours)
        for neighbour in tried:
            self.account(ctx, state, neighbour)
        state.round += 1
        state.proposals += neighbours
        if state.candidate is not None and state.score is not None:
            ctx.decide(ClimberMoved(round=state.round, candidate=state.candidate, score=state.score))

    async def neighbour(self, ctx: Context, state: State) -> Neighbour:
        task = next(iter(ctx.tasks.values()))
        parents: tuple[Parent, ...] = ()
        if state.candidate is not None and state.program is not None:
            parents = (Parent(candidate=state.candidate, program=state.program, score=state.score),)
        proposer, evaluation = ctx.settings["proposer"], ctx.settings["evaluation"]
        try:
            made = await ctx.request(
                ProposalRequested(
                    task=task.name,
                    operator="improve" if parents else "draft",
                    model=proposer["model"],
                    seed=ctx.draw("neighbour").below(1 << 48),
                    limits=Limits(seconds=proposer["seconds"], attempts=proposer["attempts"]),
                    generation=state.round,
                    parents=parents,
                )
            )
            program = made.data.samples[0].program
            if program is None:
                ctx.decide(ProposalRefused(proposal=made.ref, sample=0, reason="empty", detail="no program was made"))
                return Neighbour()
            trace = await ctx.request(
                ExecutionRequested(
                    candidate=made.ref.place,
                    program=program,
                    task=task.name,
                    split="search",
                    purpose="search",
                    seed=ctx.seed,
                    limits=Limits(seconds=evaluation["seconds"], attempts=evaluation["attempts"]),
                    proposal=made.ref,
                )
            )
        except RequestFailedError:
            return Neighbour()  # the failure is in the log already
        return Neighbour(candidate=made.ref.place, program=program, parents=parents, trace=trace)

    def account(self, ctx: Context, state: State, tried: Neighbour) -> None:
        """Say what became of a neighbour, so that evolog's own views count it; each gets exactly one outcome."""
        if tried.program is None or tried.trace is None:
            return
        task = next(iter(ctx.tasks.values()))
        reading = tried.trace.data.reading
        ctx.decide(
            CandidateEvaluated(
                candidate=tried.candidate,
                program=tried.program,
                parents=tuple(parent.candidate for parent in tried.parents),
                operator="improve" if tried.parents else "draft",
                generation=state.round,
                readings=(
                    CandidateReading(
                        task=task.name,
                        split="search",
                        purpose="search",
                        trace=tried.trace.ref,
                        status=reading.status,
                        score=reading.score,
                    ),
                ),
                missing="none",
                mean=reading.score,
            )
        )
        score, threshold = reading.score, state.score
        sign = 1.0 if task.direction == "maximize" else -1.0
        if score is not None and (threshold is None or sign * score > sign * threshold):
            state.candidate, state.program, state.score = tried.candidate, tried.program, score
            ctx.decide(
                CandidateAdmitted(
                    candidate=tried.candidate,
                    program=tried.program,
                    score=score,
                    island=0,
                    policy="better",
                    threshold=threshold,
                )
            )
        else:
            ctx.decide(
                CandidateRejected(
                    candidate=tried.candidate,
                    reason=reading.status if score is None else "below-threshold",
                    score=score,
                    island=0,
                    policy="better",
                    threshold=threshold,
                )
            )
