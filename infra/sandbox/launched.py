"""Sandboxes behind launcher processes, which are started on demand and used again."""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import threading
from contextlib import suppress

import msgspec

from ...events.errors import SandboxError
from ..tasks import cancel
from .port import Execution, Job

_MODULE = "evolog.infra.sandbox.launcher"
#: Seconds that an answer may take beyond the job's own limit.
_GRACE_SECONDS = 20.0
_decoder = msgspec.msgpack.Decoder(Execution)


def frame(content: bytes) -> bytes:
    """`content` with its length in front."""
    return struct.pack("!Q", len(content)) + content


class LaunchedSandbox:
    """`evolog.infra.sandbox.Sandbox`: each job under way has a launcher process of its own.

    Parameters
    ----------
    name
        The launcher's backend: ``sandlock`` or ``unsafe``.
    version
        Of the backend, for attestations.
    """

    def __init__(self, name: str, version: str) -> None:
        self.name = name
        self.version = version
        self._idle: list[asyncio.subprocess.Process] = []

    async def run(self, job: Job) -> Execution:
        """Run a job; cancelling the task kills its whole process tree.

        Raises
        ------
        SandboxError
            If no launcher can be started.
        """
        content = frame(msgspec.msgpack.encode(job))
        for _ in range(2):
            launcher = await self._launcher()
            try:
                async with asyncio.timeout(job.limits.seconds + _GRACE_SECONDS):
                    execution = await _ask(launcher, content)
            except TimeoutError:
                await _end(launcher)
                break
            except BaseException:
                await asyncio.shield(_end(launcher))
                raise
            if execution is not None:
                self._idle.append(launcher)
                return execution
            await _end(launcher)
        return Execution(
            outcome="unavailable",
            exit_code=None,
            signal=None,
            stdout=b"",
            stderr=b"",
            wall_seconds=0.0,
            cpu_seconds=None,
            peak_bytes=None,
            detail=f"the launcher of sandbox {self.name!r} ended without an answer",
        )

    async def _launcher(self) -> asyncio.subprocess.Process:
        while self._idle:
            launcher = self._idle.pop()
            if launcher.returncode is None:
                return launcher
        return await self._start()

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                _MODULE,
                self.name,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"no launcher for the sandbox {self.name!r} can be started: {error}") from error

    async def serve(self, job: Job) -> Service:
        """Start a program that stays and answers questions; `job.limits.seconds` is for each.

        Raises
        ------
        SandboxError
            If no launcher can be started.
        """
        launcher = await self._start("serve")
        service = Service(launcher, job.limits.seconds)
        await service.send(frame(msgspec.msgpack.encode(job)))
        return service

    async def close(self) -> None:
        """End the launchers."""
        idle, self._idle = self._idle, []
        await asyncio.gather(*(_end(launcher) for launcher in idle))


class Service:
    """A program that answers one question at a time."""

    def __init__(self, launcher: asyncio.subprocess.Process, seconds: float) -> None:
        self._launcher = launcher
        self._seconds = seconds
        self._turn = asyncio.Lock()

    @property
    def alive(self) -> bool:
        return self._launcher.returncode is None

    async def send(self, content: bytes) -> None:
        assert self._launcher.stdin is not None
        with suppress(OSError):
            self._launcher.stdin.write(content)
            await self._launcher.stdin.drain()

    async def ask(self, question: bytes) -> bytes | None:
        """The answer, or None if there is none: the program has ended, or was ended for breaking a limit."""
        assert self._launcher.stdout is not None
        async with self._turn:
            try:
                async with asyncio.timeout(self._seconds + _GRACE_SECONDS):
                    await self.send(frame(question))
                    head = await self._launcher.stdout.readexactly(8)
                    return await self._launcher.stdout.readexactly(struct.unpack("!Q", head)[0])
            except (OSError, asyncio.IncompleteReadError, TimeoutError):
                await self.close()
                return None
            except BaseException:
                # A question without its answer: what comes next would be taken for another's.
                await asyncio.shield(self.close())
                raise

    async def close(self) -> None:
        """End the program."""
        await _end(self._launcher)


async def _ask(launcher: asyncio.subprocess.Process, content: bytes) -> Execution | None:
    """One job; None if the launcher ends before it answers."""
    assert launcher.stdin is not None
    assert launcher.stdout is not None
    try:
        launcher.stdin.write(content)
        await launcher.stdin.drain()
        head = await launcher.stdout.readexactly(8)
        return _decoder.decode(await launcher.stdout.readexactly(struct.unpack("!Q", head)[0]))
    except (OSError, asyncio.IncompleteReadError):
        return None


async def _end(launcher: asyncio.subprocess.Process) -> None:
    """Close the launcher's input: it kills its job and ends."""
    if launcher.stdin is not None:
        launcher.stdin.close()
    waiting = asyncio.ensure_future(launcher.wait())
    done, _ = await asyncio.wait({waiting}, timeout=10.0)
    if not done:
        with suppress(ProcessLookupError):
            launcher.kill()
        await launcher.wait()
    await cancel(waiting)


def run_once(name: str, job: Job) -> Execution:
    """Run one job with a launcher of its own, waiting for it. For probes.

    Raises
    ------
    SandboxError
        If the launcher fails.
    """
    try:
        launcher = subprocess.Popen(
            [sys.executable, "-m", _MODULE, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"the launcher of sandbox {name!r} cannot be started: {error}") from error
    alarm = threading.Timer(job.limits.seconds + _GRACE_SECONDS, launcher.kill)
    alarm.start()
    with launcher, suppress(BrokenPipeError):
        assert launcher.stdin is not None
        assert launcher.stdout is not None
        assert launcher.stderr is not None
        launcher.stdin.write(frame(msgspec.msgpack.encode(job)))
        launcher.stdin.flush()
        # Its input stays open until it has answered: an end would mean that nobody waits.
        head = launcher.stdout.read(8)
        body = launcher.stdout.read(struct.unpack("!Q", head)[0]) if len(head) == 8 else b""
        launcher.stdin.close()
        said = launcher.stderr.read().decode(errors="replace").strip().splitlines()
    alarm.cancel()
    if not body:
        raise SandboxError(f"the launcher of sandbox {name!r} failed: {said[-1] if said else launcher.returncode}")
    return _decoder.decode(body)
