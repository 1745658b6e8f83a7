"""OpenMLE-Evo's loop over whole programs: draft, improve, crossover, debug (spec/openrsi.md, 1.3 to 1.6).

One island, generational. All individuals of a generation see the archive as it was at the
generation's start; duplicates, admission and eviction are decided when all have ended, in the order
of places. So the order in which results arrive decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import msgspec

from ...events import Blob, Direction, Limits, Purpose, Ref, RunStatus
from ...events.errors import RequestFailedError, RunStoppedError, StrategyError
from ...events.kinds import (
    Baseline,
    CandidateAdmitted,
    CandidateEvaluated,
    CandidateEvicted,
    CandidateReading,
    CandidateRejected,
    Choice,
    ExecutionRequested,
    Parent,
    ParentsSelected,
    ProposalRefused,
    ProposalRequested,
    Refusal,
    TaskRegistered,
)
from ...replay import Context, Draw
from . import policies
from .state import Attempt, Member, SearchState, Settings, repair_of

ISLAND = 0
#: Generations in a row without a single answered proposal after which the run has failed.
FRUITLESS_GENERATIONS = 2


class ProgramEvolution:
    """The strategy ``program``."""

    NAME: ClassVar[str] = "program"
    Settings: ClassVar[type[msgspec.Struct]] = Settings
    State: ClassVar[type[msgspec.Struct]] = SearchState

    async def run(self, ctx: Context, state: SearchState | None) -> None:
        search = _Search(ctx, state or SearchState())
        measured = state is not None
        while True:
            try:
                if not measured:
                    await search.measure_baselines()
                    measured = True
                status, reason = await search.until_done()
                if search.state.best is not None:
                    await search.hold_out()
            except RunStoppedError as stopped:
                status, reason = "stopped", str(stopped)
            best = search.state.best
            attempts = dict(search.state.attempts)
            attempts["cancelled"] += search.in_flight
            await ctx.complete(status, reason, best=best.candidate if best else None, attempts=attempts)
            search.state.attempts = attempts
            search.in_flight = 0


class _Search:
    def __init__(self, ctx: Context, state: SearchState) -> None:
        self.ctx = ctx
        self.state = state
        self._seen = set(state.seen)
        if len(ctx.tasks) != 1:
            raise StrategyError(f"strategy 'program' searches one task, the run has {len(ctx.tasks)}")
        self.task: TaskRegistered = next(iter(ctx.tasks.values()))
        #: Proposals asked for in this generation and not yet accounted for.
        self.in_flight = 0
        self._settings_of: Mapping[str, Any] | None = None
        self._settings: Settings

    @property
    def settings(self) -> Settings:
        effective = self.ctx.settings
        if effective is not self._settings_of:
            table = {key: value for key, value in effective["search"].items() if key != "strategy"}
            self._settings_of, self._settings = effective, msgspec.convert(table, Settings)
        return self._settings

    @property
    def direction(self) -> Direction:
        return self.task.direction

    # The loop.

    async def until_done(self) -> tuple[RunStatus, str]:
        while True:
            ended = self.stop_reason()
            if ended is not None:
                return ended
            self.maybe_checkpoint()
            await self.generation()

    def stop_reason(self) -> tuple[RunStatus, str] | None:
        state, settings, budget = self.state, self.settings, self.ctx.settings["budget"]
        failed = "no candidate could be scored"
        if state.fruitless >= FRUITLESS_GENERATIONS:
            return "failed", f"{state.fruitless} generations without an answered proposal: {state.last_failure}"
        if state.proposals >= budget["candidates"]:
            ended: tuple[RunStatus, str] = ("completed", f"budget.candidates = {budget['candidates']} reached")
        elif settings.num_generations is not None and state.generation >= settings.num_generations:
            ended = ("completed", f"search.num_generations = {settings.num_generations} reached")
        elif self.affordable() < 1:
            ended = ("budget_exhausted", f"budget.usd = {budget['usd']}: {state.spent_usd:.6f} spent")
        elif settings.patience and state.stale >= settings.patience:
            ended = ("completed", f"{state.stale} generations without a better best (search.patience)")
        elif (
            settings.target is not None
            and state.best is not None
            and not policies.better(settings.target, state.best.score, self.direction)
        ):
            ended = ("completed", f"search.target = {settings.target} reached")
        else:
            return None
        if state.best is None and state.proposals:
            return "failed", f"{failed} ({ended[1]}). {state.last_failure}".strip()
        return ended

    def maybe_checkpoint(self) -> None:
        # A state grows with its candidates; checkpoints at growing distances keep their sum linear.
        state = self.state
        distance = max(self.settings.individuals_per_generation, state.proposals // 8)
        if state.proposals - state.checkpointed_at >= distance:
            state.checkpointed_at = state.proposals
            self.ctx.checkpoint(f"generation {state.generation}", state)

    async def generation(self) -> None:
        state = self.state
        size, depth = self.reserve()
        attempts = self.select(size)
        before = state.best
        current, all_attempts = attempts, list(attempts)
        await self.propose_and_execute(current)
        for _ in range(depth):
            current = [repair_of(attempt) for attempt in current if attempt.buggy]
            if not current:
                break
            await self.propose_and_execute(current)
            all_attempts += current
        for attempt in sorted(all_attempts, key=lambda a: a.individual):
            self.account(attempt)
        self.in_flight = 0
        state.fruitless = state.fruitless + 1 if all(a.failure is not None for a in attempts) else 0
        state.stale = 0 if state.best is not before else state.stale + 1
        state.generation += 1

    def affordable(self) -> int:
        """Proposals that the money left covers at their worst case."""
        cap, worst = self.ctx.settings["budget"]["usd"], self.ctx.settings["proposer"]["usd"]
        if cap is None or worst <= 0.0:
            return 1 << 30
        return int((cap - self.state.spent_usd) / worst + 1e-9)

    def reserve(self) -> tuple[int, int]:
        """Size and debug depth of the next generation, so that its worst case stays within the budget."""
        left = min(self.ctx.settings["budget"]["candidates"] - self.state.proposals, self.affordable())
        size = min(self.settings.individuals_per_generation, left)
        return size, min(self.settings.max_debug_depth, (left - size) // size)

    # Selection (1.4).

    def select(self, size: int) -> list[Attempt]:
        state, settings = self.state, self.settings
        span = settings.num_generations or self._generations_in_budget()
        temperature = policies.temperature(state.generation, span, settings.initial_temp, settings.final_temp)
        scores = [member.score for member in state.members]
        weights = policies.selection_weights(scores, state.low, state.high, self.direction, temperature)
        draw = self.ctx.draw("parents")
        choices = [self._choose(weights, draw.uniform, settings) for _ in range(size)]
        self.ctx.decide(
            ParentsSelected(
                generation=state.generation,
                policy="softmax",
                temperature=temperature,
                pool=tuple([member.candidate for member in state.members]),
                weights=tuple(weights),
                choices=tuple(choices),
            )
        )
        members = {m.candidate: m for m in state.members}
        return [
            Attempt(
                individual=index,
                operator=choice.operator,
                parents=tuple(
                    Parent(candidate=name, program=members[name].program, score=members[name].score)
                    for name in choice.parents
                ),
            )
            for index, choice in enumerate(choices)
        ]

    def _generations_in_budget(self) -> int:
        size = self.settings.individuals_per_generation
        return max(1, -(-int(self.ctx.settings["budget"]["candidates"]) // size))

    def _choose(self, weights: Sequence[float], uniform: Callable[[], float], settings: Settings) -> Choice:
        members = self.state.members
        if not members:
            return Choice(operator="draft", parents=(), draws=(), why="empty island")
        fresh, operator = uniform(), uniform()
        if fresh < settings.fresh_draft_prob:
            return Choice(operator="draft", parents=(), draws=(fresh, operator), why="fresh_draft_prob")
        crossing = (
            operator < settings.crossover_prob and self.state.generation >= settings.num_generations_till_crossover
        )
        wanted = 2 if crossing else 1
        why = ""
        if wanted > len(members):
            wanted, why = 1, "crossover_parent_shortage"
        picks = [uniform() for _ in range(wanted)]
        chosen = policies.without_replacement(weights, picks)
        return Choice(
            operator="crossover" if wanted == 2 else "improve",
            parents=tuple(members[i].candidate for i in chosen),
            draws=(fresh, operator, *picks),
            why=why,
        )

    # Proposing and executing. Branches write only to their own attempt; shared state changes at joins.

    async def propose_and_execute(self, attempts: list[Attempt]) -> None:
        self.in_flight += len(attempts)
        await self.ctx.gather(*[partial(self.propose, attempt) for attempt in attempts])
        self.screen(attempts)
        executable = [attempt for attempt in attempts if attempt.program is not None]
        await self.ctx.gather(*[partial(self.execute, attempt) for attempt in executable])

    async def propose(self, attempt: Attempt) -> None:
        proposer = self.ctx.settings["proposer"]
        request = ProposalRequested(
            task=self.task.name,
            operator=attempt.operator,
            model=proposer["model"],
            seed=self.ctx.draw("proposal").below(1 << 48),
            limits=Limits(
                seconds=proposer["seconds"],
                attempts=proposer["attempts"],
                tokens=proposer["tokens"],
                usd=proposer["usd"],
            ),
            generation=self.state.generation,
            temperature=proposer["temperature"],
            parents=attempt.parents,
            feedback=attempt.feedback,
        )
        try:
            made = await self.ctx.request(request)
        except RequestFailedError as failure:
            attempt.candidate, attempt.failure = failure.place, failure
            return
        attempt.candidate, attempt.proposal = made.ref.place, made.ref
        attempt.made = made.data

    def screen(self, attempts: list[Attempt]) -> None:
        """Refuse what cannot or need not be executed, in the order of places."""
        state = self.state
        for attempt in attempts:
            if attempt.failure is not None:
                state.spent_usd += attempt.failure.usd
                continue
            made = attempt.made
            assert made is not None
            state.spent_usd += made.usd
            sample = made.samples[0] if made.samples else None
            if sample is None or sample.program is None or sample.normal is None or sample.problem is not None:
                reason: Refusal = (sample.problem if sample is not None else None) or "empty"
                detail = "; ".join(sample.diagnostics) if sample is not None else "the proposer made no sample"
                self.refuse(attempt, reason, detail)
                continue
            normal = sample.normal[:24]
            if normal in self._seen:
                self.refuse(attempt, "duplicate", f"a program with the normalised digest {normal} came before")
                continue
            self._seen.add(normal)
            state.seen.append(normal)
            attempt.program = sample.program

    def refuse(self, attempt: Attempt, reason: Refusal, detail: str) -> None:
        assert attempt.proposal is not None
        self.ctx.decide(ProposalRefused(proposal=attempt.proposal, sample=0, reason=reason, detail=detail))

    async def execute(self, attempt: Attempt) -> None:
        assert attempt.program is not None
        request = self.execution(attempt.candidate, attempt.program, "search", "search", attempt.proposal)
        try:
            attempt.trace = await self.ctx.request(request)
        except RequestFailedError as failure:
            attempt.failure = failure

    def execution(
        self, candidate: str, program: Blob, split: str, purpose: Purpose, proposal: Ref | None = None
    ) -> ExecutionRequested:
        """A request whose seed depends on the split only: every program meets the same conditions."""
        limits = self.ctx.settings["evaluation"]
        return ExecutionRequested(
            candidate=candidate,
            program=program,
            task=self.task.name,
            split=split,
            purpose=purpose,
            seed=Draw(f"{self.ctx.seed}/execution/{split}").below(1 << 32),
            limits=Limits(
                seconds=limits["seconds"],
                attempts=limits["attempts"],
                memory=limits["memory"],
                processes=limits["processes"],
                output=limits["output"],
            ),
            proposal=proposal,
        )

    # Admission (1.3).

    def account(self, attempt: Attempt) -> None:
        """Decide what becomes of one attempt; exactly one outcome each."""
        state = self.state
        if attempt.failure is not None:
            state.attempts["failed"] += 1
            state.last_failure = f"{attempt.failure.reason}: {attempt.failure.detail}"
            return
        if attempt.program is None or attempt.trace is None:
            state.attempts["refused"] += 1
            return
        reading = attempt.trace.data.reading
        self.ctx.decide(
            CandidateEvaluated(
                candidate=attempt.candidate,
                program=attempt.program,
                parents=tuple(parent.candidate for parent in attempt.parents),
                operator=attempt.operator,
                generation=state.generation,
                readings=(
                    CandidateReading(
                        task=self.task.name,
                        split="search",
                        purpose="search",
                        trace=attempt.trace.ref,
                        status=reading.status,
                        score=reading.score,
                    ),
                ),
                missing="none",
                mean=reading.score,
            )
        )
        if reading.score is None:
            state.last_failure = reading.reason or reading.status
            self.reject(attempt, reading.status, None, None)
            return
        score: float = reading.score
        threshold = policies.island_mean([m.score for m in state.members]) if state.generation > 0 else None
        state.low = score if state.low is None else min(state.low, score)
        state.high = score if state.high is None else max(state.high, score)
        member = Member(candidate=attempt.candidate, program=attempt.program, score=score)
        if state.best is None or policies.better(score, state.best.score, self.direction):
            state.best = member
        if threshold is not None and policies.better(threshold, score, self.direction):
            self.reject(attempt, "below-threshold", score, threshold)
            return
        state.attempts["admitted"] += 1
        state.members.append(member)
        self.ctx.decide(
            CandidateAdmitted(
                candidate=member.candidate,
                program=member.program,
                score=score,
                island=ISLAND,
                policy=self.settings.admission if state.generation else "seeding",
                threshold=threshold,
            )
        )
        while len(state.members) > self.settings.max_island_size:
            worst = state.members.pop(policies.worst_index([m.score for m in state.members], self.direction))
            self.ctx.decide(
                CandidateEvicted(candidate=worst.candidate, score=worst.score, island=ISLAND, policy="worst")
            )

    def reject(self, attempt: Attempt, reason: str, score: float | None, threshold: float | None) -> None:
        self.state.attempts["rejected"] += 1
        self.ctx.decide(
            CandidateRejected(
                candidate=attempt.candidate,
                reason=reason,
                score=score,
                island=ISLAND,
                policy=self.settings.admission,
                threshold=threshold,
            )
        )

    # Before and after the search.

    async def measure_baselines(self) -> None:
        async def one(baseline: Baseline) -> None:
            # A baseline that cannot be measured is missing from the report; it decides nothing.
            with suppress(RequestFailedError):
                await self.ctx.request(
                    self.execution(f"baseline:{baseline.name}", baseline.program, "search", "floor")
                )

        await self.ctx.gather(*[partial(one, baseline) for baseline in self.task.baselines])

    async def hold_out(self) -> None:
        """Ask for the holdout readings of the best and the baselines, each once; none is seen here."""
        state = self.state
        assert state.best is not None
        if not any(split.name == "holdout" for split in self.task.splits):
            return
        programs = {f"baseline:{b.name}": b.program for b in self.task.baselines}
        programs[state.best.candidate] = state.best.program
        wanted = [name for name in programs if name not in state.held_out]

        async def one(name: str) -> None:
            with suppress(RequestFailedError):
                await self.ctx.sealed(self.execution(name, programs[name], "holdout", "holdout"))

        await self.ctx.gather(*[partial(one, name) for name in wanted])
        state.held_out += wanted
