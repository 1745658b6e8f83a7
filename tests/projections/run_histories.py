"""Well-formed histories of strategy `program`, with every kind of mishap that at-least-once delivery allows."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from evolog.events import (
    Attestation,
    Blob,
    Event,
    Limits,
    Payload,
    Reading,
    Ref,
    Resources,
    Usage,
    Writer,
    blob_of,
    content_digest,
)
from evolog.events.kinds import (
    AttemptStarted,
    Baseline,
    CallStarted,
    CandidateAdmitted,
    CandidateEvaluated,
    CandidateEvicted,
    CandidateReading,
    CandidateRejected,
    Choice,
    CompletionRecorded,
    ExecutionRequested,
    Parent,
    ParentsSelected,
    ProposalMade,
    ProposalRefused,
    ProposalRequested,
    RequestCancelled,
    RequestFailed,
    RunCheckpointed,
    RunCompleted,
    RunPaused,
    RunResumed,
    RunStarted,
    RunStopped,
    Sample,
    Split,
    TaskDigest,
    TaskRegistered,
    TraceRecorded,
)

WRITER = Writer(role="test", host="here", process=1, version="0")
BASELINES = ("SPT", "LPT")
START = 1_800_000_000_000_000_000


class History:
    """Makes one run's events, and counts by itself what became of each attempt.

    Parameters
    ----------
    seed
        Of everything that happens.
    mishaps
        Probability of a repeated fact, a late second result, a call that never settles.
    direction
        Which way scores are better.
    """

    def __init__(
        self, seed: int = 0, run: str = "r7k2m", *, mishaps: float = 0.2, direction: Any = "minimize"
    ) -> None:
        self.random = random.Random(seed)
        self.run = run
        self.seed = seed
        self.mishaps = mishaps
        self.direction = direction
        self.events: list[Event] = []
        self.blobs: dict[str, bytes] = {}
        self.outcomes: Counter[str] = Counter()
        self.attempts = 0
        self.usd = 0.0
        self.unsettled_usd = 0.0
        self.scores: dict[str, float] = {}
        self.admitted: dict[str, float] = {}
        self.members: dict[str, tuple[Blob, float]] = {}
        self.generation = 0
        self.clock_offset = 0
        self._n = 0
        self._main = 0
        self._facts = 0
        self._late: list[Event] = []

    # Writing.

    def blob(self, text: str) -> Blob:
        content = text.encode()
        found = blob_of(content)
        self.blobs[found.sha256] = content
        return found

    def _event(self, data: Payload, id_: str, n: int | None, place: str | None, cause: tuple[str, ...]) -> Event:
        at = START + len(self.events) * 1_000_000 + self.clock_offset
        return Event(
            kind=data.KIND,
            v=data.VERSION,
            id=id_,
            run=self.run,
            n=n,
            place=place,
            at=at,
            by=WRITER,
            cause=cause,
            data=data,
        )

    def decide(self, data: Payload, place: str | None = None) -> str:
        if place is None:
            self._main += 1
            place = str(self._main)
        self.events.append(self._event(data, f"{self.run}/{place}", self._n, place, ()))
        self._n += 1
        return place

    def fact(self, data: Payload, place: str | None = None) -> Event:
        self._facts += 1
        cause = (f"{self.run}/{place}",) if place is not None else ()
        event = self._event(data, f"{self.run}/f{self._facts}", None, None, cause)
        self.events.append(event)
        if self.random.random() < self.mishaps / 2:
            self.events.append(event)
        elif self.random.random() < self.mishaps / 2:
            self._late.append(event)
        if self._late and self.random.random() < 0.3:
            self.events.append(self._late.pop(self.random.randrange(len(self._late))))
        return event

    # A run.

    def start(self, budget_usd: float | None = 1.5) -> None:
        task = TaskRegistered(
            name="jobshop",
            description="dispatching rules",
            direction=self.direction,
            interface=self.blob("def rank(operation): ..."),
            harness=self.blob("harness"),
            evaluator=self.blob("evaluator"),
            splits=(Split(name="search", data=self.blob("s")), Split(name="holdout", data=self.blob("h"))),
            baselines=tuple(Baseline(name=name, program=self.blob(f"# {name}\n")) for name in BASELINES),
        )
        self.fact(
            RunStarted(
                strategy="program",
                strategy_source="0" * 64,
                settings={"budget": {"candidates": 60, "usd": budget_usd}, "search": {"strategy": "program"}},
                seed=self.seed,
                tasks=(TaskDigest(name="jobshop", digest=content_digest(task)),),
                package="0.1.0",
                python="3.11.2",
                platform="linux",
                sandbox="sandlock",
            )
        )
        self.fact(task)
        for name in BASELINES:
            self.measure(f"baseline:{name}", self.blob(f"# {name}\n"), "search", "floor")

    def measure(
        self, candidate: str, program: Blob, split: str, purpose: Any, place: str | None = None
    ) -> tuple[str, TraceRecorded] | None:
        """Ask for an execution and answer it: the trace, or None where it failed."""
        place = self.decide(
            ExecutionRequested(
                candidate=candidate,
                program=program,
                task="jobshop",
                split=split,
                purpose=purpose,
                seed=1,
                limits=Limits(seconds=1.0),
            ),
            place,
        )
        self.fact(AttemptStarted(attempt=f"a{place}", number=1), place)
        if purpose == "search" and self.random.random() < 0.1:
            self.fact(RequestFailed(reason="attempts", detail="worker lost", attempts=3), place)
            self._second(place)
            return None
        trace = self.trace(allow_invalid=purpose == "search")
        self.fact(trace, place)
        self._second(place)
        return place, trace

    def trace(self, *, allow_invalid: bool = True) -> TraceRecorded:
        kind = self.random.random() if allow_invalid else 1.0
        if kind < 0.15:
            reading = Reading(status="invalid", reason="raised ValueError")
        elif kind < 0.2:
            reading = Reading(status="not_run", reason="sandbox unavailable")
        else:
            reading = Reading(status="scored", score=round(self.random.gauss(10, 3), 3), metrics={"gap": 0.5})
        return TraceRecorded(
            reading=reading,
            outcome="exited",
            exit_code=0,
            output=None,
            feedback=None,
            resources=Resources(wall_seconds=0.1),
            attestation=Attestation(backend="sandlock", backend_version="0.9", evaluator="e", files="f"),
        )

    def _second(self, place: str) -> None:
        if self.random.random() < self.mishaps:
            self.fact(self.trace(), place)
        if self.random.random() < self.mishaps / 2:
            self.fact(RequestFailed(reason="timeout", detail="late", attempts=1, usd=9.0), place)

    def propose(self, place: str, operator: Any, parents: tuple[str, ...]) -> tuple[Ref, Sample] | None:
        self.decide(
            ProposalRequested(
                task="jobshop",
                operator=operator,
                model="litellm:tiny",
                seed=self.random.randrange(1 << 48),
                limits=Limits(seconds=5.0, usd=0.02),
                generation=self.generation,
                parents=tuple(
                    Parent(candidate=name, program=self.members[name][0], score=self.members[name][1])
                    for name in parents
                    if name in self.members
                ),
            ),
            place,
        )
        self.attempts += 1
        self.fact(AttemptStarted(attempt=f"a{place}", number=1), place)
        usd = self.call(place, f"a{place}", 1)
        if self.random.random() < 0.1:
            self.fact(RequestFailed(reason="unreachable", detail="no route", attempts=3, usd=usd), place)
            self._second_proposal(place)
            return None
        sample = self.sample(place)
        made = ProposalMade(samples=(sample,), usd=usd, usage=Usage(prompt_tokens=100, completion_tokens=10))
        self.fact(made, place)
        self._second_proposal(place)
        return Ref(place=place, digest=content_digest(made)), sample

    def _second_proposal(self, place: str) -> None:
        if self.random.random() < self.mishaps:
            usd = self.call(place, f"b{place}", 2)
            self.fact(ProposalMade(samples=(self.sample(place + "-late"),), usd=usd), place)

    def sample(self, text: str) -> Sample:
        source = f"def rank(operation):\n    return {len(self.events)}  # [bold]{text}[/bold]\n"
        return Sample(program=self.blob(source), normal=blob_of(source.encode()).sha256)

    def call(self, place: str, attempt: str, number: int) -> float:
        self.fact(
            CallStarted(
                attempt=attempt,
                call="call-1",
                model="litellm:tiny",
                request=self.blob("ask"),
                worst_usd=0.02,
                number=number,
            ),
            place,
        )
        if self.random.random() < self.mishaps / 2:
            self.unsettled_usd += 0.02
            return 0.02
        usd = self.random.randrange(1, 16) / 1000
        self.usd += usd
        self.fact(
            CompletionRecorded(
                attempt=attempt,
                call="call-1",
                model="litellm:tiny",
                request=self.blob("ask"),
                outcome=self.random.choice(("ok", "ok", "timeout")),
                number=number,
                usage=Usage(prompt_tokens=100, completion_tokens=10),
                usd=usd,
            ),
            place,
        )
        return usd

    def run_generation(self, size: int = 4, *, cut: bool = False) -> None:
        """One generation; with `cut`, an operator stops the run before the join."""
        pool = tuple(self.members)
        choices = [self._choose(pool) for _ in range(size)]
        self.decide(
            ParentsSelected(
                generation=self.generation,
                policy="softmax",
                temperature=1.0,
                pool=pool,
                weights=tuple(1.0 / len(pool) for _ in pool),
                choices=tuple(choices),
            )
        )
        self._main += 1
        gather = self._main
        proposals = [
            (f"{gather}.{i}.1", c, self.propose(f"{gather}.{i}.1", c.operator, c.parents))
            for i, c in enumerate(choices, start=1)
        ]
        executed: list[tuple[str, Choice, Blob, tuple[str, TraceRecorded]]] = []
        for candidate, choice, made in proposals:
            if made is None:
                self.outcomes["failed"] += 1
                continue
            ref, sample = made
            if self.random.random() < 0.15:
                self.decide(ProposalRefused(proposal=ref, sample=0, reason="duplicate", detail="came before"))
                self.outcomes["refused"] += 1
                continue
            assert sample.program is not None
            if cut and self.random.random() < 0.5:
                place = self.decide(
                    ExecutionRequested(
                        candidate=candidate,
                        program=sample.program,
                        task="jobshop",
                        split="search",
                        purpose="search",
                        seed=1,
                        limits=Limits(seconds=1.0),
                    ),
                    f"{candidate[:-1]}2",
                )
                self.decide(RequestCancelled(request=place, reason="stopped"), f"{place}.cancelled")
                self.outcomes["cancelled"] += 1
                continue
            measured = self.measure(candidate, sample.program, "search", "search", f"{candidate[:-1]}2")
            if measured is None:
                self.outcomes["failed"] += 1
            elif cut:
                self.outcomes["cancelled"] += 1
            else:
                executed.append((candidate, choice, sample.program, measured))
        for candidate, choice, program, (place, trace) in executed:
            self.join(candidate, choice, program, place, trace)
        if not cut:
            self.generation += 1
            self.decide(
                RunCheckpointed(boundary=f"generation {self.generation}", state=self.blob(f"{self.generation}"))
            )

    def _choose(self, pool: tuple[str, ...]) -> Choice:
        if not pool:
            return Choice(operator="draft", parents=(), draws=())
        operator = self.random.choice(("improve", "crossover", "debug"))
        parents = self.random.sample(pool, min(len(pool), 2 if operator == "crossover" else 1))
        return Choice(operator=operator, parents=tuple(parents), draws=(0.5,))  # type: ignore[arg-type]

    def join(self, candidate: str, choice: Choice, program: Blob, place: str, trace: TraceRecorded) -> None:
        reading = trace.reading
        self.decide(
            CandidateEvaluated(
                candidate=candidate,
                program=program,
                parents=choice.parents,
                operator=choice.operator,
                generation=self.generation,
                readings=(
                    CandidateReading(
                        task="jobshop",
                        split="search",
                        purpose="search",
                        trace=Ref(place=place, digest=content_digest(trace)),
                        status=reading.status,
                        score=reading.score,
                    ),
                ),
                missing="none",
                mean=reading.score,
            )
        )
        if reading.score is None:
            self.decide(
                CandidateRejected(
                    candidate=candidate,
                    reason=reading.status,
                    score=None,
                    island=0,
                    policy="island-mean",
                    threshold=None,
                )
            )
            self.outcomes["rejected"] += 1
            return
        self.scores[candidate] = reading.score
        self.decide(
            CandidateAdmitted(
                candidate=candidate,
                program=program,
                score=reading.score,
                island=0,
                policy="island-mean",
                threshold=None,
            )
        )
        self.outcomes["admitted"] += 1
        self.members[candidate] = (program, reading.score)
        self.admitted[candidate] = reading.score
        if len(self.members) > 6:
            pick = max if self.direction == "minimize" else min
            worst = pick(self.members, key=lambda name: self.members[name][1])
            score = self.members.pop(worst)[1]
            self.decide(CandidateEvicted(candidate=worst, score=score, island=0, policy="worst"))

    @property
    def best(self) -> str | None:
        if not self.admitted:
            return None
        pick = min if self.direction == "minimize" else max
        return pick(self.admitted, key=lambda name: self.admitted[name])

    def pause(self) -> None:
        self.fact(RunPaused(reason="interrupted"))

    def resume(self) -> None:
        self.fact(RunResumed(strategy_source="0" * 64, package="0.1.0", python="3.11.2", platform="linux"))

    def stop(self) -> None:
        self.fact(RunStopped(reason="enough"))

    def complete(self, status: Any = "completed") -> None:
        best = self.best
        if best is not None and status == "completed":
            program = next(e.data.program for e in self.events if getattr(e.data, "candidate", "") == best)  # type: ignore[union-attr]
            self.measure(best, program, "holdout", "holdout")
            for name in BASELINES:
                self.measure(f"baseline:{name}", self.blob(f"# {name}\n"), "holdout", "holdout")
        self.decide(RunCompleted(status=status, reason="budget", best=best, attempts=dict(self.outcomes)))
        while self._late:
            self.events.append(self._late.pop())

    @classmethod
    def whole(cls, seed: int, generations: int, *, stopped: bool = False, **options: Any) -> History:
        """A run from start to end."""
        history = cls(seed, **options)
        history.start()
        for index in range(generations):
            if index == 1:
                history.pause()
                history.resume()
            history.run_generation(history.random.randint(1, 5))
        if stopped:
            history.run_generation(4, cut=True)
            history.stop()
            history.complete("stopped")
        else:
            history.complete()
        return history
