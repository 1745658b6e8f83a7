"""One changed policy constant, fact or draw: exit 3 and the exact field, through the command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from evolog.events import Event
from evolog.infra.log import open_store
from runs import environment, events_of, evolog, write_task


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("divergence")
    evolog(folder / "home", "run", str(write_task(folder / "task")), "--quiet")
    return folder / "home"


def copied(home: Path, name: str, change: Callable[[Event], Event]) -> str:
    """A copy of the run under another id, with changed events: the log itself cannot be changed."""

    def renamed(event: Event) -> Event:
        def other(identity: str) -> str:
            return f"{name}/{identity.partition('/')[2]}"

        causes = tuple(other(cause) for cause in event.cause)
        return msgspec.structs.replace(event, run=name, id=other(event.id), cause=causes)

    events = [renamed(change(event)) for event in events_of(home, "r")]

    async def append() -> None:
        async with open_store(home) as store:
            await store.log.append(*events)

    asyncio.run(append())
    return name


def replayed(home: Path, run: str, expect: int) -> dict[str, Any]:
    out = evolog(home, "replay", run, "--level", "decisions", "--json", expect=expect)
    found: dict[str, Any] = json.loads(out.stdout)
    return found


def test_an_unchanged_copy_replays_equal(done: Path) -> None:
    replayed(done, copied(done, "copy-same", lambda event: event), 0)


def test_one_changed_fact_is_named_with_its_field_and_both_values(done: Path) -> None:
    changed: list[Event] = []

    def change(event: Event) -> Event:
        if event.kind == "trace.recorded" and len(changed) < 9:
            changed.append(event)
            if len(changed) == 9:
                data: Any = event.data
                reading = msgspec.structs.replace(data.reading, score=0.123)
                return msgspec.structs.replace(event, data=msgspec.structs.replace(data, reading=reading))
        return event

    run = copied(done, "copy-fact", change)
    out = evolog(done, "replay", run, "--level", "decisions", expect=3)
    said = out.stdout + out.stderr
    assert "(candidate.evaluated, event copy-fact/" in said
    assert "differs in data.mean: recorded 0." in said
    assert "recomputed 0.123" in said


def test_one_changed_draw_is_named(done: Path) -> None:
    def change(event: Event) -> Event:
        if event.kind == "proposal.requested" and event.place == "3.1.1":
            return msgspec.structs.replace(event, data=msgspec.structs.replace(event.data, seed=7))  # type: ignore[type-var]
        return event

    places = [event.place for event in events_of(done) if event.kind == "proposal.requested"]
    assert "3.1.1" in places, f"proposals are at {places[:4]}"
    run = copied(done, "copy-draw", change)
    out = evolog(done, "replay", run, "--level", "decisions", expect=3)
    said = out.stdout + out.stderr
    assert f"event {run}/3.1.1" in said
    assert "differs in data.seed: recorded 7" in said


def test_one_changed_policy_constant_is_named(done: Path) -> None:
    """The code changes, not the log: rejection with a threshold that is a hundredth stricter."""
    code = (
        "import sys\n"
        "from evolog.consumers.search import policies\n"
        "mean = policies.island_mean\n"
        "policies.island_mean = lambda scores: None if mean(scores) is None else 1.01 * mean(scores)\n"
        "from evolog.infra.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    command = [sys.executable, "-c", code, "replay", "r", "--level", "decisions"]
    out = subprocess.run(command, env=environment(done), capture_output=True, text=True, check=False)
    assert out.returncode == 3, out.stdout + out.stderr
    said = out.stdout + out.stderr
    assert "differs in data.threshold: recorded 0." in said
    assert "recomputed 0." in said


def test_views_that_were_recorded_otherwise_are_a_divergence(done: Path) -> None:
    def change(event: Event) -> Event:
        if event.kind == "views.digested":
            data: Any = event.data
            views, as_of = {**data.views, "archive/1": "0" * 64}, f"copy-views/{data.as_of.partition('/')[2]}"
            return msgspec.structs.replace(event, data=msgspec.structs.replace(data, views=views, as_of=as_of))
        return event

    run = copied(done, "copy-views", change)
    out = evolog(done, "replay", run, "--level", "views", expect=3)
    assert "archive/1" in out.stdout + out.stderr


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_any_hash_seed_replays_equal(done: Path, seed: str) -> None:
    command = [sys.executable, "-m", "evolog.infra.cli", "replay", "copy-same", "--level", "decisions"]
    environment_ = {**os.environ, **environment(done), "PYTHONHASHSEED": seed}
    assert subprocess.run(command, env=environment_, capture_output=True, check=False).returncode == 0
