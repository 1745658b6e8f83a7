"""Choosing a sandbox: the safest that passes a real job here; never the unsafe one unasked (design rule 8)."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ...events.errors import SandboxError
from ...events.version import VERSION
from .launched import LaunchedSandbox, run_once
from .port import Job, SandboxLimits

#: From the safest on.
SAFE = ("sandlock",)
BACKENDS = (*SAFE, "unsafe")

_PROBE = b"""\
import socket
held = 0
def connect():
    socket.create_connection(("127.0.0.1", 9), 1)
for attempt in (lambda: open("/etc/passwd"), lambda: open("../probe", "w"), connect):
    try:
        attempt()
    except ConnectionRefusedError:
        pass
    except OSError:
        held += 1
print("held", held)
"""


@cache
def probe(backend: str) -> str | None:
    """Why a backend cannot be used here (None: it can). A real job tells; the answer is kept.

    The job tries what a sandbox must refuse: reading outside, writing outside, and the network.
    """
    if backend == "sandlock":
        if not sys.platform.startswith("linux"):
            return f"it needs Linux 6.7 or newer, this is {sys.platform}"
        if find_spec("sandlock") is None:
            return "the package sandlock is not installed: pip install sandlock"
    job = Job(files={"probe.py": _PROBE}, entry="probe.py", limits=SandboxLimits(seconds=20.0))
    try:
        execution = run_once(backend, job)
    except SandboxError as error:
        return str(error)
    said = execution.stdout.decode(errors="replace").strip()
    if execution.outcome != "exited" or execution.exit_code != 0:
        last = execution.stderr.decode(errors="replace").strip().splitlines()
        return f"a probe job ended with {execution.outcome}: {execution.detail or (last[-1] if last else said)}"
    if backend in SAFE and said != "held 3":
        return (
            f"a probe job was not held back ({said!r}, expected 'held 3'): Linux 6.7 or newer with Landlock is needed"
        )
    return None


def open_sandbox(backend: str = "auto") -> LaunchedSandbox:
    """The sandbox of this name; ``auto`` is the safest that passes a probe job here.

    Raises
    ------
    SandboxError
        If it does not work here, or there is none of this name.
    """
    if backend == "auto":
        reasons = {name: probe(name) for name in SAFE}
        for name, reason in reasons.items():
            if reason is None:
                return LaunchedSandbox(name, _version(name))
        told = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise SandboxError(
            f"no sandbox works on this machine ({told}). 'evolog doctor' says what is missing. Model-written code "
            "runs without one only if you say so: --set sandbox.backend=unsafe"
        )
    if backend not in BACKENDS:
        raise SandboxError(
            f"sandbox.backend = {backend!r}: there is no such sandbox; there are auto, {', '.join(BACKENDS)}"
        )
    reason = probe(backend)
    if reason is not None:
        raise SandboxError(f"sandbox.backend = {backend!r} does not work on this machine: {reason}")
    return LaunchedSandbox(backend, _version(backend))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return VERSION
