"""Runs that earlier versions recorded still read, replay and fold as they did.

The files under ``tests/data/golden`` are never written again: a change that breaks one of these tests
needs a new version of an event kind with an upcaster, `ctx.version`, or a new version of a view.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from evolog.events import Event, decode, encode
from evolog.replay import Course, Replayer, Survey
from evolog.replay.plugins import strategy_named
from evolog.replay.verify import ViewsCheck

GOLDEN = sorted((Path(__file__).parents[1] / "data" / "golden").glob("*.jsonl"))


def events_in(file: Path) -> list[Event]:
    return [decode(line) for line in file.read_bytes().splitlines()]


def test_there_are_golden_runs() -> None:
    assert {"mutate", "model"} <= {file.stem for file in GOLDEN}


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_golden_run_is_the_same_bytes_decisions_and_views(file: Path) -> None:
    events = events_in(file)
    assert [encode(event) for event in events] == file.read_bytes().splitlines()
    decided = sum(event.n is not None for event in events)
    replay = Replayer(strategy_named).decisions(events)
    assert (replay.equal, replay.ahead) == (decided, 0)
    check = ViewsCheck()
    for event in events:
        check.add(event)
    views = check.verdict
    assert list(views.recorded_at) == [event.id for event in events if event.kind == "run.completed"]
    assert not views.differing
    assert not views.unknown
    assert len(views.equal) >= 8


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.stem)
def test_a_golden_run_cut_anywhere_is_the_beginning_of_itself(file: Path) -> None:
    events = events_in(file)
    for cut in range(2, len(events), 23):
        course = Course(strategy_named("program"), events)
        for event in events[:cut]:
            course.apply(event)
        made = [(decision.place, decision.data) for decision in course.pending]
        # What is decided ahead of the cut is what the log holds next.
        following = {event.place: event.data for event in events[cut:] if event.n is not None}
        assert all(following[place] == data for place, data in made)


def test_a_golden_run_has_a_checkpoint_to_take_over_from() -> None:
    assert Survey(events_in(GOLDEN[0])).takeover is not None
