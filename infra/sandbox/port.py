"""The port of the sandbox: `run(job) -> Execution`. Everything that a model wrote runs here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from ...events import Outcome


class SandboxLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one job: wall seconds, bytes of memory, processes, bytes of output (both streams together)."""

    seconds: float = 10.0
    memory: int = 512 * 1024 * 1024
    processes: int = 16
    output: int = 1024 * 1024


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A Python program to run.

    Attributes
    ----------
    files
        Relative path to content; written into a fresh directory that is the job's working directory.
    entry
        Which of `files` is started, isolated from the environment and without site packages.
    arguments
        Command line arguments.
    seed
        Seed of the hash function and of the random sources that the backend can seed.
    """

    files: Mapping[str, bytes]
    entry: str
    arguments: tuple[str, ...] = ()
    limits: SandboxLimits = SandboxLimits()
    seed: int = 0


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended: a typed outcome, never a string to be parsed.

    `stdout` and `stderr` are cut at the output limit. `unavailable` is the infrastructure's fault.
    """

    outcome: Outcome
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    wall_seconds: float
    cpu_seconds: float | None
    peak_bytes: int | None
    detail: str = ""


class Service(Protocol):
    """A program that stays, in the sandbox, and answers one question at a time."""

    @property
    def alive(self) -> bool: ...

    async def ask(self, question: bytes) -> bytes | None:
        """The answer, or None if the program has ended or was ended for breaking a limit."""
        ...

    async def close(self) -> None: ...


class Sandbox(Protocol):
    name: str
    version: str

    async def run(self, job: Job) -> Execution:
        """Run a job; cancelling the task kills its whole process tree.

        Raises
        ------
        SandboxError
            Never for what the program does; only if the backend cannot be used at all.
        """
        ...

    async def serve(self, job: Job) -> Service:
        """Start a program that stays and answers frames (8 bytes of length, big-endian, and content) on its
        standard input with frames on its output; `job.limits.seconds` is for each answer.
        """
        ...

    async def close(self) -> None:
        """End what the backend keeps running between jobs."""
        ...
