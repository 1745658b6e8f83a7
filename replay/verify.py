"""Replaying a whole run from its events, at the levels ``views`` and ``decisions`` (design section 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ..events import Event
from ..events.errors import RunError
from ..events.kinds import RunCompleted, ViewsDigested
from ..projections import Views
from .replayer import Replay, Replayer
from .strategy import Strategy


class ViewsVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of the views as recomputed, and how those that the run recorded compare.

    Attributes
    ----------
    computed
        By ``name/version``, as of the last event that was folded.
    equal, differing
        Recorded views that are, or are not, as recomputed at the event that they name.
    unknown
        Recorded views that this installation does not have.
    recorded_at
        Ids of the `run.completed` whose digests were compared (empty: the run recorded none).
    """

    events: int
    computed: dict[str, str]
    equal: tuple[str, ...]
    differing: tuple[str, ...]
    unknown: tuple[str, ...]
    recorded_at: tuple[str, ...]


def verify_views(events: Sequence[Event], *, to: int | None = None) -> ViewsVerdict:
    """Fold the views from the first event and compare them wherever the run recorded their digests.

    Parameters
    ----------
    to
        Last decision, by its ordinal, that is folded (default: all).
    """
    views = Views()
    at_completion: dict[str, dict[str, str]] = {}
    recorded_at: list[str] = []
    equal: set[str] = set()
    differing: set[str] = set()
    unknown: set[str] = set()
    folded = 0
    for event in events:
        if to is not None and event.n is not None and event.n > to:
            break
        views.apply(event)
        folded += 1
        if isinstance(event.data, RunCompleted):
            at_completion[event.id] = views.digests()
        elif isinstance(event.data, ViewsDigested) and event.data.as_of in at_completion:
            computed = at_completion[event.data.as_of]
            recorded_at.append(event.data.as_of)
            for name, digest in event.data.views.items():
                if name not in computed:
                    unknown.add(name)
                else:
                    (equal if computed[name] == digest else differing).add(name)
    return ViewsVerdict(
        events=folded,
        computed=views.digests(),
        equal=tuple(sorted(equal - differing)),
        differing=tuple(sorted(differing)),
        unknown=tuple(sorted(unknown)),
        recorded_at=tuple(recorded_at),
    )


def verify_decisions(
    events: Sequence[Event], strategy_named: Callable[[str], Strategy], *, to: int | None = None
) -> Replay:
    """Recompute the decisions from the recorded facts and compare each.

    Raises
    ------
    DivergenceError
        At the first decision that differs.
    RunError
        If the events are none of a run, or do not reach `to`.
    """
    decisions = sum(event.n is not None for event in events)
    if to is not None and not 0 <= to < max(decisions, 1):
        raise RunError(f"--to {to}: the run has the decisions 0 to {decisions - 1}")
    return Replayer(strategy_named).decisions(events, to=to)
