"""Replay under another hash seed and another Python version: what a set's order decides is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

PROGRAM = Path(__file__).with_name("set_order.py")
ROOT = Path(__file__).parents[2]
FOLDERS = ("events", "projections", "infra", "replay", "producers", "consumers")


def run(python: str, *arguments: str, hash_seed: str, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": hash_seed}
    if path:
        environment["PYTHONPATH"] = path
    return subprocess.run(
        [python, str(PROGRAM), *arguments], capture_output=True, text=True, env=environment, check=False, timeout=120
    )


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "herd.jsonl"
    done = run(sys.executable, "record", str(path), hash_seed="1")
    assert done.returncode == 0, done.stderr
    return path


def test_iteration_over_a_set_is_found_under_another_hash_seed(recorded: Path) -> None:
    same = run(sys.executable, "replay", str(recorded), hash_seed="1")
    assert (same.returncode, same.stdout) == (0, "10 equal\n")
    other = run(sys.executable, "replay", str(recorded), hash_seed="2")
    assert other.returncode == 3
    assert msgspec.json.decode(other.stdout)["field"] == "data.candidate"


def test_a_sorted_set_replays_under_any_hash_seed(tmp_path: Path) -> None:
    path = tmp_path / "tidy.jsonl"
    assert run(sys.executable, "record", str(path), "sorted", hash_seed="1").returncode == 0
    for seed in ("2", "3", "random"):
        assert run(sys.executable, "replay", str(path), "sorted", hash_seed=seed).returncode == 0


def other_pythons() -> list[str]:
    found = []
    for minor in (11, 12, 13, 14):
        if minor == sys.version_info.minor:
            continue
        name = f"python3.{minor}"
        candidates = [shutil.which(name), *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/{name}"))]
        for candidate in filter(None, candidates):
            probe = subprocess.run([candidate, "-c", "import venv, ensurepip"], capture_output=True, check=False)
            if probe.returncode == 0:
                found.append(candidate)
                break
    return found


def test_another_python_version_decides_the_same(tmp_path: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("no other Python 3.11 to 3.14 on this machine")
    path = tmp_path / "tidy.jsonl"
    untidy = tmp_path / "herd.jsonl"
    assert run(sys.executable, "record", str(path), "sorted", hash_seed="1").returncode == 0
    assert run(sys.executable, "record", str(untidy), hash_seed="1").returncode == 0
    python = pythons[-1]
    site = tmp_path / "site"
    (site / "evolog").mkdir(parents=True)
    for folder in FOLDERS:
        (site / "evolog" / folder).symlink_to(ROOT / folder)
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--target", str(site), "msgspec>=0.20,<1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert installed.returncode == 0, installed.stderr
    tidy = run(python, "replay", str(path), "sorted", hash_seed="5", path=str(site))
    assert (tidy.returncode, tidy.stdout) == (0, "10 equal\n"), tidy.stderr
    other = run(python, "replay", str(untidy), hash_seed="7", path=str(site))
    assert other.returncode == 3, other.stderr
