"""Real runs of real evolog processes, for tests: a small task, the command line, and what a run decided."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolog.events import Event, canonical
from evolog.infra.log import open_store

EVOLOG = (sys.executable, "-m", "evolog.infra.cli")

_RUN_FILE = """\
[run]
seed = {seed}

[task]
name = "hash"
direction = "maximize"
interface = "interface.py"
judge = "hash"

[task.splits]
search = "data.json"
holdout = "data.json"

[task.baselines]
zero = "zero.py"

[search]
individuals_per_generation = {generation}
max_island_size = 20
initial_temp = 0.2
final_temp = 0.05
max_debug_depth = 1

[proposer]
model = "builtin:mutate"

[workers]
evaluations = {evaluations}

[budget]
candidates = {candidates}
"""


def write_task(
    folder: Path, *, candidates: int = 40, generation: int = 6, seed: int = 5, evaluations: int = 2, more: str = ""
) -> Path:
    """A run file whose programs are scored by their digest: fast, and nothing but evolog itself is at work."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "interface.py").write_text('def f(x: float, y: float, up: bool) -> float:\n    """Anything."""\n')
    (folder / "zero.py").write_text("def f(x: float, y: float, up: bool) -> float:\n    return 0.0\n")
    (folder / "data.json").write_text("{}")
    file = folder / "run.toml"
    file.write_text(
        _RUN_FILE.format(candidates=candidates, generation=generation, seed=seed, evaluations=evaluations) + more
    )
    return file


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "EVOLOG_HOME": str(home)}


def evolog(
    home: Path, *arguments: str, timeout: float = 120.0, expect: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    done = subprocess.run(
        [*EVOLOG, *arguments], env=environment(home), capture_output=True, text=True, timeout=timeout, check=False
    )
    if expect is not None:
        assert done.returncode == expect, f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done


def start(home: Path, *arguments: str, command: Sequence[str] = EVOLOG) -> subprocess.Popen[str]:
    """Start a command and let it run."""
    return subprocess.Popen(
        [*command, *arguments],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str], *, timeout: float = 120.0) -> tuple[int, str, str]:
    """Wait for a started command: exit code, output, errors."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def events_of(home: Path, run: str = "latest") -> list[Event]:
    """All events of a run."""
    from evolog.infra.runs import resolve_run

    async def read() -> list[Event]:
        async with open_store(home) as store:
            name = await resolve_run(store.log, run)
            return [stored.event async for stored in store.log.read(name)]

    return asyncio.run(read())


def decisions_of(events: Sequence[Event]) -> dict[str, tuple[str, int, bytes]]:
    """What a run decided, place by place: kind, version and data. Time, writer and order do not count."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for event in events:
        if event.place is not None:
            assert event.place not in found, f"two decisions at {event.place}"
            found[event.place] = (event.kind, event.v, canonical(event.data))
    return found


def assert_equal_decisions(one: dict[str, Any], other: dict[str, Any]) -> None:
    for place in [*one, *other]:
        assert one.get(place) == other.get(place), f"the decisions at {place} differ"


def left_over(home: Path) -> list[str]:
    """Command lines of processes that still have to do with a data directory."""
    found = []
    mark = str(home).encode()
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        try:
            if b"Z" in (process / "stat").read_bytes().rpartition(b")")[2].split()[:1]:
                continue
            if mark in (process / "environ").read_bytes() or mark in (process / "cmdline").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def assert_nothing_left(home: Path, seconds: float = 15.0) -> None:
    import time

    until = time.monotonic() + seconds
    while found := left_over(home):
        assert time.monotonic() < until, f"processes left over: {found}"
        time.sleep(0.05)
