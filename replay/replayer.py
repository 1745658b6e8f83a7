"""Replaying a run's decisions and views offline (design section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ..events import Event
from ..events.errors import RunError
from ..events.kinds import RunStarted
from .course import Course
from .strategy import Strategy


class Replay(msgspec.Struct, frozen=True):
    """What a replay of decisions found: all `equal`, up to where the log ends.

    `ahead` counts decisions that the strategy makes next and the log does not hold yet; it is above
    zero only where a run was cut off.
    """

    equal: int
    ahead: int
    facts: int


class Replayer:
    """Recomputes a run's decisions from its recorded facts and compares each with the recorded one.

    Parameters
    ----------
    strategy_named
        Gives a fresh strategy for the name in `run.started`.
    """

    def __init__(self, strategy_named: Callable[[str], Strategy]) -> None:
        self._strategy_named = strategy_named

    def decisions(self, history: Iterable[Event], *, to: int | None = None) -> Replay:
        """Replay from zero to the decision with ordinal `to` (default: the last).

        Raises
        ------
        DivergenceError
            At the first decision that differs.
        RunError
            If the events do not begin a run.
        """
        events = list(history)
        course = Course(self._strategy_named(strategy_of(events)), events)
        facts = 0
        for event in events:
            if event.n is None:
                facts += 1
            elif to is not None and event.n > to:
                return Replay(course.checked, 0, facts)
            course.apply(event)
        return Replay(course.checked, len(course.pending), facts)


def strategy_of(events: Iterable[Event]) -> str:
    """The strategy's name in `run.started`.

    Raises
    ------
    RunError
        If there is none.
    """
    for event in events:
        if isinstance(event.data, RunStarted):
            return event.data.strategy
    raise RunError("these events hold no run.started: read the run from its first event")
