"""All views of one run together: folded at once, digested for `views.digested`, dumped for snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import entry_points
from typing import Any

import msgspec

from ..events import Event, canonical
from ..events.errors import RunError
from .archive import Archive
from .attempts import Attempts
from .base import Projection
from .best import BestPerTask
from .checkpoint import SearchCheckpoint
from .convergence import Convergence
from .ledger import Ledger
from .lifecycle import Lifecycle
from .lineage import Lineage

_Apply = Callable[[Event], None]


class _Dumped(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    views: dict[str, msgspec.Raw]


@cache
def user_projections() -> tuple[type[Projection[Any]], ...]:
    """Projections that users registered under the entry point group ``evolog.projections``, by name."""
    points = sorted(entry_points(group="evolog.projections"), key=lambda point: point.name)
    return tuple(point.load() for point in points)


class Views:
    """evolog's own projections, and users' under `others`, over the events of one run.

    Parameters
    ----------
    others
        Projections beside evolog's own (default: those registered by entry point).

    Attributes
    ----------
    run
        The run that was folded (empty before the first event).
    """

    def __init__(self, others: Iterable[Projection[Any]] | None = None) -> None:
        self.run = ""
        self.lifecycle = Lifecycle()
        self.attempts = Attempts()
        self.archive = Archive()
        self.best = BestPerTask()
        self.checkpoint = SearchCheckpoint()
        self.lineage = Lineage()
        self.ledger = Ledger()
        self.convergence = Convergence()
        own: list[Projection[Any]] = [
            self.lifecycle,
            self.attempts,
            self.archive,
            self.best,
            self.checkpoint,
            self.lineage,
            self.ledger,
            self.convergence,
        ]
        if others is None:
            others = [projection() for projection in user_projections()]
        self.others = {projection.NAME: projection for projection in others}
        self._all = {projection.key: projection for projection in (*own, *self.others.values())}
        dispatch: dict[str, tuple[_Apply, ...]] = {}
        for projection in self._all.values():
            for kind in projection.handles:
                dispatch[kind] = (*dispatch.get(kind, ()), projection.apply)
        self._dispatch = dispatch

    def apply(self, event: Event) -> None:
        """Fold the next event of the run.

        Raises
        ------
        RunError
            If it belongs to another run.
        UnknownKindError
            If a view rests on an event that a newer evolog wrote.
        """
        if event.run != self.run:
            if self.run:
                raise RunError(f"event {event.id} is of run {event.run}, these views are of {self.run}")
            self.run = event.run
        handlers = self._dispatch.get(event.kind)
        if handlers is not None:
            for apply in handlers:
                apply(event)

    def fold(self, events: Iterable[Event]) -> Views:
        """Fold many events; returns itself."""
        for event in events:
            self.apply(event)
        return self

    def digests(self) -> dict[str, str]:
        """Digest of each view under ``name/version``, as `views.digested` carries them."""
        return {key: projection.digest() for key, projection in sorted(self._all.items())}

    @property
    def projections(self) -> tuple[Projection[Any], ...]:
        """All views, sorted by ``name/version``."""
        return tuple(self._all[key] for key in sorted(self._all))

    def dump(self) -> bytes:
        """Everything that `load` needs to go on from here."""
        return canonical(_Dumped(self.run, {key: msgspec.Raw(p.dump()) for key, p in self._all.items()}))

    def load(self, dumped: bytes | msgspec.Raw) -> None:
        """Go on from what views of the same versions dumped.

        Raises
        ------
        ValueError
            If the bytes are not that (`msgspec.MsgspecError` is one), or the versions are others.
            These views are of no use then.
        """
        found = msgspec.json.decode(dumped, type=_Dumped)
        if set(found.views) != set(self._all):
            raise ValueError(f"dumped were {sorted(found.views)}, wanted are {sorted(self._all)}")
        for key, projection in self._all.items():
            projection.load(found.views[key])
        self.run = found.run
