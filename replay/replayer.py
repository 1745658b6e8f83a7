"""Replaying a run's decisions and views offline (design section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ..events import Event
from ..events.errors import RunError
from .course import Course, Survey
from .strategy import Strategy


class Replay(msgspec.Struct, frozen=True):
    """What a replay of decisions found: all `equal`, up to where the log ends.

    `ahead` counts decisions that the strategy makes next and the log does not hold yet; it is above
    zero only where a run was cut off.
    """

    equal: int
    ahead: int
    facts: int


class DecisionReplay:
    """Recomputes a run's decisions as its events are added, in log order, and compares each.

    Parameters
    ----------
    survey
        Of all events of the run.
    strategy_named
        Gives a fresh strategy for the name in `run.started`.
    to
        Ordinal of the last decision that is compared (default: all).

    Raises
    ------
    RunError
        If the events do not begin a run, or do not reach `to`.
    """

    def __init__(self, survey: Survey, strategy_named: Callable[[str], Strategy], *, to: int | None = None) -> None:
        if survey.strategy is None:
            raise RunError("these events hold no run.started: read the run from its first event")
        if to is not None and not 0 <= to < max(survey.decisions, 1):
            raise RunError(f"--to {to}: the run has the decisions 0 to {survey.decisions - 1}")
        self._course = Course(strategy_named(survey.strategy), survey)
        self._to = to
        self._facts = 0
        self._done = False

    def add(self, event: Event) -> bool:
        """Take the next event; whether more are wanted.

        Raises
        ------
        DivergenceError
            At the first decision that differs.
        """
        if event.n is None:
            self._facts += 1
        elif self._to is not None and event.n > self._to:
            self._done = True
            return False
        self._course.apply(event)
        return True

    @property
    def result(self) -> Replay:
        return Replay(self._course.checked, 0 if self._done else len(self._course.pending), self._facts)


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
            If the events do not begin a run, or do not reach `to`.
        """
        events = list(history)
        replay = DecisionReplay(Survey(events), self._strategy_named, to=to)
        for event in events:
            if not replay.add(event):
                break
        return replay.result
