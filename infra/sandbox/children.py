"""Starting a job's program under each backend."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from .port import Job

_PR_SET_PDEATHSIG = 1
#: Bytes that a job may leave in its directory, its own files included.
DISK_BYTES = 64 * 1024 * 1024
_FILE_BYTES = DISK_BYTES
_NOBODY = 65534


class Child(Protocol):
    """A started program."""

    pid: int
    stdin: BinaryIO | None
    stdout: BinaryIO
    stderr: BinaryIO

    def finish(self) -> tuple[int | None, int | None]:
        """Reap it: exit code and signal."""
        ...


class SandlockChild:
    """A program under sandlock's rules."""

    def __init__(self, job: Job, directory: Path, *, serves: bool = False) -> None:
        import sandlock
        from sandlock.sandbox import StdioMode

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            box = sandlock.Sandbox(
                fs_readable=list(_readable()),
                fs_writable=[str(directory)],
                max_memory=job.limits.memory,
                max_processes=job.limits.processes,
                max_open_files=256,
                no_coredump=True,
                clean_env=True,
                env=_environment(job, directory),
                # As root it would keep root's powers over the clock (facts: sandlock's traps).
                uid=_NOBODY if os.getuid() == 0 else None,
                gid=_NOBODY if os.getuid() == 0 else None,
                random_seed=job.seed % 2**63,
                no_randomize_memory=True,
                cwd=str(directory),
            )
            self._process = box.popen(
                _command(job),
                stdin=StdioMode.PIPED if serves else StdioMode.NULL,
                stdout=StdioMode.PIPED,
                stderr=StdioMode.PIPED,
            )
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        self.stdin: BinaryIO | None = self._process.stdin
        self.stdout: BinaryIO = self._process.stdout
        self.stderr: BinaryIO = self._process.stderr

    def finish(self) -> tuple[int | None, int | None]:
        result = self._process.wait(5.0)
        self.stdout.close()
        self.stderr.close()
        if result.signal is not None and result.signal > 0:
            return None, result.signal
        if result.reason is not None and result.reason.name in ("KILLED", "TIMEOUT"):
            return None, signal.SIGKILL
        return result.exit_code, None


class UnsafeChild:
    """A program with nothing but resource limits. For those who said ``sandbox.backend = "unsafe"``."""

    def __init__(self, job: Job, directory: Path, *, serves: bool = False) -> None:
        import resource

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_AS, (job.limits.memory, job.limits.memory))
            resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with contextlib.suppress(OSError, AttributeError):
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

        self._process = subprocess.Popen(
            _command(job),
            cwd=directory,
            env=_environment(job, directory),
            stdin=subprocess.PIPE if serves else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            preexec_fn=limit,  # noqa: PLW1509 (the launcher has one thread)
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.pid = self._process.pid
        self.stdin: BinaryIO | None = self._process.stdin  # type: ignore[assignment]
        self.stdout: BinaryIO = self._process.stdout  # type: ignore[assignment]
        self.stderr: BinaryIO = self._process.stderr  # type: ignore[assignment]

    def finish(self) -> tuple[int | None, int | None]:
        code = self._process.wait()
        self.stdout.close()
        self.stderr.close()
        return (code, None) if code >= 0 else (None, -code)


BACKENDS: dict[str, type[SandlockChild] | type[UnsafeChild]] = {"sandlock": SandlockChild, "unsafe": UnsafeChild}


def _interpreter() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _command(job: Job) -> list[str]:
    # As -I, but with our own PYTHONHASHSEED (the environment is all ours) and with imports from the job's directory.
    return [_interpreter(), "-s", "-S", "-B", job.entry, *job.arguments]


def _environment(job: Job, directory: Path) -> dict[str, str]:
    return {
        "PYTHONHASHSEED": str(job.seed % 2**32),
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "HOME": str(directory),
        "TMPDIR": str(directory),
    }


def _readable() -> Iterator[str]:
    """What a program may read: the interpreter, the libraries, and harmless devices."""
    places = [
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/etc/ld.so.cache",
        "/dev/null",
        "/dev/zero",
        "/dev/urandom",
        "/proc/self",
        os.path.realpath(sys.base_prefix),
        os.path.realpath(sys.base_exec_prefix),
        str(Path(_interpreter()).parent.parent),
    ]
    return (place for place in dict.fromkeys(places) if Path(place).exists())
