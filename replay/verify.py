"""Replaying a run's views: folded again and compared with the digests that it recorded (design section 7)."""

from __future__ import annotations

import msgspec

from ..events import Event
from ..events.kinds import RunCompleted, ViewsDigested
from ..projections import Views


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


class ViewsCheck:
    """Folds the views as events are added, and compares them wherever the run recorded their digests.

    Parameters
    ----------
    to
        Last decision, by its ordinal, that is folded (default: all).
    """

    def __init__(self, to: int | None = None) -> None:
        self._to = to
        self._views = Views()
        self._at_completion: dict[str, dict[str, str]] = {}
        self._recorded_at: list[str] = []
        self._equal: set[str] = set()
        self._differing: set[str] = set()
        self._unknown: set[str] = set()
        self._folded = 0

    def add(self, event: Event) -> bool:
        """Take the next event; whether more are wanted."""
        if self._to is not None and event.n is not None and event.n > self._to:
            return False
        self._views.apply(event)
        self._folded += 1
        if isinstance(event.data, RunCompleted):
            self._at_completion[event.id] = self._views.digests()
        elif isinstance(event.data, ViewsDigested) and event.data.as_of in self._at_completion:
            self._compare(event.data)
        return True

    def _compare(self, recorded: ViewsDigested) -> None:
        computed = self._at_completion[recorded.as_of]
        self._recorded_at.append(recorded.as_of)
        for name, digest in recorded.views.items():
            if name not in computed:
                self._unknown.add(name)
            else:
                (self._equal if computed[name] == digest else self._differing).add(name)

    @property
    def verdict(self) -> ViewsVerdict:
        return ViewsVerdict(
            events=self._folded,
            computed=self._views.digests(),
            equal=tuple(sorted(self._equal - self._differing)),
            differing=tuple(sorted(self._differing)),
            unknown=tuple(sorted(self._unknown)),
            recorded_at=tuple(self._recorded_at),
        )
