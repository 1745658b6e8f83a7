"""Durable candidates per second and CPU per candidate of evolog and its nats-server.

The proposer is instant and the evaluator hashes a line in process, so that only evolog and its log are
measured. Every event is acknowledged by nats-server before its successor rests on it.

    python -m benchmarks.throughput [--candidates 10000] [--sync default|always]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from evolog.consumers.commands import strategy_settings
from evolog.consumers.proposing import Brief, Record, Store
from evolog.consumers.session import direct, interruptible
from evolog.events.kinds import ProposalMade, Sample
from evolog.infra.log import Stored, open_store, writer
from evolog.infra.server.home import Home
from evolog.infra.settings import load_run_file
from evolog.producers.start import start_run
from evolog.replay.plugins import register_plugin

WINDOW = 100
_TICKS = os.sysconf("SC_CLK_TCK")

_RUN_FILE = """\
[task]
name = "hash"
direction = "maximize"
interface = "interface.py"
judge = "hash"
[task.splits]
search = "data.json"
holdout = "data.json"
[search]
individuals_per_generation = {generation}
[proposer]
model = "instant:line"
[budget]
candidates = {candidates}
[log]
sync = "{sync}"
"""


class InstantProposer:
    """One line of program from the request's seed."""

    def __init__(self, argument: str, settings: Mapping[str, Any]) -> None:
        del argument, settings

    async def propose(self, brief: Brief, *, record: Record, store: Store) -> ProposalMade:
        del record
        source = f"x = {brief.request.seed}\n".encode()
        [program] = await store(source)
        return ProposalMade(samples=(Sample(program=program, normal=program.sha256),))


class Mark(NamedTuple):
    """Wall seconds and CPU seconds (evolog; nats-server and keeper) when so many candidates were decided."""

    candidates: int
    wall: float
    own: float
    server: float


def cpu_of(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def write_run_file(folder: Path, *, candidates: int, sync: str = "default", generation: int = 5) -> Path:
    (folder / "interface.py").write_text("def f(x: float) -> float: ...\n")
    (folder / "data.json").write_text("{}")
    file = folder / "run.toml"
    file.write_text(_RUN_FILE.format(candidates=candidates, sync=sync, generation=generation))
    return file


async def measured_run(home: Path, file: Path) -> tuple[str, list[Mark]]:
    """Run once; the run's id, and a mark before set-up, at the first request, and at every hundredth candidate."""
    register_plugin("proposers", "instant", InstantProposer)
    loaded = load_run_file(file, strategy_settings=strategy_settings)
    marks: list[Mark] = []
    decided = 0
    async with interruptible() as asked, open_store(home, sync=loaded.settings.log.sync) as store:
        content = Home(home).read()
        assert content is not None

        def mark() -> None:
            served = cpu_of(content.server) + cpu_of(content.keeper)
            marks.append(Mark(decided, time.perf_counter(), time.process_time(), served))

        def on_event(stored: Stored) -> None:
            nonlocal decided
            if len(marks) == 1:
                mark()
            if stored.event.kind in ("candidate.admitted", "candidate.rejected", "proposal.refused"):
                decided += 1
                if decided % WINDOW == 0:
                    mark()

        run = await start_run(
            store.log,
            store.blobs,
            loaded.settings,
            loaded.task,
            by=writer("bench"),
            strategy_source="",
            sandbox="none",
        )
        mark()
        await direct(store, run, {"proposing": 2, "evaluation": 2}, asked, home=None, on_event=on_event)
    return run, marks


def window_ending_at(marks: list[Mark], candidates: int) -> tuple[float, float, float]:
    """Candidates per second, and CPU milliseconds per candidate of evolog and of the server."""
    index = next(i for i, mark in enumerate(marks) if mark.candidates == candidates)
    end, begin = marks[index], marks[index - 1]
    count = end.candidates - begin.candidates
    return (
        count / (end.wall - begin.wall),
        1000 * (end.own - begin.own) / count,
        1000 * (end.server - begin.server) / count,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--sync", choices=("default", "always"), default="default")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="evolog-bench-") as name:
        folder = Path(name)
        file = write_run_file(folder, candidates=args.candidates, sync=args.sync)
        _, marks = asyncio.run(measured_run(folder / "home", file))
    before, begun = marks[:2]
    print(f"log.sync = {args.sync}; windows of {WINDOW} candidates")
    print(
        f"set-up of the process, once: {begun.wall - before.wall:.2f} s, "
        f"of which {begun.own - before.own:.2f} s CPU (mostly imports)"
    )
    print("candidates   per second   CPU ms each   of evolog   of nats-server   against the first")
    first = None
    for count in (100, 1_000, 10_000):
        if count > args.candidates:
            continue
        rate, own, server = window_ending_at(marks, count)
        first = first or rate
        print(f"{count:>10} {rate:>12.1f} {own + server:>13.2f} {own:>11.2f} {server:>16.2f} {first / rate:>19.2f}")


if __name__ == "__main__":
    main()
