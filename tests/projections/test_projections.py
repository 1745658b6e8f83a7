"""Folds: pure, incremental, cut anywhere, deaf to repetition; outcomes add up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from evolog.events import Event, Unknown, decode, encode
from evolog.events.errors import RunError, UnknownKindError
from evolog.events.kinds import CandidateEvaluated, RunReconfigured
from evolog.projections import Projection, Views, fold, on
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from run_histories import BASELINES, History

histories = st.builds(
    History.whole,
    seed=st.integers(0, 10_000),
    generations=st.integers(0, 5),
    stopped=st.booleans(),
    mishaps=st.sampled_from((0.0, 0.3, 0.8)),
    direction=st.sampled_from(("maximize", "minimize")),
)


@given(history=histories, data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_fold_cut_dumped_and_loaded_is_the_fold_that_was_not_cut(history: History, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(history.events)))
    whole = Views().fold(history.events)
    before = Views().fold(history.events[:cut])
    after = Views()
    after.load(before.dump())
    assert after.digests() == before.digests()
    after.fold(history.events[cut:])
    assert after.digests() == whole.digests()
    assert after.dump() == whole.dump()


def test_every_cut_of_one_history_gives_the_same_views() -> None:
    events = History.whole(3, 3, mishaps=0.5).events
    whole = Views().fold(events).digests()
    at = Views()
    for cut, event in enumerate(events):
        rest = Views()
        rest.load(at.dump())
        assert rest.fold(events[cut:]).digests() == whole, f"cut before event {cut}"
        at.apply(event)


@given(history=histories)
@settings(max_examples=60, deadline=None)
def test_outcomes_add_up_to_the_attempts_at_every_event(history: History) -> None:
    views = Views()
    for event in history.events:
        views.apply(event)
        o = views.attempts.outcomes
        assert o.attempts == o.admitted + o.rejected + o.refused + o.failed + o.cancelled + o.open
    o = views.attempts.outcomes
    assert o.open == 0
    assert o.attempts == history.attempts
    assert {k: v for k, v in msgspec.to_builtins(o).items() if k not in ("attempts", "open") and v} == dict(
        history.outcomes
    )


@given(history=histories)
@settings(max_examples=60, deadline=None)
def test_repeated_facts_change_nothing(history: History) -> None:
    seen: set[str] = set()
    once = [e for e in history.events if not (e.id in seen or seen.add(e.id))]  # type: ignore[func-returns-value]
    repeated = [e for event in history.events for e in (event, event)]
    expected = Views().fold(once).digests()
    assert Views().fold(history.events).digests() == expected
    assert Views().fold(repeated).digests() == expected


@given(history=histories)
@settings(max_examples=40, deadline=None)
def test_the_views_say_what_happened(history: History) -> None:
    views = Views().fold(history.events)
    assert (views.archive.best.candidate if views.archive.best else None) == history.best
    assert set(views.archive.state.members) == set(history.members)
    members = views.archive.members()
    assert [m.score for m in members] == sorted((m.score for m in members), reverse=history.direction == "maximize")
    assert views.ledger.settled_usd == pytest.approx(history.usd)
    assert views.ledger.unsettled_usd == pytest.approx(history.unsettled_usd)
    assert views.ledger.charged_usd == pytest.approx(history.usd + history.unsettled_usd)
    assert views.ledger.reserved_usd == 0.0
    assert views.ledger.state.budget_usd == 1.5
    assert views.convergence.state.scored == len(history.scores)
    if history.scores:
        assert views.convergence.mean == pytest.approx(sum(history.scores.values()) / len(history.scores))
    floor = views.best.state.boards["jobshop/search/floor"]
    assert set(floor.baselines) == set(BASELINES)
    assert floor.best is None
    assert list(views.checkpoint.state.open.values()) == ["run.completed"]
    last = next((e for e in reversed(history.events) if e.kind == "run.checkpointed"), None)
    found = views.checkpoint.state.checkpoint
    assert (found.place if found else None) == (last.place if last else None)


def test_holdout_readings_are_named_and_never_ranked() -> None:
    history = History.whole(5, 4, mishaps=0.0)
    views = Views().fold(history.events)
    assert history.best is not None
    board = views.best.state.boards["jobshop/holdout/holdout"]
    assert board.best is None
    assert set(board.named) == {history.best}
    assert set(board.baselines) == set(BASELINES)
    search = views.best.state.boards["jobshop/search/search"]
    assert search.best is not None
    assert search.best.candidate == history.best


def test_the_first_result_wins_and_the_late_ones_are_charged() -> None:
    history = History(1, mishaps=0.0)
    history.start()
    place = "9.1.1"
    history.propose(place, "draft", ())
    before = Views().fold(history.events)
    usd = history.call(place, "late-attempt", 2)
    history.fact(history.trace(), place)
    after = Views().fold(history.events)
    assert after.attempts.digest() == before.attempts.digest()
    assert after.ledger.settled_usd == pytest.approx(before.ledger.settled_usd + usd)
    assert after.ledger.state.answered_usd == before.ledger.state.answered_usd


def test_a_stopped_run_counts_what_it_had_in_hand_as_cancelled() -> None:
    history = History(2, mishaps=0.0)
    history.start()
    history.run_generation(4)
    history.run_generation(5, cut=True)
    views = Views().fold(history.events)
    history.stop()
    assert Views().fold(history.events).lifecycle.state.status == "stopping"
    history.complete("stopped")
    after = Views().fold(history.events)
    assert after.attempts.outcomes.open == 0
    assert after.attempts.outcomes.cancelled == views.attempts.outcomes.cancelled + views.attempts.outcomes.open
    assert after.lifecycle.state.status == "stopped"


def test_the_time_between_a_kill_and_the_resume_is_not_counted_as_work() -> None:
    hour = 3_600_000_000_000
    history = History(2, mishaps=0.0)
    history.start()
    history.run_generation(3)
    working = Views().fold(history.events).lifecycle.state.active_ns
    history.clock_offset = hour
    history.resume()
    history.run_generation(3)
    state = Views().fold(history.events).lifecycle.state
    assert working < state.active_ns < hour
    assert (state.status, state.resumed) == ("running", 1)


def test_a_run_that_goes_on_after_its_end_is_running_again() -> None:
    history = History.whole(1, 2, mishaps=0.0)
    end = history.events[-1]
    history.fact(RunReconfigured(changes={"budget.usd": (1.5, 3.0)}, settings={"budget": {"usd": 3.0}}), end.place)
    views = Views().fold(history.events)
    assert views.lifecycle.state.status == "running"
    assert views.ledger.state.budget_usd == 3.0
    assert views.checkpoint.state.open == {}


def test_lineage_walks_back_to_the_drafts() -> None:
    history = History.whole(8, 5, mishaps=0.0)
    views = Views().fold(history.events)
    assert history.best is not None
    chain = views.lineage.ancestors(history.best)
    assert chain[0][:2] == (0, history.best)
    names = [name for _, name, _ in chain]
    assert len(names) == len(set(names))
    for _, _, descent in chain:
        assert descent is not None
        assert set(descent.parents) <= set(names)
    assert any(descent is not None and descent.operator == "draft" for _, _, descent in chain)


def test_events_of_another_run_are_refused() -> None:
    views = Views().fold(History.whole(1, 1, run="one-run").events)
    with pytest.raises(RunError, match=r"is of run two-run, these views are of one-run"):
        views.apply(History.whole(1, 1, run="two-run").events[0])


def test_a_view_refuses_an_event_that_it_rests_on_and_cannot_read() -> None:
    event = History.whole(1, 1).events[0]
    newer = msgspec.structs.replace(event, v=99, data=Unknown(raw=msgspec.Raw(b"{}")))
    with pytest.raises(UnknownKindError, match=r"run.started/99 is newer than this evolog.*upgrade"):
        Views().apply(newer)
    strange = msgspec.structs.replace(newer, kind="weather.changed", v=1)
    before = Views().digests()
    views = Views()
    views.apply(strange)
    assert views.digests() == before


def test_views_of_other_versions_do_not_load() -> None:
    class Other(Projection[msgspec.Struct]):
        NAME = "other"
        State = msgspec.defstruct("OtherState", [])

    dumped = Views([]).dump()
    with pytest.raises(ValueError, match="other/1"):
        Views([Other()]).load(dumped)


class _CountState(msgspec.Struct):
    evaluated: int = 0


class _Count(Projection[_CountState]):
    NAME = "count"
    VERSION = 4
    State = _CountState

    @on(CandidateEvaluated)
    def _evaluated(self, _: Event, __: CandidateEvaluated) -> None:
        self.state.evaluated += 1


def test_a_users_projection_is_folded_and_digested_beside_evologs_own() -> None:
    events = History.whole(1, 3).events
    count = _Count()
    views = Views([count]).fold(events)
    assert "count/4" in views.digests()
    assert count.state.evaluated == sum(e.kind == "candidate.evaluated" for e in events)
    alone = _Count()
    fold(events, [alone])
    assert alone.digest() == views.digests()["count/4"]


def test_views_rest_on_what_is_in_the_log_and_not_on_the_objects() -> None:
    events = History.whole(4, 3).events
    assert Views().fold(map(decode, map(encode, events))).digests() == Views().fold(events).digests()


def test_digests_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from run_histories import History\n"
        "from evolog.projections import Views\n"
        "print(sorted(Views().fold(History.whole(6, 4, mishaps=0.5).events).digests().items()))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    assert "archive/1" in outputs.pop()
