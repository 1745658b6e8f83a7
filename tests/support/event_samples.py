"""One event of every kind, with every field set: the source of ``tests/data/golden-kinds.jsonl``."""

from __future__ import annotations

from evolog.events import Attestation, Blob, Event, Limits, Payload, Reading, Ref, Resources, Usage, Writer
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
    RunReconfigured,
    RunResumed,
    RunStarted,
    RunStopped,
    Sample,
    Split,
    TaskDigest,
    TaskRegistered,
    TimerFired,
    TimerRequested,
    TraceRecorded,
    VersionRecorded,
    ViewsDigested,
)

BY = Writer(role="director", host="host-1", process=4711, version="0.1.0")


def blob(digit: str, size: int = 10) -> Blob:
    return Blob(sha256=digit * 64, size=size)


def ref(place: str) -> Ref:
    return Ref(place=place, digest="d" * 64)


PAYLOADS: tuple[Payload, ...] = (
    RunStarted(
        strategy="program",
        strategy_source="a" * 64,
        settings={"run": {"seed": 1}, "budget": {"usd": None, "candidates": 10}, "names": ["ä", "\u2028"]},
        seed=1,
        tasks=(TaskDigest(name="jobshop", digest="b" * 64),),
        package="0.1.0",
        python="3.11.7",
        platform="Linux-x86_64",
        sandbox="sandlock",
    ),
    TaskRegistered(
        name="jobshop",
        description="Rank the operations.",
        direction="minimize",
        judge="sandbox",
        interface=blob("1"),
        harness=blob("2"),
        evaluator=blob("3"),
        splits=(Split(name="search", data=blob("4")), Split(name="holdout", data=blob("5"))),
        baselines=(Baseline(name="SPT", program=blob("6")),),
    ),
    RunReconfigured(changes={"budget.candidates": (10, 20)}, settings={"budget": {"candidates": 20}}),
    RunPaused(reason="interrupted by SIGINT"),
    RunResumed(strategy_source="a" * 64, package="0.1.0", python="3.12.1", platform="Linux-x86_64"),
    RunStopped(reason="enough"),
    RunCheckpointed(boundary="generation 3", state=blob("7", 1234)),
    VersionRecorded(name="admission", value=2),
    RunCompleted(status="completed", reason="budget.candidates = 10 reached", best="7.2.1", attempts={"admitted": 3}),
    ViewsDigested(as_of="r1/90", views={"archive/1": "c" * 64}),
    ParentsSelected(
        generation=2,
        policy="softmax",
        temperature=0.5,
        pool=("3.1.1", "3.2.1"),
        weights=(0.25, 0.75),
        choices=(Choice(operator="improve", parents=("3.2.1",), draws=(0.1, 0.2, 1e-17), why="a reason"),),
    ),
    ProposalRequested(
        task="jobshop",
        operator="crossover",
        model="litellm:openai/gpt-4o",
        seed=(1 << 48) - 1,
        limits=Limits(seconds=60.0, attempts=3, tokens=4096, usd=0.5),
        generation=2,
        samples=1,
        temperature=0.7,
        parents=(
            Parent(candidate="3.2.1", program=blob("8"), score=-0.5),
            Parent(candidate="3.1.1", program=blob("9"), score=None),
        ),
        feedback=blob("a"),
    ),
    ProposalMade(
        samples=(
            Sample(program=blob("b"), normal="e" * 64, note="swaps two terms"),
            Sample(program=None, normal=None, problem="unparsable", diagnostics=("line 3: invalid syntax",)),
        ),
        prompt=blob("c"),
        replies=(blob("d"),),
        usage=Usage(prompt_tokens=100, completion_tokens=20),
        usd=0.00125,
        seconds=1.5,
    ),
    ProposalRefused(proposal=ref("7.2.1"), sample=0, reason="duplicate", detail="it came before"),
    ExecutionRequested(
        candidate="7.2.1",
        program=blob("b"),
        task="jobshop",
        split="search",
        purpose="search",
        seed=4294967295,
        limits=Limits(seconds=10.0, attempts=3, memory=268435456, processes=16, output=1048576),
        proposal=ref("7.2.1"),
    ),
    TraceRecorded(
        reading=Reading(status="scored", score=12.18, reason=None, metrics={"ft06": 3.6363636363636362}),
        outcome="exited",
        exit_code=0,
        output=blob("e"),
        feedback=blob("f"),
        resources=Resources(wall_seconds=0.1, cpu_seconds=0.09, peak_bytes=20971520),
        attestation=Attestation(backend="sandlock", backend_version="0.9.0", evaluator="1" * 64, files="2" * 64),
    ),
    CandidateEvaluated(
        candidate="7.2.1",
        program=blob("b"),
        parents=("3.2.1",),
        operator="improve",
        generation=2,
        readings=(
            CandidateReading(
                task="jobshop", split="search", purpose="search", trace=ref("8.1.1"), status="scored", score=12.18
            ),
        ),
        missing="none",
        mean=12.18,
    ),
    CandidateAdmitted(
        candidate="7.2.1", program=blob("b"), score=12.18, island=0, policy="island-mean", threshold=13.0
    ),
    CandidateRejected(
        candidate="7.3.1", reason="below-threshold", score=14.5, island=0, policy="island-mean", threshold=13.0
    ),
    CandidateEvicted(candidate="3.1.1", score=20.25, island=0, policy="worst"),
    AttemptStarted(attempt="a-0011223344556677", number=1),
    CallStarted(
        attempt="a-0011223344556677",
        call="a-0011223344556677/call-1",
        model="openai/gpt-4o",
        request=blob("c"),
        worst_usd=0.05,
        number=1,
    ),
    CompletionRecorded(
        attempt="a-0011223344556677",
        call="a-0011223344556677/call-1",
        model="openai/gpt-4o",
        request=blob("c"),
        outcome="ok",
        number=1,
        provider_model="gpt-4o-2024-11-20",
        fingerprint="fp_1",
        reply=blob("d"),
        finish="stop",
        usage=Usage(prompt_tokens=100, completion_tokens=20),
        usd=0.00125,
        retry_after=0.5,
        detail="said at length",
        seconds=1.25,
    ),
    RequestFailed(reason="timeout", detail="no answer within 60 s", attempts=3, usd=0.1),
    RequestCancelled(request="7.2.1", reason="stopped"),
    TimerRequested(deadline=1_800_000_000_000_000_000, purpose="a pause"),
    TimerFired(deadline=1_800_000_000_000_000_000),
)


def sample(number: int, data: Payload) -> Event:
    decision = data.ORIGIN == "decision"
    place = f"{number}.1" if decision else None
    return Event(
        kind=data.KIND,
        v=data.VERSION,
        id=f"r1/{place or f'fact-{number}'}",
        run="r1",
        n=number if decision else None,
        place=place,
        at=1_800_000_000_000_000_000 + number,
        by=BY,
        cause=("r1/1",),
        data=data,
    )


EVENTS = tuple(sample(number, data) for number, data in enumerate(PAYLOADS))
