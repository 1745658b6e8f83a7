"""The command line as a user meets it: right input, wrong input, and what is printed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from runs import EVOLOG, assert_nothing_left, environment, events_of, evolog, finish, start, write_task

ROOT = Path(__file__).parents[2]
JOBSHOP = ROOT / "examples" / "jobshop" / "run.toml"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of one completed run of 40 candidates."""
    folder = tmp_path_factory.mktemp("done")
    evolog(folder / "home", "run", str(write_task(folder / "task")), "--quiet")
    return folder / "home"


# A run, and what is told of it.


def test_a_run_reports_what_it_found_and_what_to_type_next(tmp_path: Path) -> None:
    out = evolog(tmp_path / "home", "run", str(write_task(tmp_path / "task")))
    run = out.stderr.split()[1].rstrip(":")
    assert f"run {run}: completed, budget.candidates = 40 reached" in out.stdout
    assert "def f(x: float, y: float, up: bool)" in out.stdout
    assert "score (maximize)" in out.stdout
    assert {line.split()[0] for line in out.stdout.splitlines() if line.startswith(("best ", "zero "))} >= {
        "best",
        "zero",
    }
    for command in ("show", "tail", "replay"):
        assert f"evolog {command} {run}" in out.stdout
    assert "decisions and" in out.stdout
    assert "are equal" in out.stdout
    progress = out.stderr.splitlines()[-1]
    for part in ("40/40 candidates", "admitted", "best 0.", "/s", "left", "$0.0000"):
        assert part in progress


def test_attempts_by_outcome_add_up_in_every_place_that_tells_them(done: Path) -> None:
    counts = json.loads(evolog(done, "show", "latest", "--json").stdout)["attempts"]
    total = counts.pop("attempts")
    assert total == sum(counts.values()) == 40
    assert counts["open"] == 0
    completed = next(event.data for event in events_of(done) if event.kind == "run.completed")
    assert sum(completed.attempts.values()) == 40  # type: ignore[union-attr]
    assert all(counts[name] == number for name, number in completed.attempts.items())  # type: ignore[union-attr]


@pytest.mark.parametrize("view", ["summary", "archive", "best", "lineage", "budget", "models", "timeline"])
def test_every_view_is_shown_as_text_and_as_json(done: Path, view: str) -> None:
    assert evolog(done, "show", "latest", view).stdout.strip()
    json.loads(evolog(done, "show", "latest", view, "--json").stdout)


def test_ls_lists_runs_by_age(done: Path) -> None:
    [row] = json.loads(evolog(done, "ls", "--json").stdout)
    assert (row["status"], row["attempts"]["attempts"], row["seed"]) == ("completed", 40, 5)
    assert row["run"] in evolog(done, "ls").stdout
    # A unique beginning names a run too.
    assert json.loads(evolog(done, "show", row["run"][:4], "--json").stdout)["run"] == row["run"]


def test_tail_reads_from_any_position_and_filters(done: Path) -> None:
    lines = [json.loads(line) for line in evolog(done, "tail", "latest", "--no-follow", "--json").stdout.splitlines()]
    events = events_of(done)
    assert [line["event"]["id"] for line in lines] == [event.id for event in events]
    from_there = evolog(done, "tail", "latest", "--no-follow", "--json", "--from", str(lines[10]["seq"]))
    assert [json.loads(line) for line in from_there.stdout.splitlines()] == lines[10:]
    wanted = evolog(done, "tail", "--no-follow", "--json", "--kind", "candidate.*", "--kind", "run.completed")
    kinds = {json.loads(line)["event"]["kind"] for line in wanted.stdout.splitlines()}
    assert "run.completed" in kinds
    assert all(kind.startswith("candidate.") for kind in kinds - {"run.completed"})


def test_tail_follows_a_run_live(tmp_path: Path) -> None:
    home = tmp_path / "home"
    tail = start(home, "tail", "--kind", "run.completed", "--json")
    try:
        evolog(home, "run", str(write_task(tmp_path / "task", candidates=12)), "--quiet")
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["event"]["kind"] == "run.completed"
    finally:
        tail.send_signal(signal.SIGINT)
        assert finish(tail)[0] == 130
    assert_nothing_left(home)


def test_tail_into_a_closed_pipe_ends_quietly(done: Path) -> None:
    command = f"{sys.executable} -m evolog.infra.cli tail latest --no-follow | head -1"
    out = subprocess.run(command, shell=True, env=environment(done), capture_output=True, text=True, check=False)
    assert out.stdout.count("\n") == 1
    assert "Traceback" not in out.stderr


def test_replay_at_both_levels_and_up_to_a_decision(done: Path) -> None:
    views = json.loads(evolog(done, "replay", "latest", "--level", "views", "--json").stdout)
    decisions = json.loads(evolog(done, "replay", "latest", "--level", "decisions", "--json").stdout)
    assert views
    assert decisions
    assert "equal" in evolog(done, "replay", "latest", "--level", "decisions", "--to", "20").stdout
    past = evolog(done, "replay", "latest", "--level", "decisions", "--to", "99999", expect=1)
    assert "--to 99999" in past.stderr


def test_deleting_the_snapshots_changes_no_answer(done: Path) -> None:
    code = (
        "import sys, evolog.infra.snapshots as s\n"
        "s.WORTH_SAVING = 1\n"
        "from evolog.infra.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )

    def show() -> str:
        command = [sys.executable, "-c", code, "show", "latest", "best", "--json"]
        return subprocess.run(command, env=environment(done), capture_output=True, text=True, check=True).stdout

    fresh = show()
    [file] = (done / "snapshots").glob("*.snapshot")
    assert show() == fresh
    content = file.read_bytes()
    for damaged in (content[:-1], content.replace(b"0", b"1"), b"", b"\0" * 100):
        file.write_bytes(damaged)
        assert show() == fresh
    file.unlink()
    assert show() == fresh


# Wrong input.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "/nowhere/run.toml"), ["/nowhere/run.toml", "no run file"]),
        (("run", str(JOBSHOP), "--set", "budget.candidats=3"), ["budget.candidats", "Did you mean 'candidates'"]),
        (("run", str(JOBSHOP), "--set", "budget.candidates=many"), ["budget.candidates", "integer"]),
        (("run", str(JOBSHOP), "--set", "search.crossover_prob=1.5"), ["crossover_prob", "1.5", "between 0 and 1"]),
        (("run", str(JOBSHOP), "--set", "search.strategy=programm"), ["programm", "Did you mean 'program'"]),
        (("run", str(JOBSHOP), "--set", "proposer.model=buildin:mutate"), ["buildin", "Did you mean 'builtin'"]),
        (("run", str(JOBSHOP), "--set", "sandbox.backend=docke"), ["docke", "sandlock"]),
        (("run", str(JOBSHOP), "--set", "nonsense"), ["nonsense"]),
        (("run", str(JOBSHOP), "--set", "proposer.model=litellm:nonsense"), ["nonsense", "<provider>/<model>"]),
        (
            ("run", str(JOBSHOP), "--set", "proposer.model=litellm:openai/x", "--set", "proposer.api_key_env=NO_KEY"),
            ["NO_KEY", "not set"],
        ),
        (
            (
                *("run", str(JOBSHOP), "--set", "proposer.model=litellm:openai/unheard-of"),
                *("--set", "budget.usd=1.0", "--set", "proposer.usd=0.1"),
            ),
            ["price of openai/unheard-of is unknown", "usd_per_million_input"],
        ),
        (("show", "nope"), ["'nope'", "evolog run"]),
        (("resume", "nope"), ["'nope'"]),
        (("replay", "nope"), ["'nope'"]),
        (("stop", "nope"), ["'nope'"]),
        (("tail", "--kind", "run.complete"), ["run.complete", "run.completed"]),
        (("tail", "--from", "0"), ["--from 0"]),
        (("worker", "--roles", "judging"), ["judging"]),
        (("ls", "--nats", "nats://127.0.0.1:1"), ["nats://127.0.0.1:1", "--nats"]),
        (("ls", "--nats", "127.0.0.1:x"), ["127.0.0.1:x"]),
        (("rum",), ["'rum'", "Did you mean 'run'"]),
    ],
    ids=lambda value: " ".join(value)[-40:] if isinstance(value, tuple) else "",
)
def test_wrong_input_is_named_and_nothing_is_written(
    tmp_path: Path, arguments: tuple[str, ...], said: list[str]
) -> None:
    home = tmp_path / "home"
    out = evolog(home, *arguments, expect=1)
    for part in said:
        assert part in out.stderr
    assert "Traceback" not in out.stderr
    if home.exists():
        assert evolog(home, "ls").stdout.startswith("no runs yet")
    assert_nothing_left(home)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("[task]", "is no TOML"),
        ("title = 3\n[task2]\nx = 1", "task2"),
        ('nam = "x"', "Did you mean 'name'"),
    ],
)
def test_a_run_file_with_a_mistake_is_refused_by_name(tmp_path: Path, change: str, said: str) -> None:
    file = write_task(tmp_path / "task")
    text = file.read_text()
    if said == "is no TOML":
        file.write_text(text.replace("[task]", "[task"))
    elif said == "task2":
        file.write_text(text + "\n[task2]\nx = 1\n")
    else:
        file.write_text(text.replace('name = "hash"', 'name = "hash"\n' + change))
    out = evolog(tmp_path / "home", "run", str(file), expect=1)
    assert said in out.stderr
    assert str(file) in out.stderr


def test_a_missing_task_file_is_named_with_its_key(tmp_path: Path) -> None:
    file = write_task(tmp_path / "task")
    (tmp_path / "task" / "zero.py").unlink()
    out = evolog(tmp_path / "home", "run", str(file), expect=1)
    assert "task.baselines.zero" in out.stderr
    assert "zero.py" in out.stderr


def test_a_data_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = evolog(tmp_path / "file" / "home", "ls", expect=1)
    assert "file/home" in out.stderr
    assert "Traceback" not in out.stderr


# Going on, and ending early.


def test_a_completed_run_goes_on_only_with_a_larger_budget(done: Path) -> None:
    out = evolog(done, "resume", "latest", expect=1)
    assert "is completed" in out.stderr
    assert "--set budget.candidates=80" in out.stderr


def test_stop_ends_a_run_and_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=5000)))
    assert process.stderr is not None
    run = process.stderr.readline().split()[1].rstrip(":")
    evolog(home, "stop", run, "--reason", "seen enough")
    code, out, _ = finish(process)
    assert code == 0
    assert f"run {run}: stopped, seen enough" in out
    assert "has ended already" in evolog(home, "stop", run).stdout
    evolog(home, "replay", run)


# Nothing to show for it.


@pytest.mark.parametrize(
    ("harness", "evaluator", "said"),
    [
        (
            "raise SystemExit('it is broken')\n",
            "def evaluate(g, a, o): return 1.0\n",
            "it is broken",
        ),
        ("print(1)\n", "def evaluate(g, a, o): raise ValueError('never good enough')\n", "never good enough"),
        ("print(1)\n", "def evaluate(g, a, o:\n", "task.evaluator cannot be loaded"),
    ],
    ids=["harness", "score", "evaluator"],
)
def test_a_run_whose_every_candidate_fails_ends_non_zero_and_says_why(
    tmp_path: Path, harness: str, evaluator: str, said: str
) -> None:
    task, home = tmp_path / "task", tmp_path / "home"
    file = write_task(task, candidates=8)
    (task / "harness.py").write_text(harness)
    (task / "evaluator.py").write_text(evaluator)
    (task / "data.json").write_text('{"given": 1, "answers": 2}')
    text = file.read_text().replace('judge = "hash"', 'harness = "harness.py"\nevaluator = "evaluator.py"')
    file.write_text(text)
    out = evolog(home, "run", str(file), expect=1)
    assert "failed, no candidate could be scored" in out.stdout
    assert said in out.stdout
    assert "are equal" in out.stdout
    counts = json.loads(evolog(home, "show", "latest", "--json").stdout)["attempts"]
    total = counts.pop("attempts")
    assert total == sum(counts.values())
    assert counts["open"] == counts["admitted"] == 0
    assert_nothing_left(home)


# A full disk.


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 120 MiB: less than a run wants to keep free."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small file system here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def grow(disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=600m", str(disk)], check=True)


def goes_on(home: Path, run: str) -> None:
    """Resume, let some be decided, end, and replay."""
    before = events_of(home, run)
    resumed = start(home, "resume", run)
    time.sleep(2.0)
    evolog(home, "stop", run)
    code, _, errors = finish(resumed)
    assert code == 0, errors
    after = events_of(home, run)
    assert [event.id for event in after[: len(before)]] == [event.id for event in before]
    assert any(event.kind == "candidate.evaluated" for event in after[len(before) :])
    evolog(home, "replay", run)
    assert_nothing_left(home)


def test_a_nearly_full_disk_pauses_the_run_and_room_lets_it_go_on(tmp_path: Path, small_disk: Path) -> None:
    home = small_disk / "home"
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=20_000)))
    code, _, errors = finish(process)
    run = errors.split()[1].rstrip(":")
    assert code == 1
    assert "MiB left" in errors
    assert f"evolog resume {run}" in errors
    assert any(event.kind == "run.paused" for event in events_of(home, run))
    grow(small_disk)
    goes_on(home, run)


def test_a_disk_that_fills_up_at_once_loses_nothing_that_was_acknowledged(tmp_path: Path, small_disk: Path) -> None:
    grow(small_disk)
    home = small_disk / "home"
    process = start(home, "run", str(write_task(tmp_path / "task", candidates=20_000)))
    assert process.stderr is not None
    run = process.stderr.readline().split()[1].rstrip(":")
    time.sleep(1.0)
    filler = small_disk / "filler"
    with filler.open("wb") as file, suppress(OSError):
        while True:
            file.write(b"\0" * 65536)
            file.flush()
    code, _, errors = finish(process)
    assert code == 1, errors
    assert "MiB left" in errors or "full" in errors
    assert f"evolog resume {run}" in errors
    filler.unlink()
    goes_on(home, run)


# Starting.


def test_help_imports_nothing_heavy_and_needs_no_home(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom evolog.infra.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'litellm', 'torch', 'transformers', 'docker', 'nats', 'faststream', 'sandlock'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)\n"
    )
    environment_ = {**os.environ, "EVOLOG_HOME": str(tmp_path / "never")}
    out = subprocess.run([sys.executable, "-c", code], env=environment_, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert not (tmp_path / "never").exists()


def test_doctor_says_what_works_here_and_what_is_missing(tmp_path: Path) -> None:
    out = evolog(tmp_path / "home", "doctor")
    for part in ("Python", "nats-server", "data directory", "sandbox", "litellm", "torch", "docker"):
        assert part in out.stdout
    without = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.modules['sandlock'] = None\n"
            "import importlib.util as u; real = u.find_spec\n"
            "u.find_spec = lambda name, *a: None if name == 'sandlock' else real(name, *a)\n"
            "from evolog.infra.cli import main; sys.exit(main(['doctor']))",
        ],
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert without.returncode == 1
    assert "pip install" in without.stdout


def test_every_command_has_help() -> None:
    for command in ("run", "resume", "stop", "ls", "show", "tail", "replay", "schema", "worker", "doctor"):
        out = subprocess.run([*EVOLOG, command, "--help"], capture_output=True, text=True, check=True)
        assert f"evolog {command}" in out.stdout
