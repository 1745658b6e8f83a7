"""The deterministic runtime: places, order, failure, cancellation, checkpoints, versions, timers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from evolog.events import Limits
from evolog.events.errors import (
    DivergenceError,
    RequestCancelledError,
    RequestFailedError,
    RunStoppedError,
    StrategyError,
)
from evolog.events.kinds import (
    ExecutionRequested,
    RequestCancelled,
    RunCompleted,
    RunReconfigured,
    RunStopped,
    VersionRecorded,
)
from evolog.events.values import blob_of
from evolog.replay import Context, Course, Difference, Replayer, Survey
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from strategies import (
    Generational,
    Loop,
    NoSettings,
    SteadyState,
    World,
    envelope,
    note,
    proposal,
    shuffled,
)

orders = st.integers(0, 2**32)


class Scripted:
    """A strategy whose loop is a function of the test."""

    NAME = "scripted"
    Settings = NoSettings
    State = Loop

    def __init__(self, loop: Any) -> None:
        self.loop = loop

    async def run(self, ctx: Context, state: Loop | None) -> None:
        await self.loop(ctx)


def replay(strategy: Any, log: list[Any]) -> int:
    return Replayer(lambda _: strategy).decisions(log).equal


@given(orders, st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_whatever_order_results_arrive_in_the_run_replays_equal(order: int, rounds: int, width: int) -> None:
    world = World(Generational(rounds, width)).play(shuffled(order))
    assert isinstance(world.log[-1].data, RunCompleted)
    assert replay(Generational(rounds, width), world.log) == len(world.by_place())


@given(orders, orders)
@settings(max_examples=60, deadline=None)
def test_gather_decides_the_same_at_the_same_places_in_any_order(one: int, other: int) -> None:
    first, second = (World(Generational()).play(shuffled(order)) for order in (one, other))
    assert first.by_place() == second.by_place()


@given(orders, st.integers(1, 6), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_a_pool_replays_exactly_in_its_own_order(order: int, width: int, total: int) -> None:
    world = World(SteadyState(total, width)).play(shuffled(order))
    assert isinstance(world.log[-1].data, RunCompleted)
    assert replay(SteadyState(total, width), world.log) == len(world.by_place())


@given(orders, st.data())
@settings(max_examples=40, deadline=None)
def test_a_log_cut_anywhere_and_then_continued_gives_the_same_decisions(order: int, data: Any) -> None:
    whole = World(Generational()).play(shuffled(order))
    cut = data.draw(st.integers(1, len(whole.log)))
    # A fresh director folds the part that is there; it decides again what was cut off, from the same facts.
    resumed = World(Generational(), log=whole.log[:cut])
    later = [event for event in whole.log[cut:] if event.n is None]
    for event in later:
        resumed.log.append(event)
        resumed.course.apply(event)
        resumed.settle()
    assert resumed.by_place() == whole.by_place()
    assert replay(Generational(), resumed.log) == len(whole.by_place())


@given(orders, st.data())
@settings(max_examples=40, deadline=None)
def test_a_takeover_from_a_checkpoint_goes_on_as_from_zero(order: int, data: Any) -> None:
    whole = World(Generational(rounds=4)).play(shuffled(order))
    cut = data.draw(st.integers(1, len(whole.log)))
    point = Survey(whole.log[:cut]).takeover
    state = b"" if point is None else whole.blobs[point.event.data.state.sha256]  # type: ignore[union-attr]
    course = Course(Generational(rounds=4), whole.log[:cut], None if point is None else (point, state))
    for event in whole.log:
        course.apply(event)
    skipped = 0 if point is None else (point.event.n or 0) + 1
    assert course.checked == len(whole.by_place()) - skipped
    assert not course.pending


def test_late_and_repeated_results_change_nothing() -> None:
    world = World(Generational(rounds=1, width=2))
    place = world.answerable()[0]
    world.answer(place)
    before = dict(world.by_place())
    world.fact(type(world.log[0].data)(**msgspec.structs.asdict(world.log[0].data)))  # a second run.started
    late = envelope(proposal_made := world.log[-2].data, "late", (f"rtest/{place}",), at=10)
    assert proposal_made is not None
    world.course.apply(late)
    assert world.by_place() == before
    assert not world.course.pending


def test_first_result_wins() -> None:
    from strategies import made

    world = World(Generational(rounds=1, width=1))
    place = world.answerable()[0]
    world.fact(made(1.0), place)
    world.fact(made(2.0), place)
    (noted,) = [d for d in world.by_place().values() if d.KIND == "candidate.rejected"]
    value = noted.score  # type: ignore[attr-defined]
    assert 1.0 <= value < 2.0


def test_a_failed_request_is_raised_inside_the_strategy() -> None:
    seen: list[str] = []

    async def loop(ctx: Context) -> None:
        try:
            await ctx.request(proposal(1))
        except RequestFailedError as failure:
            seen.append(f"{failure.place} {failure.reason} {failure.detail}")

    world = World(Scripted(loop))
    world.answer("1", fail=True)
    assert seen == ["1 error no"]


def test_gather_waits_for_all_and_raises_the_first_error_by_place() -> None:
    ended: list[str] = []

    async def loop(ctx: Context) -> None:
        async def branch(k: int) -> None:
            await ctx.request(proposal(k))

        try:
            await ctx.gather(lambda: branch(1), lambda: branch(2), lambda: branch(3))
        except RequestFailedError as failure:
            ended.append(failure.place)

    world = World(Scripted(loop))
    world.answer("1.3.1", fail=True)
    world.answer("1.2.1", fail=True)
    assert ended == []
    world.answer("1.1.1")
    assert ended == ["1.2.1"]


def test_a_cancelled_branch_gets_the_error_and_the_log_the_decision() -> None:
    seen: list[str] = []

    async def loop(ctx: Context) -> None:
        async def slow() -> None:
            try:
                await ctx.request(proposal(1))
            except RequestCancelledError as cancelled:
                seen.append(cancelled.reason)
                raise

        async def fast() -> None:
            await ctx.request(proposal(2))

        pool = ctx.pool(2)
        loser = pool.submit(slow)
        pool.submit(fast)
        await pool.next()
        loser.cancel("the other was faster")
        await pool.next()
        assert loser.done
        await ctx.complete("completed", "raced", best=None, attempts={})

    world = World(Scripted(loop))
    world.answer("1.2.1")
    assert seen == ["the other was faster"]
    cancelled = world.by_place()["1.1.1.cancelled"]
    assert cancelled == RequestCancelled(request="1.1.1", reason="the other was faster")
    assert isinstance(world.log[-1].data, RunCompleted)
    assert replay(Scripted(loop), world.log) == len(world.by_place())


def test_a_stopped_run_cancels_what_is_open_and_can_say_how_it_ended() -> None:
    async def loop(ctx: Context) -> None:
        async def branch() -> None:
            await ctx.request(proposal(1))

        try:
            await ctx.gather(branch, branch)
        except RunStoppedError as stopped:
            await ctx.complete("stopped", str(stopped), best=None, attempts={"cancelled": 2})

    world = World(Scripted(loop))
    world.fact(RunStopped(reason="enough"))
    assert [d for d in world.by_place() if d.endswith("cancelled")] == ["1.1.1.cancelled", "1.2.1.cancelled"]
    completed = world.log[-1].data
    assert isinstance(completed, RunCompleted)
    assert completed.status == "stopped"
    world.fact(RunStopped(reason="again"))  # a completed run has nothing to stop
    assert world.log[-1].kind == "run.stopped"
    assert replay(Scripted(loop), world.log) == len(world.by_place())


def test_a_completed_run_goes_on_when_it_is_reconfigured() -> None:
    async def loop(ctx: Context) -> None:
        for _ in range(2):
            for _ in range(ctx.settings["rounds"]):
                await ctx.request(proposal(1))
            await ctx.complete("completed", f"rounds = {ctx.settings['rounds']}", best=None, attempts={})

    world = World(Scripted(loop), settings={"rounds": 1}).play()
    assert isinstance(world.log[-1].data, RunCompleted)
    world.fact(RunReconfigured(changes={"rounds": (1, 2)}, settings={"rounds": 2}), "2")
    world.play()
    assert [d.reason for d in world.by_place().values() if isinstance(d, RunCompleted)] == [
        "rounds = 1",
        "rounds = 2",
    ]


def test_now_is_the_latest_consumed_time_and_never_goes_back() -> None:
    times: list[int] = []

    async def loop(ctx: Context) -> None:
        times.append(ctx.now)
        for _ in range(2):
            await ctx.request(proposal(1))
            times.append(ctx.now)

    world = World(Scripted(loop))
    world.course.apply(envelope(note_fact := world_answer(), "x1", ("rtest/1",), at=500))
    assert note_fact is not None
    world.settle()
    world.course.apply(envelope(world_answer(), "x2", ("rtest/2",), at=400))
    assert times == [1, 500, 500]


def world_answer() -> Any:
    from strategies import made

    return made(0.0)


def test_timers_are_requests() -> None:
    async def loop(ctx: Context) -> None:
        await ctx.timer(2.5, "wait")
        ctx.decide(note("woke", ctx.now / 1e9))

    world = World(Scripted(loop))
    assert world.by_place()["1"].deadline == 1 + 2_500_000_000  # type: ignore[attr-defined]
    world.play()
    assert "2" in world.by_place()


def versioned(newest: int) -> Scripted:
    async def loop(ctx: Context) -> None:
        for _ in range(3):
            version = ctx.version("scoring", newest) if newest else 0
            answer = await ctx.request(proposal(version))
            ctx.decide(note(answer.ref.place, float(version)))

    return Scripted(loop)


def test_version_keeps_old_runs_on_old_code() -> None:
    old = World(versioned(0)).play()
    assert replay(versioned(1), old.log) == len(old.by_place())
    # A run of the old code that goes on under the new uses the new one from there.
    half = World(versioned(0)).play(steps=1)
    resumed = World(versioned(1), log=half.log)
    resumed.play()
    recorded = [d for d in resumed.by_place().values() if isinstance(d, VersionRecorded)]
    assert recorded == [VersionRecorded(name="scoring", value=1)]
    assert replay(versioned(2), resumed.log) == len(resumed.by_place())


def test_divergence_names_event_field_and_both_values() -> None:
    world = World(Generational()).play()
    changed = Generational()
    changed.scale = 2.0
    with pytest.raises(DivergenceError) as caught:
        replay(changed, world.log)
    difference = caught.value.difference
    assert isinstance(difference, Difference)
    assert (difference.event, difference.n, difference.field) == ("rtest/1.1.1", 0, "data.seed")
    recorded = world.by_place()["1.1.1"].seed  # type: ignore[attr-defined]
    assert difference.recorded == recorded
    assert difference.recomputed in (2 * recorded, 2 * recorded + 1)


def test_one_changed_fact_diverges_at_the_decision_that_rests_on_it() -> None:
    world = World(Generational()).play()
    index, event = next((i, e) for i, e in enumerate(world.log) if e.kind == "proposal.made")
    altered = msgspec.structs.replace(event, data=msgspec.structs.replace(event.data, usd=event.data.usd + 1.0))  # type: ignore[union-attr]
    with pytest.raises(DivergenceError) as caught:
        replay(Generational(), [*world.log[:index], altered, *world.log[index + 1 :]])
    difference = caught.value.difference
    assert isinstance(difference, Difference)
    assert difference.field == "data.score"
    assert difference.recomputed == pytest.approx(difference.recorded + 1.0)


def test_one_changed_draw_diverges_at_its_decision() -> None:
    world = World(Generational()).play()
    other_seed = msgspec.structs.replace(world.log[0].data, seed=6)  # type: ignore[type-var]
    altered = msgspec.structs.replace(world.log[0], data=other_seed)
    with pytest.raises(DivergenceError) as caught:
        replay(Generational(), [altered, *world.log[1:]])
    assert caught.value.difference.field == "data.seed"  # type: ignore[attr-defined]


def test_a_recorded_decision_that_is_not_made_again_is_a_divergence() -> None:
    world = World(Generational(rounds=1)).play()
    extra = envelope(note("nobody", 0.0), "99", n=len(world.by_place()))
    with pytest.raises(DivergenceError, match="99"):
        replay(Generational(rounds=1), [*world.log, extra])


def test_holdout_readings_are_sealed() -> None:
    def holdout() -> ExecutionRequested:
        return ExecutionRequested(
            candidate="c",
            program=blob_of(b""),
            task="t",
            split="holdout",
            purpose="holdout",
            seed=1,
            limits=Limits(seconds=1.0),
        )

    async def peek(ctx: Context) -> None:
        await ctx.request(holdout())

    with pytest.raises(StrategyError, match="sealed"):
        World(Scripted(peek))


@pytest.mark.parametrize("misuse", ["sleep", "fact", "request as decision", "checkpoint in branch"])
def test_misuse_of_the_context_is_refused(misuse: str) -> None:
    import asyncio

    async def loop(ctx: Context) -> None:
        if misuse == "sleep":
            await asyncio.sleep(0)
        elif misuse == "fact":
            ctx.decide(RunStopped(reason="no"))
        elif misuse == "request as decision":
            ctx.decide(proposal(1))
        else:

            async def branch() -> None:
                ctx.checkpoint("here", Loop())

            await ctx.gather(branch)

    with pytest.raises(StrategyError):
        World(Scripted(loop))
