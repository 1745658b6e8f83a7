"""The launcher: a process that runs one job at a time and leaves nothing of it behind.

Started as ``python -m evolog.infra.sandbox.launcher BACKEND``; it reads jobs from standard input and
writes executions to standard output, each as a length and MessagePack. It is a process of its own for
two reasons. It is a *subreaper*: whatever a job leaves behind, however often it forked and
whatever sessions it opened, becomes the launcher's child and is killed. And it sees evolog's end as the
end of its input, even after a ``kill -9``, and then kills the job too. (sandlock's own child dies with
its parent; a grandchild in a session of its own was seen to go on.)
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import shutil
import signal
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...events import Outcome
from .children import BACKENDS, DISK_BYTES, Child
from .port import Execution, Job
from .process_tree import alive, descendants, kill_descendants, reap_orphans

_PR_SET_CHILD_SUBREAPER = 36
#: Seconds between two looks at memory, disk and the process tree.
_LOOK_SECONDS = 0.05
#: Seconds for which output is still read after the program has ended: a grandchild may hold the pipe for ever.
_DRAIN_SECONDS = 0.2
_CHUNK = 65536


class Launcher:
    """Runs jobs with one backend."""

    def __init__(self, backend: str) -> None:
        self._start = BACKENDS[backend]
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def run(self, job: Job) -> Execution | None:
        """Run a job; None if evolog went away meanwhile."""
        directory = Path(tempfile.mkdtemp(prefix="evolog-job-"))
        began = time.monotonic()
        try:
            self._write_files(job, directory)
            try:
                child = self._start(job, directory)
            except Exception as error:
                return _unavailable(f"{type(error).__name__}: {error}", began)
            return _Watch(job, directory, child, began).watch()
        finally:
            kill_descendants()
            reap_orphans()
            shutil.rmtree(directory, ignore_errors=True)

    def serve(self, job: Job, questions: BinaryIO, answers: BinaryIO) -> None:
        """Start a program that answers frames on its standard input with frames on its output, and relay them.

        `job.limits.seconds` is for each answer. Ends when the program does, breaks a limit, or evolog is done.
        """
        directory = Path(tempfile.mkdtemp(prefix="evolog-job-"))
        try:
            self._write_files(job, directory)
            child = self._start(job, directory, serves=True)
            try:
                for stream in (child.stdin, child.stdout, child.stderr):
                    assert stream is not None
                    os.set_blocking(stream.fileno(), False)
                while (question := read_frame(questions)) is not None:
                    answer = _exchange(child, question, job)
                    if answer is None:
                        break
                    write_frame(answers, answer)
            finally:
                kill_descendants()
                if child.stdin is not None:
                    child.stdin.close()
                child.finish()
        finally:
            kill_descendants()
            reap_orphans()
            shutil.rmtree(directory, ignore_errors=True)

    @staticmethod
    def _write_files(job: Job, directory: Path) -> None:
        for name, content in job.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _exchange(child: Child, question: bytes, job: Job) -> bytes | None:
    """Send one frame and read one; None if the program does not keep to that."""
    assert child.stdin is not None
    sending = memoryview(struct.pack("!Q", len(question)) + question)
    received = bytearray()
    until = time.monotonic() + job.limits.seconds
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ, "stdout")
        selector.register(child.stderr, selectors.EVENT_READ, "stderr")
        selector.register(child.stdin, selectors.EVENT_WRITE, "stdin")
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                try:
                    if key.data == "stdin":
                        sending = sending[os.write(child.stdin.fileno(), sending[:_CHUNK]) :]
                        if not sending:
                            selector.unregister(child.stdin)
                        continue
                    chunk = os.read(key.fd, _CHUNK)
                except OSError:
                    return None
                if not chunk:
                    return None
                if key.data == "stdout":
                    received += chunk
            if len(received) >= 8:
                (size,) = struct.unpack("!Q", received[:8])
                if size > job.limits.output or len(received) > size + 8:
                    return None
                if len(received) == size + 8:
                    return bytes(received[8:])
    return None


class _Watch:
    """One running program: its output, its limits and its end."""

    def __init__(self, job: Job, directory: Path, child: Child, began: float) -> None:
        self.job = job
        self.directory = directory
        self.child = child
        self.began = began
        self.output = {"stdout": bytearray(), "stderr": bytearray()}
        self.cut: Outcome | None = None
        self.peak = 0
        self.cpu = 0.0

    def watch(self) -> Execution | None:
        """Read until the program ends, a limit is passed or evolog goes away."""
        pidfd = os.pidfd_open(self.child.pid) if hasattr(os, "pidfd_open") else None
        orphaned = False
        with selectors.DefaultSelector() as selector:
            for name in ("stdout", "stderr"):
                stream = getattr(self.child, name)
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, name)
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ, "evolog")
            if pidfd is not None:
                selector.register(pidfd, selectors.EVENT_READ, "end")
            deadline = self.began + self.job.limits.seconds
            next_look = self.began + _LOOK_SECONDS
            ended = False
            while not ended and self.cut is None and not orphaned:
                now = time.monotonic()
                if now >= deadline:
                    self.cut = "timeout"
                    break
                if now >= next_look:
                    self._look()
                    next_look = now + _LOOK_SECONDS
                for key, _ in selector.select(min(deadline, next_look) - now):
                    if key.data == "evolog":
                        # Evolog sends nothing while a job runs: this is the end of the input.
                        orphaned = True
                    elif key.data == "end":
                        ended = True
                    elif not self._read(key.data):
                        selector.unregister(key.fileobj)
                if pidfd is None and not alive(self.child.pid):
                    ended = True
            if ended and self.cut is None:
                self._drain(selector)
        if pidfd is not None:
            os.close(pidfd)
        self._look_at_processes()
        # Everything is killed before it is reaped: a program that has ended may have children.
        kill_descendants()
        code, number = self.child.finish()
        if orphaned:
            return None
        return self._execution(code, number)

    def _read(self, name: str) -> bool:
        """Take what a stream holds; False at its end."""
        try:
            chunk = os.read(getattr(self.child, name).fileno(), _CHUNK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not chunk:
            return False
        room = self.job.limits.output - sum(map(len, self.output.values()))
        self.output[name] += chunk[: max(0, room)]
        if len(chunk) > room:
            self.cut = "output"
        return True

    def _drain(self, selector: selectors.BaseSelector) -> None:
        until = time.monotonic() + _DRAIN_SECONDS
        while self.cut is None and time.monotonic() < until:
            streams = [key for key, _ in selector.select(0.0) if key.data in self.output]
            if not streams:
                # Nothing is waiting: what comes later comes from a process that outlives the program.
                return
            for key in streams:
                if not self._read(key.data):
                    selector.unregister(key.fileobj)

    def _look(self) -> None:
        self._look_at_processes()
        if self.peak > self.job.limits.memory * 1.25:
            self.cut = "memory"
        elif _size_of(self.directory) > DISK_BYTES:
            self.cut = "disk"

    def _look_at_processes(self) -> None:
        tree = list(descendants(os.getpid()))
        resident = cpu = 0.0
        for process in tree:
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                resident += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
                cpu += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        self.peak = max(self.peak, int(resident))
        self.cpu = max(self.cpu, cpu)
        if len(tree) > self.job.limits.processes + 1:
            self.cut = self.cut or "processes"

    def _execution(self, code: int | None, number: int | None) -> Execution:
        outcome: Outcome = "exited" if number is None else "signalled"
        detail = ""
        limits = self.job.limits
        if self.cut is not None:
            outcome, code, number = self.cut, None, None
            detail = {
                "timeout": f"no end within {limits.seconds:g} s",
                "output": f"more than {limits.output} bytes of output",
                "memory": f"more than {limits.memory} bytes of memory",
                "disk": f"more than {DISK_BYTES} bytes of files",
                "processes": f"more than {limits.processes} processes",
            }[self.cut]
        elif number == signal.SIGKILL:
            # Nobody here sent it: the kernel or sandlock did, for want of memory.
            outcome, code, number = "memory", None, None
            detail = f"killed at the limit of {limits.memory} bytes of memory"
        elif number is not None:
            detail = f"ended by signal {number}"
        return Execution(
            outcome=outcome,
            exit_code=code,
            signal=number,
            # The directory's name is random; equal runs print equal text.
            stdout=bytes(self.output["stdout"]).replace(f"{self.directory}/".encode(), b""),
            stderr=bytes(self.output["stderr"]).replace(f"{self.directory}/".encode(), b""),
            wall_seconds=time.monotonic() - self.began,
            cpu_seconds=self.cpu or None,
            peak_bytes=self.peak or None,
            detail=detail,
        )


def _unavailable(detail: str, began: float) -> Execution:
    return Execution(
        outcome="unavailable",
        exit_code=None,
        signal=None,
        stdout=b"",
        stderr=b"",
        wall_seconds=time.monotonic() - began,
        cpu_seconds=None,
        peak_bytes=None,
        detail=detail,
    )


def _size_of(directory: Path) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += Path(folder, name).lstat().st_blocks * 512
    return total


def _read_exactly(stream: BinaryIO, count: int) -> bytes | None:
    content = b""
    while len(content) < count:
        chunk = stream.read(count - len(content))
        if not chunk:
            return None
        content += chunk
    return content


def read_frame(stream: BinaryIO) -> bytes | None:
    """The next frame, or None at the end."""
    head = _read_exactly(stream, 8)
    return None if head is None else _read_exactly(stream, struct.unpack("!Q", head)[0])


def write_frame(stream: BinaryIO, content: bytes) -> None:
    """Write one frame to an unbuffered stream."""
    view = memoryview(struct.pack("!Q", len(content)) + content)
    while view:
        view = view[stream.write(view) :]


def main(arguments: list[str]) -> int:
    """Run jobs from standard input until it ends; with the second argument ``serve``, one that answers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Answers go to a descriptor that no job can inherit.
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    launcher = Launcher(arguments[0])
    decoder = msgspec.msgpack.Decoder(Job)
    if arguments[1:] == ["serve"]:
        first = read_frame(source)
        if first is not None:
            launcher.serve(decoder.decode(first), source, answers)
        return 0
    while (body := read_frame(source)) is not None:
        execution = launcher.run(decoder.decode(body))
        if execution is None:
            return 0
        write_frame(answers, msgspec.msgpack.encode(execution))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
