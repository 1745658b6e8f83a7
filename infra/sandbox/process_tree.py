"""The processes that descend from this one: found in /proc, killed, reaped."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path


def alive(process: int) -> bool:
    """Whether it runs: a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def descendants(process: int) -> Iterator[int]:
    """Process ids of children, their children, and so on."""
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                yield child
                yield from descendants(child)


def kill_descendants(seconds: float = 5.0) -> None:
    """Kill everything that descends from this process, until nothing does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        running = [process for process in descendants(os.getpid()) if alive(process)]
        for process in running:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        if not running:
            return
        time.sleep(0.001)


def reap_orphans() -> None:
    """Reap the zombies that this process has inherited, while no job runs: its backend reaps its child."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
