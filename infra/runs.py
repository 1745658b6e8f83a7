"""Runs by name, and what can be said of one in a line."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ..events import Direction
from ..events.errors import RunError
from ..events.kinds import RunReconfigured, RunStarted
from ..projections import Outcomes, Views
from .log.port import Log
from .snapshots import Snapshots, read_views

LATEST = "latest"
_LISTED = 8


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One run in short.

    Attributes
    ----------
    status, reason
        As `evolog.projections.Lifecycle` knows them.
    best, score
        The best candidate ever admitted and its search score.
    started_at, last_at
        Nanoseconds since the Unix epoch, UTC; `last_at` is that of its newest event.
    active_seconds
        Time at work, without pauses.
    usd
        What it has cost or may have cost.
    seq
        Sequence of the newest event that this rests on.
    """

    run: str
    status: str
    reason: str
    strategy: str
    seed: int
    tasks: tuple[str, ...]
    direction: Direction
    attempts: Outcomes
    best: str | None
    score: float | None
    usd: float
    started_at: int
    last_at: int
    active_seconds: float
    seq: int


async def runs_by_age(log: Log) -> list[str]:
    """Ids of all runs, the one started last at the end."""
    names = sorted(await log.runs())
    started = await asyncio.gather(*(log.last(name, kind=RunStarted.KIND) for name in names))
    ages = {name: stored.seq if stored is not None else 0 for name, stored in zip(names, started, strict=True)}
    return sorted(names, key=lambda name: (ages[name], name))


async def resolve_run(log: Log, name: str) -> str:
    """The id of the run that `name` means: an id, a unique beginning of one, or ``latest``.

    Raises
    ------
    RunError
        If there is none, or there are several.
    """
    if name == LATEST:
        runs = await runs_by_age(log)
        if not runs:
            raise RunError("there is no run in this log yet: start one with 'evolog run FILE'")
        return runs[-1]
    runs = sorted(await log.runs())
    if name in runs:
        return name
    found = [run for run in runs if name and run.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise RunError(f"run {name!r} is ambiguous, it could be {_listed(found)}: type more of its id")
    if not runs:
        raise RunError(f"run {name!r} does not exist, this log has none: start one with 'evolog run FILE'")
    raise RunError(f"run {name!r} does not exist, there are {_listed(runs)}; 'evolog ls' lists them")


def _listed(runs: list[str]) -> str:
    rest = len(runs) - _LISTED
    return ", ".join(runs[:_LISTED]) + (f" and {rest} more" if rest > 0 else "")


async def read_summary(log: Log, run: str, snapshots: Snapshots) -> tuple[RunSummary, Views]:
    """What is known of a run as of its newest event.

    Raises
    ------
    RunError
        If the run has no events.
    LogError
        If the log cannot be read.
    """
    views, last = await read_views(log, run, snapshots)
    if last is None:
        raise RunError(f"run {run!r} has no events; 'evolog ls' lists the runs")
    return summary(views, seq=last.seq, last_at=last.event.at), views


def summary(views: Views, *, seq: int, last_at: int) -> RunSummary:
    """What folded views say in short; `last_at` is the time of the event at `seq`."""
    life, best = views.lifecycle.state, views.archive.best
    return RunSummary(
        run=views.run,
        status=life.status,
        reason=life.reason,
        strategy=life.strategy,
        seed=life.seed,
        tasks=life.tasks,
        direction=views.archive.state.direction,
        attempts=views.attempts.outcomes,
        best=best.candidate if best else None,
        score=best.score if best else None,
        usd=views.ledger.charged_usd,
        started_at=life.started_at,
        last_at=last_at,
        active_seconds=life.active_ns / 1e9,
        seq=seq,
    )


async def effective_settings(log: Log, run: str) -> tuple[RunStarted, dict[str, Any]]:
    """How a run was started, and its settings as an operator changed them last.

    Raises
    ------
    RunError
        If the run has no `run.started`.
    """
    started = await log.last(run, kind=RunStarted.KIND)
    if started is None or not isinstance(started.event.data, RunStarted):
        raise RunError(f"run {run!r} has no run.started: its log does not begin at its beginning")
    changed = await log.last(run, kind=RunReconfigured.KIND)
    if changed is not None and isinstance(changed.event.data, RunReconfigured):
        return started.event.data, changed.event.data.settings
    return started.event.data, started.event.data.settings
