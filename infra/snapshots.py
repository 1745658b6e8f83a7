"""Snapshots of a run's views: files that save time and hold nothing that the log does not.

A snapshot is used only if it proves to be of this log: it carries the digest of the event that it
ends at, and reading goes on with that very event. Anything else (another log, other versions or
other code of a view, a damaged file) is as good as no snapshot, and the views are folded from the
first event. Deleting ``HOME/snapshots`` at any time changes no answer.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..events import canonical, check_run_id, encode
from ..projections import Projection, Views
from .log.port import Log, Stored

_log = logging.getLogger(__name__)
_HEAD = b"evolog-snapshot/1 "
#: A fold of fewer events is quicker than a file is worth.
WORTH_SAVING = 2_000


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: str
    seq: int
    event: str
    code: str
    views: msgspec.Raw


class Snapshot(NamedTuple):
    """Views as of the event at `seq`, whose digest is `event`."""

    seq: int
    event: str
    views: Views


class Snapshots:
    """The snapshot files of one data directory, one for each run.

    Parameters
    ----------
    home
        The data directory; files are kept in its folder ``snapshots``.
    views
        Makes the empty views that are dumped and loaded.
    """

    def __init__(self, home: Path, views: Callable[[], Views] = Views) -> None:
        self.folder = home / "snapshots"
        self._views = views

    def path(self, run: str) -> Path:
        return self.folder / f"{check_run_id(run)}.snapshot"

    def empty(self) -> Views:
        return self._views()

    def save(self, views: Views, at: Stored) -> bool:
        """Write the views as of `at`, whole or not at all.

        Returns
        -------
        bool
            Whether it was written. A full or read-only disk is no error here: nothing is lost.
        """
        body = canonical(
            _Body(
                run=views.run,
                seq=at.seq,
                event=_event_digest(at),
                code=_code_digest(views.projections),
                views=msgspec.Raw(views.dump()),
            )
        )
        target = self.path(views.run)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=self.folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_HEAD + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
                Path(name).replace(target)
            except OSError:
                with suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            _log.info("snapshot %s was not written: %s", target, error)
            return False
        return True

    def load(self, run: str) -> Snapshot | None:
        """The snapshot of a run, or None where there is none that this code can use."""
        path = self.path(run)
        try:
            head, _, body = path.read_bytes().partition(b"\n")
        except OSError:
            return None
        if head != _HEAD + hashlib.sha256(body).hexdigest().encode():
            _log.info("snapshot %s is damaged or of another format; it is not used", path)
            return None
        views = self._views()
        try:
            found = msgspec.json.decode(body, type=_Body)
            if found.run != run or found.code != _code_digest(views.projections):
                return None
            views.load(found.views)
        except ValueError:
            return None
        return Snapshot(found.seq, found.event, views)


async def read_views(
    log: Log, run: str, snapshots: Snapshots, *, until: int | None = None, save: bool = True
) -> tuple[Views, Stored | None]:
    """A run's views as of the event at sequence `until` (default: the newest), from a snapshot if one is of use.

    Parameters
    ----------
    save
        Whether to write a snapshot where many events had to be folded.

    Returns
    -------
    tuple
        The views, and the last event that they rest on (None: the run has no event there).

    Raises
    ------
    LogError
        If the log cannot be read.
    UnknownKindError
        If a view rests on an event that a newer evolog wrote.
    """
    snapshot = snapshots.load(run)
    if snapshot is not None and (until is None or snapshot.seq <= until):
        views, last, folded = snapshot.views, None, 0
        async for stored in log.read(run, start=snapshot.seq, until=until):
            if last is None:
                if stored.seq != snapshot.seq or _event_digest(stored) != snapshot.event:
                    break
            else:
                views.apply(stored.event)
                folded += 1
            last = stored
        if last is not None:
            if save and folded >= WORTH_SAVING:
                snapshots.save(views, last)
            return views, last
    views, last, folded = snapshots.empty(), None, 0
    async for stored in log.read(run, until=until):
        views.apply(stored.event)
        folded += 1
        last = stored
    if save and last is not None and folded >= WORTH_SAVING:
        snapshots.save(views, last)
    return views, last


def _event_digest(stored: Stored) -> str:
    return hashlib.sha256(encode(stored.event)).hexdigest()


def _code_digest(projections: Iterable[Projection[Any]]) -> str:
    """Digest of the modules that fold, so that changed code without a new version uses no old snapshot."""
    names = sorted({base.__module__ for p in projections for base in type(p).__mro__ if issubclass(base, Projection)})
    digest = hashlib.sha256()
    for name in names:
        digest.update(f"{name}\n".encode())
        source = getattr(sys.modules.get(name), "__file__", None)
        if source is not None:
            # A module in an archive has no file of its own; its version is all there is to go by.
            with suppress(OSError):
                digest.update(Path(source).read_bytes())
    return digest.hexdigest()
