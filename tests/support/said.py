"""Events for tests of the log: short to say, real in kind."""

from __future__ import annotations

import secrets

from evolog.events import Event, Writer
from evolog.events.kinds import RequestCancelled, RunPaused, RunStarted, TaskDigest
from evolog.infra.log import fact

BY = Writer(role="test", host="here", process=1, version="0")
OTHER = Writer(role="director", host="there", process=2, version="0")


def new_run() -> str:
    return f"t{secrets.token_hex(4)}"


def paused(run: str, name: str, reason: str = "a reason") -> Event:
    return fact(run, name, RunPaused(reason=reason), BY)


def started(run: str) -> Event:
    data = RunStarted(
        strategy="program",
        strategy_source="",
        settings={},
        seed=1,
        tasks=(TaskDigest(name="t", digest=""),),
        package="0",
        python="3",
        platform="p",
        sandbox="none",
    )
    return Event(
        kind=data.KIND, v=1, id=f"{run}/started", run=run, n=None, place=None, at=1, by=BY, cause=(), data=data
    )


def decision(run: str, n: int, *, by: Writer = BY, reason: str = "because") -> Event:
    data = RequestCancelled(request="0", reason=reason)
    return Event(kind=data.KIND, v=1, id=f"{run}/{n}", run=run, n=n, place=str(n), at=n, by=by, cause=(), data=data)
