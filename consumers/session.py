"""A run at work in this process: its director, its hands, and how both end (design sections 5 and 6)."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from ..events.errors import ConflictError, LeaseHeldError, LogError, LogFullError
from ..events.kinds import RunCompleted, RunPaused
from ..infra.log import SharedRates, Store, Stored, fact, writer
from ..infra.models.limiter import shared_tokens
from ..infra.tasks import cancel
from ..replay.plugins import strategy_named
from .answering import Answerer
from .director import Director, record_views
from .worker import Hands, working
from .workshop import Workshop

#: Free bytes of the data directory's disk below which a run pauses, and seconds between two looks.
LOW_DISK_BYTES = 200 * 1024 * 1024
_LOOK_SECONDS = 5.0
#: Seconds for saying goodbye to a server after an interruption.
_GOODBYE_SECONDS = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818 (not an error: an operator's wish)
    """The process was asked to end: `signal` is by which signal's name."""

    def __init__(self, name: str) -> None:
        self.signal = name
        super().__init__(f"interrupted by {name}")


@asynccontextmanager
async def interruptible() -> AsyncIterator[asyncio.Future[str]]:
    """A future that gets the name of the first signal that asks this process to end; the second one kills it."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[str] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if not asked.done():
            asked.set_result(number.name)
            for one in _SIGNALS:
                loop.remove_signal_handler(one)
                signal.signal(one, signal.SIG_DFL)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield asked
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def unless_interrupted(asked: asyncio.Future[str], work: Coroutine[Any, Any, Any]) -> Any:
    """The result of `work`, which is cancelled when a signal comes.

    Raises
    ------
    Interrupted
        If it was.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Interrupted(asked.result())
        return task.result()
    finally:
        # Never longer than a user would wait: what does not end is killed with this process.
        await cancel(task, seconds=_GOODBYE_SECONDS)


class Team(NamedTuple):
    """The hands of one process and what they share."""

    workshop: Workshop
    hands: Hands


@asynccontextmanager
async def team(store: Store, slots: Mapping[str, int]) -> AsyncIterator[Team]:
    """Answer requests of the store's runs in this process while inside; `slots` by role."""
    workshop = Workshop(store.log)
    answerers = {
        role: Answerer(
            store.log,
            store.blobs,
            proposer_for=workshop.proposer_for,
            evaluator_for=workshop.evaluator_for,
            role=role,
        )
        for role in slots
    }
    hands = Hands(answerers)
    try:
        with shared_tokens(SharedRates(store.js).tokens):
            async with working(store.address.full, hands, slots):
                yield Team(workshop, hands)
    finally:
        await workshop.close()


async def direct(
    store: Store,
    run: str,
    slots: Mapping[str, int],
    asked: asyncio.Future[str],
    *,
    home: Path | None,
    on_event: Callable[[Stored], None] | None = None,
) -> RunCompleted:
    """Direct a run to its end with hands of this process.

    Parameters
    ----------
    slots
        How many requests of each role are answered here at once (empty: other processes do).
    asked
        See `interruptible`.
    home
        Data directory whose disk is watched (None: the server is elsewhere).

    Raises
    ------
    Interrupted
        If a signal came. The run is paused, and says so in the log.
    LeaseHeldError, ConflictError
        If another director has the run.
    EvologError
        As `Director.direct` has it.
    """
    async with store.leased(run) as lease:
        completed: RunCompleted | None = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                if slots:
                    await stack.enter_async_context(team(store, slots))
                director = Director(store.log, store.blobs, store.work, run, strategy_named, on_event=on_event)
                watching = asyncio.create_task(_watch(lease.lost, run, home))
                directing = asyncio.create_task(director.direct())
                completed = await unless_interrupted(asked, _first(directing, watching))
        except Interrupted as interrupted:
            await _pause(store, run, str(interrupted))
            raise
        except (ConflictError, LeaseHeldError):
            raise
        except LogFullError as error:
            await _pause(store, run, str(error))
            raise
        await record_views(store.log, run)
    return completed


async def _first(directing: asyncio.Task[RunCompleted], watching: asyncio.Task[None]) -> RunCompleted:
    """The director's result; the watcher ends only by raising."""
    tasks: set[asyncio.Task[Any]] = {directing, watching}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            watching.result()
        return directing.result()
    finally:
        await cancel(*tasks)


async def _watch(lost: asyncio.Event, run: str, home: Path | None) -> None:
    """Raise when the lease is lost or the disk is nearly full."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await lost.wait()
            raise LeaseHeldError(
                f"run {run}: another director has taken the run over; 'evolog tail {run}' follows it"
            )
        if home is not None:
            free = shutil.disk_usage(home).free
            if free < LOW_DISK_BYTES:
                raise LogFullError(
                    f"the disk of {home} has {free // 2**20} MiB left, less than {LOW_DISK_BYTES // 2**20}: "
                    f"run {run} is paused. Make room, then 'evolog resume {run}'"
                )


async def _pause(store: Store, run: str, reason: str) -> None:
    """Say in the log that the run rests, and take its pointers out of the queue, if there is time."""
    with suppress(TimeoutError, LogError):
        async with asyncio.timeout(_GOODBYE_SECONDS):
            paused = fact(run, f"op-paused-{secrets.token_hex(4)}", RunPaused(reason=reason), writer("operator"))
            await store.log.append(paused)
            await store.work.purge(run)
