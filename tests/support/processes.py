"""Processes of the tests: whether they are alive, and waiting for their end."""

from __future__ import annotations

import time
from pathlib import Path

from evolog.infra.server.home import Home, locked


def wait_for_end(root: Path, seconds: float = 15.0) -> None:
    """Wait until keeper and nats-server of a data directory have ended."""
    files = Home(root)
    until = time.monotonic() + seconds
    while locked(files.keeper_lock) or locked(files.store_lock):
        assert time.monotonic() < until, f"the server of {root} is still there: {files.read()}"
        time.sleep(0.02)


def alive(process: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
