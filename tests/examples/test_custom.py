"""The documented example of a user's own strategy, proposer, projection and event kind: installed and run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import EVOLOG, assert_nothing_left

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example as 'pip install ./examples/custom' installs it, in a folder of its own."""
    folder = tmp_path_factory.mktemp("custom")
    source = folder / "source"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("*.egg-info", "build"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(source)], check=True, capture_output=True)
    return folder / "site"


def evolog(site: Path, home: Path, *arguments: str) -> str:
    environment = {**os.environ, "EVOLOG_HOME": str(home), "PYTHONPATH": str(site)}
    done = subprocess.run(
        [*EVOLOG, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_climbs_replays_and_is_seen_by_evologs_own_views(site: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    out = evolog(site, home, "run", str(EXAMPLE / "run.toml"), "--quiet")
    assert "completed, budget.candidates reached" in out
    assert "def f(x: float) -> float:" in out
    assert "9 views are equal" in out
    summary: dict[str, Any] = json.loads(evolog(site, home, "show", "latest", "--json"))
    counts = summary["attempts"]
    assert counts["attempts"] == 40 == counts["admitted"] + counts["rejected"] + counts["refused"] + counts["failed"]
    lines = evolog(site, home, "tail", "latest", "--no-follow", "--kind", "climber.moved", "--json").splitlines()
    scores = [json.loads(line)["event"]["data"]["score"] for line in lines]
    assert len(scores) == 10
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] < scores[0]
    assert scores[-1] == summary["score"]
    assert "climber.moved" in evolog(site, home, "schema")
    assert_nothing_left(home)


def test_without_the_package_its_run_is_still_listed_and_replay_says_what_is_missing(
    site: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    evolog(site, home, "run", str(EXAMPLE / "run.toml"), "--quiet")
    nowhere = tmp_path / "empty"
    assert "completed" in evolog(nowhere, home, "ls")
    assert "climber.moved" in evolog(nowhere, home, "tail", "latest", "--no-follow")
    environment = {**os.environ, "EVOLOG_HOME": str(home)}
    command = [*EVOLOG, "replay", "latest", "--level", "decisions"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "hillclimb" in done.stderr
    assert "evolog.strategies" in done.stderr
