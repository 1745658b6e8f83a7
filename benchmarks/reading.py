"""Opening a run from the log alone, and what folding costs beside reading and decoding.

One run of 1,000 candidates is made (instant proposer, evaluator that hashes), then copied under other ids
until the log holds 100,000 events. Snapshots are not used.

    python -m benchmarks.reading [--events 100000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from evolog.consumers.search.program import ProgramEvolution
from evolog.events import Event
from evolog.events.kinds import RunCheckpointed
from evolog.infra.log import Store, open_store
from evolog.projections import Views
from evolog.replay import Course, Survey

from .throughput import measured_run, write_run_file

CANDIDATES = 1_000


def renamed(event: Event, run: str) -> Event:
    """The same event in another run."""

    def other(name: str) -> str:
        return f"{run}/{name.partition('/')[2]}"

    return msgspec.structs.replace(
        event, run=run, id=other(event.id), cause=tuple(other(cause) for cause in event.cause)
    )


async def fill(store: Store, run: str, events: int) -> list[str]:
    """Copy a run until the log holds so many events; ids of all runs."""
    original = [stored.event async for stored in store.log.read(run)]
    runs = [run]
    while (tip := await store.log.tip()) < events:
        copy = f"{run}-{len(runs)}"
        await store.log.append(*[renamed(event, copy) for event in original[: events - tip]])
        runs.append(copy)
    return runs


async def seconds(work: Callable[[], Awaitable[object]], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


async def measure(home: Path, run: str, events: int, rounds: int) -> None:
    async with open_store(home) as store:
        log = store.log

        async def open_views() -> None:
            views = Views()
            async for _, event in log.read(run):
                views.apply(event)

        async def take_over() -> None:
            history = [event async for _, event in log.read(run)]
            course = Course(ProgramEvolution(), history)
            for event in history:
                course.apply(event)

        async def resume() -> None:
            history = [event async for _, event in log.read(run)]
            survey = Survey(history)
            point = survey.takeover
            assert point is not None
            assert isinstance(point.event.data, RunCheckpointed)
            state = await store.blobs.get(point.event.data.state)
            course = Course(ProgramEvolution(), survey, (point, state))
            for event in history:
                course.apply(event)

        print(f"a run of {CANDIDATES} candidates, from the log alone (seconds, median of {rounds})")
        print(f"  its views, as 'evolog show' opens it              {await seconds(open_views, rounds):.3f}")
        print(f"  its search, as 'evolog resume' goes on            {await seconds(resume, rounds):.3f}")
        print(f"  its decisions recomputed, as 'evolog replay' does {await seconds(take_over, rounds):.3f}")

        await fill(store, run, events)

        async def read() -> None:
            async for _ in log.read():
                pass

        async def fold() -> None:
            views: dict[str, Views] = {}
            async for _, event in log.read():
                if event.run not in views:
                    views[event.run] = Views()
                views[event.run].apply(event)

        tip = await log.tip()
        # Alternating, so that whatever else the machine does meets both alike.
        pairs = [(await seconds(read, 1), await seconds(fold, 1)) for _ in range(rounds)]
        reading, folding = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(plain / folded for plain, folded in pairs)
        print(f"{tip} events (seconds, median of {rounds})")
        print(f"  read and decoded               {reading:.2f}  {tip / reading:>9.0f} per second")
        print(f"  and folded into all views      {folding:.2f}  {tip / folding:>9.0f} per second")
        print(f"  speed of the fold against reading alone: {ratio:.2f} (at least 0.5 is wanted)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evolog-bench-") as name:
        home = Path(name) / "home"
        file = write_run_file(Path(name), candidates=CANDIDATES)
        run, _ = asyncio.run(measured_run(home, file))
        asyncio.run(measure(home, run, args.events, args.rounds))


if __name__ == "__main__":
    main()
