"""The documentation tells the truth: commands run as written, keys exist, links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import msgspec
import pytest
from evolog.consumers.search.program import Settings
from evolog.infra.settings.tables import RunSettings

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*/README.md")])


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def test_the_readmes_commands_work_as_written_on_a_fresh_checkout(tmp_path: Path) -> None:
    """All of them, in order, but `make test`, which is what runs this, and those that need a provider's key."""
    checkout = tmp_path / "evolog"
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    tracked = subprocess.run(git, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    commands = blocks(ROOT / "README.md", "sh")
    assert commands.pop(1) == "make test\n"
    [with_key] = [block for block in commands if "OPENAI_API_KEY" in block]
    commands.remove(with_key)
    home = tmp_path / "home"
    # Neither the environment of these tests nor its packages may help.
    path = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if "venv" not in part)
    environment = {"PATH": path, "HOME": os.environ["HOME"], "EVOLOG_HOME": str(home), "LANG": "C.UTF-8"}
    script = "set -eu\n" + "".join(commands)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    out = done.stdout
    assert "completed, budget.candidates = 1000 reached" in out
    rows = {
        name: (float(a), float(b)) for name, a, b in re.findall(r"^(\w+) +([\d.]+) +([\d.]+)$", out, re.MULTILINE)
    }
    first = out[: out.index("next:")]
    best = re.search(r"^best +([\d.]+) +([\d.]+)$", first, re.MULTILINE)
    assert best is not None
    classic = {name: rows[name] for name in ("SPT", "LPT", "MWKR", "LWKR", "MOPNR", "FIFO")}
    assert float(best[2]) < min(holdout for _, holdout in classic.values())
    assert out.count("are equal") >= 3
    assert (checkout / "evolog.asyncapi.json").stat().st_size > 10_000
    assert (checkout / "admitted.jsonl").read_text().count("\n") > 10
    size = subprocess.run(
        ["du", "-sm", checkout / ".venv"], capture_output=True, text=True, check=True
    ).stdout.split()[0]
    assert int(size) < 100, f"the installation takes {size} MB"


def test_every_key_of_a_run_file_is_documented() -> None:
    page = (ROOT / "docs" / "run-file.md").read_text() + (ROOT / "docs" / "models.md").read_text()
    # A strategy's own keys stand in [search] beside its name.
    tables = [field.type for field in msgspec.structs.fields(RunSettings) if field.name != "search"]
    for table in (Settings, *tables):
        for field in msgspec.structs.fields(table):
            assert re.search(rf"`(\w+\.)?{field.name}`", page), f"{table.__name__}.{field.name} is not documented"


def test_the_documented_run_file_is_one() -> None:
    [first, *_] = blocks(ROOT / "docs" / "run-file.md", "toml")
    shipped = tomllib.loads((ROOT / "examples" / "jobshop" / "run.toml").read_text())
    told = tomllib.loads(first)
    assert set(told) <= set(shipped)
    assert told["task"]["splits"] == shipped["task"]["splits"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
    for target in re.findall(
        r"`((?:tests|docs|examples|benchmarks|events|consumers|infra|replay)/[\w./-]+)`", page.read_text()
    ):
        assert (ROOT / target).exists() or (page.parent / target).exists(), f"{page.name} names {target}"
