"""Small strategies for the runtime's tests, and a driver that plays the world to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from evolog.events import Event, Limits, Payload, Writer, blob_of
from evolog.events.errors import RequestFailedError
from evolog.events.kinds import (
    CandidateRejected,
    ProposalMade,
    ProposalRequested,
    RequestFailed,
    RunStarted,
    TimerFired,
    TimerRequested,
)
from evolog.replay import Context, Course, Strategy

RUN = "rtest"
WRITER = Writer(role="test", host="here", process=1, version="0")


class NoSettings(msgspec.Struct, frozen=True):
    pass


class Loop(msgspec.Struct):
    rounds: int = 0
    total: float = 0.0


def proposal(seed: int) -> ProposalRequested:
    return ProposalRequested(task="t", operator="draft", model="m", seed=seed, limits=Limits(seconds=1.0))


def note(candidate: str, score: float) -> CandidateRejected:
    return CandidateRejected(candidate=candidate, reason="noted", score=score, island=0, policy="p", threshold=None)


class Generational:
    """Rounds of `width` branches with a request, a draw and a decision each; a checkpoint after each round."""

    NAME: ClassVar[str] = "generational"
    Settings: ClassVar[type[msgspec.Struct]] = NoSettings
    State: ClassVar[type[msgspec.Struct]] = Loop
    #: What a test changes to make another strategy of this one.
    scale = 1.0

    def __init__(self, rounds: int = 3, width: int = 4) -> None:
        self.rounds, self.width = rounds, width

    async def run(self, ctx: Context, state: Loop | None) -> None:
        state = state or Loop()
        while state.rounds < self.rounds:
            total = state.total

            async def branch(total: float = total) -> float:
                value = ctx.draw("value").uniform() * self.scale
                answer = await ctx.request(proposal(int(value * 1000)))
                usd: float = answer.data.usd
                ctx.decide(note(answer.ref.place, value + usd + total))
                return value + usd

            results = await ctx.gather(*[branch] * self.width)
            state.total += sum(results)
            state.rounds += 1
            ctx.checkpoint(f"round {state.rounds}", state)
        await ctx.complete("completed", "rounds", best=None, attempts={"admitted": self.rounds * self.width})


class SteadyState:
    """A pool that always keeps `width` requests open, until `total` have ended."""

    NAME: ClassVar[str] = "steady"
    Settings: ClassVar[type[msgspec.Struct]] = NoSettings
    State: ClassVar[type[msgspec.Struct]] = Loop

    def __init__(self, total: int = 12, width: int = 3) -> None:
        self.total, self.width = total, width

    async def run(self, ctx: Context, state: Loop | None) -> None:
        async def branch() -> float:
            answer = await ctx.request(proposal(ctx.draw("value").below(1000)))
            return float(answer.data.usd)

        pool = ctx.pool(self.width)
        for _ in range(self.width):
            pool.submit(branch)
        done, best = 0, 0.0
        while pool.pending:
            task = await pool.next()
            done += 1
            try:
                best = max(best, task.result())
            except RequestFailedError as failure:
                ctx.decide(note(failure.reason, -1.0))
            ctx.decide(note(task.place, best))
            if done + pool.pending < self.total:
                pool.submit(branch)
        await ctx.complete("completed", "total", best=None, attempts={"admitted": done})


def made(usd: float) -> ProposalMade:
    return ProposalMade(samples=(), usd=usd)


def envelope(data: Payload, identity: str, cause: tuple[str, ...] = (), n: int | None = None, at: int = 0) -> Event:
    return Event(
        kind=data.KIND,
        v=data.VERSION,
        id=f"{RUN}/{identity}",
        run=RUN,
        n=n,
        place=None if n is None else identity,
        at=at,
        by=WRITER,
        cause=cause,
        data=data,
    )


def started(settings: dict[str, Any] | None = None, seed: int = 5) -> Event:
    data = RunStarted(
        strategy="test",
        strategy_source="",
        settings=settings or {},
        seed=seed,
        tasks=(),
        package="0",
        python="3",
        platform="x",
        sandbox="none",
    )
    return envelope(data, "op-start", at=1)


class World:
    """Answers a strategy's requests, one at a time, in an order of its own, and keeps the log."""

    def __init__(self, strategy: Strategy, *, log: list[Event] | None = None, settings: dict[str, Any] | None = None):
        self.strategy = strategy
        self.log: list[Event] = []
        self.blobs: dict[str, bytes] = {}
        self.course = Course(strategy, log or ())
        self.facts = 0
        for event in log or [started(settings)]:
            self.log.append(event)
            self.course.apply(event)
            self.facts += event.n is None
        self.settle()

    def settle(self) -> None:
        """Append what the strategy has decided."""
        while self.course.pending:
            decision = self.course.pending[0]
            for content in decision.attachments:
                self.blobs[blob_of(content).sha256] = content
            event = envelope(decision.data, decision.place, decision.cause, decision.n, at=10**6 + len(self.log))
            self.log.append(event)
            self.course.apply(event)

    def fact(self, data: Payload, *cause: str) -> None:
        self.facts += 1
        event = envelope(data, f"f{self.facts}", tuple(f"{RUN}/{c}" for c in cause), at=1000 * self.facts)
        self.log.append(event)
        self.course.apply(event)
        self.settle()

    def answerable(self) -> list[str]:
        return [p for p, x in self.course.runtime.open.items() if isinstance(x, ProposalRequested | TimerRequested)]

    def answer(self, place: str, *, fail: bool = False) -> None:
        payload = self.course.runtime.open[place]
        if isinstance(payload, TimerRequested):
            self.fact(TimerFired(deadline=payload.deadline), place)
        elif fail:
            self.fact(RequestFailed(reason="error", detail="no", attempts=1), place)
        else:
            assert isinstance(payload, ProposalRequested)
            self.fact(made(payload.seed / 1000), place)

    def play(self, pick: Callable[[list[str]], str] | None = None, *, steps: int = 10_000) -> World:
        """Answer until nothing is open; `pick` chooses which request is answered next (default: the oldest)."""
        for _ in range(steps):
            places = self.answerable()
            if not places:
                break
            self.answer(pick(places) if pick else places[0])
        return self

    def by_place(self) -> dict[str, Payload]:
        return {event.place: event.data for event in self.log if event.place is not None}  # type: ignore[misc]


def shuffled(seed: int) -> Callable[[list[str]], str]:
    return random.Random(seed).choice
