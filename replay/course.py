"""The course of one run: facts drive the strategy, recorded decisions are compared with recomputed ones.

Run, resume, takeover, replay and fork all go through `Course`: live, what is left over after the
recorded decisions is what a director appends next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from ..events import Event
from ..events.errors import DivergenceError
from ..events.kinds import RunCheckpointed, RunReconfigured, RunStarted, VersionRecorded
from .runtime import Decision, Recorded, Runtime
from .strategy import Strategy

_ABSENT = "(absent)"


class Difference(msgspec.Struct, frozen=True):
    """Where a recomputed decision is not the recorded one.

    Attributes
    ----------
    event
        Id of the recorded event, or of the one that is missing.
    n
        Ordinal of the decision.
    field
        Dotted path of the first field that differs: ``data.mean``, ``place``, ``kind``.
    recorded, recomputed
        The two values as plain JSON values; "(absent)" where one side has none.
    """

    event: str
    n: int
    kind: str
    field: str
    recorded: Any
    recomputed: Any

    def __str__(self) -> str:
        return (
            f"decision {self.n} ({self.kind}, event {self.event}) differs in {self.field}: "
            f"recorded {_short(self.recorded)}, recomputed {_short(self.recomputed)}"
        )


def divergence(difference: Difference) -> DivergenceError:
    """The error for a difference, with what to do next."""
    return DivergenceError(
        f"{difference}. The strategy's code, a policy, a fact or a draw has changed since: replay with the "
        "package version named in run.started, or fork the run",
        difference,
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}... ({len(text)} characters)"


def first_difference(path: str, recorded: Any, recomputed: Any) -> tuple[str, Any, Any] | None:
    """The first path at which two plain JSON values differ, with both values there."""
    if isinstance(recorded, dict) and isinstance(recomputed, dict):
        for key in sorted({*recorded, *recomputed}):
            found = first_difference(f"{path}.{key}", recorded.get(key, _ABSENT), recomputed.get(key, _ABSENT))
            if found is not None:
                return found
        return None
    if isinstance(recorded, list) and isinstance(recomputed, list):
        for index in range(max(len(recorded), len(recomputed))):
            left = recorded[index] if index < len(recorded) else _ABSENT
            right = recomputed[index] if index < len(recomputed) else _ABSENT
            found = first_difference(f"{path}[{index}]", left, right)
            if found is not None:
                return found
        return None
    same = type(recorded) is type(recomputed) and recorded == recomputed
    return None if same else (path, recorded, recomputed)


def compare(recorded: Event, recomputed: Decision) -> Difference | None:
    """None if the two are equal: kind, version, place and data; time, writer and order are not compared."""
    data = recomputed.data
    if recorded.place == recomputed.place and recorded.data == data:
        return None
    for field, left, right in (
        ("kind", recorded.kind, data.KIND),
        ("place", recorded.place, recomputed.place),
        ("v", recorded.v, data.VERSION),
    ):
        if left != right:
            return Difference(recorded.id, recomputed.n, recorded.kind, field, left, right)
    found = first_difference("data", msgspec.to_builtins(recorded.data), msgspec.to_builtins(data))
    if found is None:
        return None
    return Difference(recorded.id, recomputed.n, recorded.kind, *found)


class TakeoverPoint(msgspec.Struct, frozen=True):
    """A checkpoint to start from: its event, the strategy's time there, the settings if changed by then."""

    event: Event
    now: int
    settings: dict[str, Any] | None


class Survey:
    """What must be known of a run's events before they are replayed: one pass over them, which keeps none.

    Attributes
    ----------
    strategy
        The strategy's name (None: no `run.started` was met).
    decisions
        How many there are.
    takeover
        The newest checkpoint from which a director can go on, or None.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.strategy: str | None = None
        self.decisions = 0
        self.takeover: TakeoverPoint | None = None
        self._versions: dict[str, tuple[str, int]] = {}
        self._times: dict[str, int] = {}
        self._settings: dict[str, Any] | None = None
        self._settings_at: dict[str, dict[str, Any]] = {}
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Take the next event of the run."""
        data = event.data
        if event.n is None:
            if isinstance(data, RunStarted):
                self.strategy = self.strategy or data.strategy
            elif isinstance(data, RunReconfigured):
                self._settings = data.settings
            self._times[event.id] = event.at
            if self._settings is not None:
                self._settings_at[event.id] = self._settings
            return
        self.decisions += 1
        if isinstance(data, VersionRecorded):
            assert event.place is not None
            self._versions[event.place] = (data.name, data.value)
        elif isinstance(data, RunCheckpointed):
            trigger, latest = event.cause
            self.takeover = TakeoverPoint(event, self._times[latest], self._settings_at.get(trigger))

    @property
    def recorded(self) -> Recorded:
        return Recorded(self.decisions, self._versions)


class Course:
    """Feeds a run's events to its strategy, in log order, and compares decisions.

    Parameters
    ----------
    strategy
        A fresh strategy object.
    known
        A survey of the events already in the log, or the events themselves; they are still to be
        fed through `apply`.
    checkpoint
        Start there instead of at the beginning (see `Survey.takeover`), with its state blob.

    Attributes
    ----------
    pending
        Decisions recomputed and not recorded: what a director appends next.
    checked
        How many recorded decisions were found equal.
    """

    def __init__(
        self,
        strategy: Strategy,
        known: Survey | Iterable[Event] = (),
        checkpoint: tuple[TakeoverPoint, bytes] | None = None,
    ) -> None:
        survey = known if isinstance(known, Survey) else Survey(known)
        self.runtime = Runtime(strategy, survey.recorded)
        self.pending: deque[Decision] = deque()
        self.checked = 0
        self.run: str | None = None
        self._skip_facts_through: str | None = None
        self._skip_decisions_below = 0
        if checkpoint is not None:
            point, state = checkpoint
            self.runtime.start_from(point.event, state, now=point.now, settings=point.settings)
            self._skip_facts_through = point.event.cause[0]
            assert point.event.n is not None
            self._skip_decisions_below = point.event.n + 1

    def apply(self, event: Event) -> None:
        """Take the next event of the run.

        Raises
        ------
        DivergenceError
            If a recorded decision is not what the strategy decides.
        StrategyError
            If the strategy did what it must not.
        """
        self.run = event.run
        if event.n is None:
            self._fact(event)
        elif event.n >= self._skip_decisions_below:
            self._decision(event)

    def _fact(self, event: Event) -> None:
        skipping = self._skip_facts_through is not None
        if skipping and event.id == self._skip_facts_through:
            self._skip_facts_through = None
        if skipping and event.kind not in ("run.started", "task.registered"):
            return
        self.pending.extend(self.runtime.feed(event))

    def _decision(self, event: Event) -> None:
        if not self.pending:
            raise divergence(Difference(event.id, event.n or 0, event.kind, "kind", event.kind, _ABSENT))
        difference = compare(event, self.pending[0])
        if difference is not None:
            raise divergence(difference)
        self.pending.popleft()
        self.checked += 1
