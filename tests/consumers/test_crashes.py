"""Kill any process at any moment: nothing finished is lost, nothing is done twice (design rule 1)."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from evolog.events import Event
from evolog.infra.server.home import Home
from processes import alive
from runs import (
    assert_equal_decisions,
    assert_nothing_left,
    decisions_of,
    events_of,
    evolog,
    finish,
    start,
    write_task,
)

DIES_AT = (sys.executable, str(Path(__file__).parent.parent / "support" / "dies_at.py"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Decisions of the run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    evolog(folder / "home", "run", str(write_task(folder / "task", candidates=150)), "--quiet")
    return decisions_of(events_of(folder / "home"))


def run_id(home: Path, process: subprocess.Popen[str]) -> str:
    """The id that 'evolog run' says when the run is in the log."""
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line.startswith("run r"), line + process.stderr.read()
    return line.split()[1].rstrip(":")


def killed_at(home: Path, folder: Path, point: str, count: int) -> str:
    """A run that died at a named point (see ``dies_at.py``); its id."""
    process = start(home, point, str(count), "run", str(write_task(folder, candidates=150)), command=DIES_AT)
    run = run_id(home, process)
    assert finish(process)[0] == -signal.SIGKILL
    return run


def assert_done_once(events: list[Event]) -> None:
    """Every request has one result, and every attempt's result was appended once."""
    results = collections.Counter(
        event.cause[0] for event in events if event.kind in ("trace.recorded", "proposal.made", "request.failed")
    )
    assert set(results.values()) == {1}
    assert len({event.id for event in events}) == len(events)
    requested = {event.id for event in events if event.kind in ("proposal.requested", "execution.requested")}
    assert set(results) == requested


def test_killed_at_any_moment_a_run_ends_as_if_undisturbed(tmp_path: Path, whole: dict[str, Any]) -> None:
    home, random_ = tmp_path / "home", random.Random(20)
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=150)))
    run = run_id(home, process)
    victims = ["evolog", "evolog", "server", "keeper"]
    cuts: collections.Counter[str] = collections.Counter()
    while sum(cuts.values()) < 24:
        time.sleep(random_.uniform(0.0, 0.25))
        if process.poll() is not None:
            break
        victim = random_.choice(victims)
        content = Home(home).read()
        if victim == "evolog":
            process.kill()
        elif content is not None and content.state == "ready" and alive(content.server):
            os.kill(content.server if victim == "server" else content.keeper, signal.SIGKILL)
        else:
            continue
        cuts[victim] += 1
        if victim == "evolog":
            process.communicate()
            process = start(home, "resume", run)
            # Let it reach its work, so that cuts fall into a run and not only into starts.
            time.sleep(0.5 + random_.uniform(0.0, 0.3))
    code, _, errors = finish(process)
    assert code == 0, errors
    assert sum(cuts.values()) >= 20, f"the run ended after {cuts}: make it longer"
    events = events_of(home, run)
    assert_equal_decisions(whole, decisions_of(events))
    assert_done_once(events)
    evolog(home, "replay", run)
    evolog(home, "replay", run, "--level", "views")
    assert_nothing_left(home)


@pytest.mark.parametrize(
    ("point", "count"),
    [
        ("result-made", 1),
        ("result-made", 40),
        ("decision-sent", 1),
        ("decision-sent", 60),
        ("half-step", 1),
        ("half-step", 9),
        ("blob-stored", 2),
        ("blob-stored", 30),
        ("pointer-put", 1),
        ("pointer-put", 8),
    ],
)
def test_killed_at_a_named_point(tmp_path: Path, whole: dict[str, Any], point: str, count: int) -> None:
    home = tmp_path / "home"
    run = killed_at(home, tmp_path / "task", point, count)
    before = events_of(home, run)
    assert not any(event.kind == "run.completed" for event in before)
    evolog(home, "resume", run, "--quiet")
    events = events_of(home, run)
    assert [event.id for event in events[: len(before)]] == [event.id for event in before]
    assert_equal_decisions(whole, decisions_of(events))
    assert_done_once(events)
    assert_nothing_left(home)


def test_a_run_too_long_for_memory_is_taken_over_by_reading_it_twice(tmp_path: Path, whole: dict[str, Any]) -> None:
    home = tmp_path / "home"
    run = killed_at(home, tmp_path / "task", "result-made", 80)
    code = "import sys, evolog.consumers.director as d\nd._KEPT = 50\n"
    code += "from evolog.infra.cli import main\nsys.exit(main(sys.argv[1:]))\n"
    resumed = start(home, "resume", run, "--quiet", command=(sys.executable, "-c", code))
    assert finish(resumed)[0] == 0
    events = events_of(home, run)
    assert_equal_decisions(whole, decisions_of(events))
    assert_done_once(events)
    assert_nothing_left(home)


def test_two_runs_at_once_on_one_data_directory_do_not_meet(tmp_path: Path, whole: dict[str, Any]) -> None:
    home = tmp_path / "home"
    task = write_task(tmp_path / "task", candidates=150)
    processes = [start(home, "run", str(task)) for _ in range(2)]
    runs = [run_id(home, process) for process in processes]
    for process in processes:
        code, _, errors = finish(process)
        assert code == 0, errors
    for run in runs:
        events = events_of(home, run)
        assert_equal_decisions(whole, decisions_of(events))
        assert_done_once(events)
    assert_nothing_left(home)


def test_a_killed_worker_loses_nothing(tmp_path: Path, whole: dict[str, Any]) -> None:
    home = tmp_path / "home"
    worker = start(home, "worker", "--roles", "evaluation", "--slots", "2")
    assert worker.stderr is not None
    assert "worker: evaluation" in worker.stderr.readline()
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=150)))
    run = run_id(home, process)
    time.sleep(0.6)
    worker.kill()
    worker.communicate()
    assert finish(process)[0] == 0
    events = events_of(home, run)
    hosts = {event.by.process for event in events if event.kind == "trace.recorded"}
    assert len(hosts) == 2, "the worker did nothing before it was killed"
    assert_equal_decisions(whole, decisions_of(events))
    assert_done_once(events)
    assert_nothing_left(home)


@pytest.mark.parametrize("evaluations", [1, 4])
def test_how_much_is_in_flight_decides_nothing(tmp_path: Path, whole: dict[str, Any], evaluations: int) -> None:
    home = tmp_path / "home"
    file = write_task(tmp_path / "task", candidates=150, evaluations=evaluations)
    evolog(home, "run", str(file), "--quiet")
    found = decisions_of(events_of(home))
    assert_equal_decisions(whole, found)


def test_the_work_queue_can_be_purged_at_any_moment(tmp_path: Path, whole: dict[str, Any]) -> None:
    import asyncio

    from evolog.infra.log import open_store

    home = tmp_path / "home"
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=150)))
    run = run_id(home, process)

    async def purge() -> None:
        async with open_store(home) as store:
            async for stored in store.log.follow(run):
                if stored.event.kind == "execution.requested":
                    break
            for _ in range(3):
                await store.js.api("STREAM.PURGE.EVOLOG_WORK")
                await asyncio.sleep(0.2)

    asyncio.run(purge())
    code, _, errors = finish(process)
    assert code == 0, errors
    events = events_of(home, run)
    assert_equal_decisions(whole, decisions_of(events))
    assert_nothing_left(home)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interruption_ends_within_two_seconds_and_resume_goes_on(
    tmp_path: Path, whole: dict[str, Any], name: str
) -> None:
    home = tmp_path / "home"
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=150)))
    run = run_id(home, process)
    time.sleep(0.7)
    process.send_signal(getattr(signal, name))
    began = time.monotonic()
    code, _, errors = finish(process)
    # Two seconds are the promise; a busy machine may need longer to start and end processes.
    assert time.monotonic() - began < 4.0
    assert code == 130, errors
    assert f"'evolog resume {run}' goes on" in errors
    before = events_of(home, run)
    assert before[-1].kind == "run.paused"
    evolog(home, "resume", run, "--quiet")
    events = events_of(home, run)
    following = next(event for event in events[len(before) :] if event.n is not None)
    assert following.n == sum(event.n is not None for event in before)
    assert_equal_decisions(whole, decisions_of(events))
    assert_done_once(events)
    assert_nothing_left(home)


def test_a_second_director_is_refused_and_a_stalled_one_gives_way(tmp_path: Path, whole: dict[str, Any]) -> None:
    home = tmp_path / "home"
    first = start(home, "run", str(write_task(tmp_path / "task", candidates=150)))
    run = run_id(home, first)
    while sum(event.n is not None for event in events_of(home, run)) < 20:
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)
    refused = evolog(home, "resume", run, expect=1)
    assert f"is directed by process {first.pid}" in refused.stderr
    until = time.monotonic() + 60.0
    while (second := evolog(home, "resume", run, "--quiet", expect=None)).returncode != 0:
        assert "is directed by" in second.stderr
        assert time.monotonic() < until
        time.sleep(0.5)
    first.send_signal(signal.SIGCONT)
    code, _, errors = finish(first)
    assert code == 1
    assert "another director" in errors or "directs the run now" in errors
    events = events_of(home, run)
    assert_equal_decisions(whole, decisions_of(events))
    assert_nothing_left(home)


def test_a_finished_run_goes_on_with_a_larger_budget(tmp_path: Path) -> None:
    home = tmp_path / "home"
    evolog(home, "run", str(write_task(tmp_path / "task", candidates=20)), "--quiet")
    before = events_of(home)
    refused = evolog(home, "resume", "latest", expect=1)
    assert "--set budget.candidates=40" in refused.stderr
    done = evolog(home, "resume", "latest", "--set", "budget.candidates=40", "--json", "--quiet")
    summary = json.loads(done.stdout)
    assert summary["attempts"]["attempts"] == 40
    events = events_of(home)
    assert [event.id for event in events[: len(before)]] == [event.id for event in before]
    assert [event.kind for event in events].count("run.completed") == 2
    evolog(home, "replay", "latest")
    assert_nothing_left(home)


def test_a_stopped_run_ends_and_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=100_000)))
    run = run_id(home, process)
    time.sleep(0.5)
    stopped = evolog(home, "stop", run, "--reason", "enough")
    assert "stopped, enough" in stopped.stdout
    code, out, _ = finish(process)
    assert code == 0
    assert "stopped, enough" in out
    summary = json.loads(evolog(home, "show", run, "--json").stdout)
    assert summary["status"] == "stopped"
    assert summary["attempts"]["open"] == 0
    evolog(home, "replay", run)
    assert_nothing_left(home)


def test_a_run_that_no_director_has_is_stopped_by_the_command_itself(tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=100_000)))
    run = run_id(home, process)
    time.sleep(0.5)
    process.kill()
    process.communicate()
    stopped = evolog(home, "stop", run)
    assert "stopped by an operator" in stopped.stdout
    assert events_of(home, run)[-1].kind == "views.digested"
    again = evolog(home, "stop", run)
    assert "has ended already" in again.stdout
    assert_nothing_left(home)
