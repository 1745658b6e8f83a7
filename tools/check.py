"""Run mypy and the import contracts over the packages as ``evolog.*``.

Both follow imports by folder names, and the folders stand at the top level as ``events``, ``infra`` and
so on: a farm of symbolic links gives them the layout that setuptools installs.
"""

from __future__ import annotations

import os
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
        environment = {**os.environ, "MYPYPATH": farm, "PYTHONPATH": farm}
        types = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        types += ["--namespace-packages", "--explicit-package-bases", "--cache-dir", str(ROOT / ".mypy_cache")]
        for package in PACKAGES:
            types += ["-p", f"evolog.{package}"]
        contracts = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
        codes = [
            subprocess.run(types, cwd=farm, env=environment, check=False).returncode,
            subprocess.run(contracts, cwd=ROOT, env=environment, check=False).returncode,
        ]
        return max(codes)


if __name__ == "__main__":
    sys.exit(main())
