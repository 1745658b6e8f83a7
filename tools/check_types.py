"""Run mypy over the packages as ``evolog.*``.

mypy follows imports by folder names, and the folders stand at the top level as ``events``, ``infra``
and so on: a farm of symbolic links gives it the layout that setuptools installs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("events", "projections", "infra", "replay", "producers", "consumers")


def main() -> int:
    with tempfile.TemporaryDirectory() as farm:
        namespace = Path(farm) / "evolog"
        namespace.mkdir()
        for package in PACKAGES:
            (namespace / package).symlink_to(ROOT / package)
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        command += ["--namespace-packages", "--explicit-package-bases", "--cache-dir", str(ROOT / ".mypy_cache")]
        for package in PACKAGES:
            command += ["-p", f"evolog.{package}"]
        return subprocess.run(command, cwd=farm, env=_environment(farm), check=False).returncode


def _environment(farm: str) -> dict[str, str]:
    import os

    return {**os.environ, "MYPYPATH": farm}


if __name__ == "__main__":
    sys.exit(main())
