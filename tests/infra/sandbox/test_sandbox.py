"""The contract of a sandbox, held against every backend that works on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from evolog.events.errors import SandboxError
from evolog.infra.sandbox import BACKENDS, Execution, Job, Sandbox, SandboxLimits, open_sandbox, probe

USABLE = [backend for backend in BACKENDS if probe(backend) is None]
KIB, MIB = 1024, 1024 * 1024


def test_this_machine_has_a_safe_sandbox() -> None:
    """Without one the tests below would pass by testing nothing that counts."""
    assert open_sandbox("auto").name != "unsafe"


@pytest.fixture(params=USABLE)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[backend for backend in USABLE if backend != "unsafe"])
def safe(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def using(backend: str, work: Callable[[Sandbox], Awaitable[object]]) -> None:
    async def run() -> None:
        sandbox = open_sandbox(backend)
        try:
            await work(sandbox)
        finally:
            await sandbox.close()

    asyncio.run(run())


def execute(backend: str, source: str, *, files: dict[str, bytes] | None = None, **limits: float) -> Execution:
    found: list[Execution] = []

    async def run(sandbox: Sandbox) -> None:
        job = Job(
            files={"main.py": source.encode(), **(files or {})},
            entry="main.py",
            limits=SandboxLimits(**{"seconds": 5.0, **limits}),  # type: ignore[arg-type]
        )
        found.append(await sandbox.run(job))

    using(backend, run)
    return found[0]


@pytest.fixture
def token() -> Iterator[str]:
    """A mark on the command lines of what a test starts; none may be left."""
    mark = f"evolog-test-{os.getpid()}-{time.monotonic_ns()}"
    yield mark
    until = time.monotonic() + 5.0
    while True:
        left = _processes_with(mark)
        if not left:
            return
        assert time.monotonic() < until, f"left over: {left}"
        time.sleep(0.05)


def _processes_with(mark: str) -> list[str]:
    processes = [process for process in Path("/proc").glob("[0-9]*") if process.name != str(os.getpid())]
    return [process.name for process in processes if _mentions(process, mark)]


def _mentions(process: Path, mark: str) -> bool:
    try:
        return mark.encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


# What a job gives back.


def test_output_errors_exit_code_and_files(backend: str) -> None:
    execution = execute(
        backend,
        "import sys\nprint(open('in/data.txt').read())\nprint('oops', file=sys.stderr)\nsys.exit(3)\n",
        files={"in/data.txt": b"hello"},
    )
    assert (execution.outcome, execution.exit_code, execution.signal) == ("exited", 3, None)
    assert (execution.stdout, execution.stderr) == (b"hello\n", b"oops\n")
    assert execution.wall_seconds > 0


def test_a_signal_is_told(backend: str) -> None:
    execution = execute(backend, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert (execution.outcome, execution.signal) == ("signalled", signal.SIGSEGV)


def test_jobs_share_nothing(backend: str) -> None:
    async def run(sandbox: Sandbox) -> None:
        first = Job(files={"main.py": b"open('left', 'w').write('x')\n"}, entry="main.py")
        second = Job(files={"main.py": b"import os\nprint(sorted(os.listdir()))\n"}, entry="main.py")
        assert (await sandbox.run(first)).exit_code == 0
        assert (await sandbox.run(second)).stdout == b"['main.py']\n"

    using(backend, run)


def test_the_seed_reaches_the_hash_function(backend: str) -> None:
    source = b"print(hash('evolog'))\n"

    async def run(sandbox: Sandbox) -> None:
        def job(seed: int) -> Job:
            return Job(files={"main.py": source}, entry="main.py", seed=seed)

        outputs = [(await sandbox.run(job(seed))).stdout for seed in (1, 1, 2)]
        assert outputs[0] == outputs[1] != outputs[2]

    using(backend, run)


def test_the_parents_environment_does_not_come_along(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOLOG_SECRET", "swordfish")
    execution = execute(backend, "import os\nprint(dict(os.environ))\nprint(open('/proc/self/environ').read())\n")
    assert b"swordfish" not in execution.stdout


# Limits.


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass\n",
        "import time\ntime.sleep(60)\n",
        "import signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\nwhile True: time.sleep(1)\n",
    ],
    ids=["spinning", "sleeping", "deaf"],
)
def test_time_is_limited(backend: str, source: str) -> None:
    execution = execute(backend, source, seconds=0.7)
    assert execution.outcome == "timeout"
    assert 0.6 < execution.wall_seconds < 5.0


def test_memory_is_limited(backend: str) -> None:
    execution = execute(backend, "x = bytearray(600 * 1024 * 1024)\nprint(len(x))\n", memory=200 * MIB)
    assert execution.outcome == "memory" or execution.exit_code != 0
    assert b"629145600" not in execution.stdout


def test_output_is_limited_and_what_came_first_is_kept(backend: str) -> None:
    execution = execute(backend, "import sys\nwhile True: sys.stdout.write('x' * 65536)\n", output=100 * KIB)
    assert execution.outcome == "output"
    assert set(execution.stdout) == {ord("x")}
    assert len(execution.stdout) + len(execution.stderr) <= 100 * KIB


def test_processes_are_limited(safe: str) -> None:
    source = """\
import os, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        made += 1
except OSError:
    pass
print(made)
"""
    execution = execute(safe, source, processes=8, seconds=3.0)
    assert execution.outcome in ("processes", "exited", "timeout")
    assert execution.outcome != "exited" or int(execution.stdout) < 8


def test_a_process_that_left_its_group_is_killed_too(backend: str, token: str) -> None:
    source = f"""\
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", "{token}"])
    os._exit(0)
time.sleep(0.3)
print("done")
"""
    execution = execute(backend, source, processes=16)
    assert execution.stdout == b"done\n"


def test_cancelling_kills_the_whole_tree(backend: str, token: str) -> None:
    source = f"""\
import os, sys, time
open("started", "w").close()
if os.fork() == 0:
    os.setsid()
os.execv(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", "{token}"])
"""

    async def run(sandbox: Sandbox) -> None:
        job = Job(files={"main.py": source.encode()}, entry="main.py", limits=SandboxLimits(seconds=60.0))
        task = asyncio.create_task(sandbox.run(job))
        while not _processes_with(token):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    using(backend, run)


def test_many_jobs_at_once(backend: str) -> None:
    async def run(sandbox: Sandbox) -> None:
        jobs = [Job(files={"main.py": f"print({i})".encode()}, entry="main.py") for i in range(8)]
        executions = await asyncio.gather(*map(sandbox.run, jobs))
        assert [int(execution.stdout) for execution in executions] == list(range(8))

    using(backend, run)


# What a safe sandbox refuses.


@pytest.mark.parametrize(
    ("what", "source"),
    [
        ("reading a user's files", "open('{outside}/secret').read()"),
        ("listing them", "import os; os.listdir('{outside}')"),
        ("writing outside", "open('{outside}/new', 'w').write('x')"),
        ("writing through a link", "import os; os.symlink('{outside}/new', 'link'); open('link', 'w').write('x')"),
        ("the network", "import socket; socket.create_connection(('127.0.0.1', {port}), 2)"),
        ("signalling the parent", "import os, signal; os.kill(os.getppid(), signal.SIGTERM)"),
        ("signalling evolog", "import os, signal; os.kill({pid}, 0)"),
        ("reading evolog's environment", "open('/proc/{pid}/environ').read()"),
        ("/etc/shadow", "open('/etc/shadow').read()"),
    ],
)
def test_a_program_cannot_reach_out(safe: str, tmp_path: Path, what: str, source: str) -> None:
    import socket

    (tmp_path / "secret").write_text("swordfish")
    with socket.create_server(("127.0.0.1", 0)) as server:
        attempt = source.format(outside=tmp_path, port=server.getsockname()[1], pid=os.getpid())
        program = f"try:\n    {attempt}\nexcept BaseException as e:\n    print('refused', type(e))\n"
        execution = execute(safe, program + "else:\n    print('reached')\n")
    assert execution.stdout.startswith(b"refused"), f"{what}: {execution}"
    assert not (tmp_path / "new").exists()


# A program that stays.

SERVICE = b"""\
import os, struct, time
def read(n):
    got = b""
    while len(got) < n:
        more = os.read(0, n - len(got))
        if not more: raise SystemExit
        got += more
    return got
while True:
    (size,) = struct.unpack("!Q", read(8))
    question = read(size)
    if question == b"sleep": time.sleep(60)
    if question == b"die": os._exit(1)
    answer = question.upper()
    os.write(1, struct.pack("!Q", len(answer)) + answer)
"""


def test_a_service_answers_until_it_breaks_a_limit(backend: str) -> None:
    async def run(sandbox: Sandbox) -> None:
        def job() -> Job:
            return Job(files={"main.py": SERVICE}, entry="main.py", limits=SandboxLimits(seconds=0.7))

        service = await sandbox.serve(job())
        assert [await service.ask(word) for word in (b"one", b"two")] == [b"ONE", b"TWO"]
        assert service.alive
        assert await service.ask(b"sleep") is None
        assert not service.alive
        another = await sandbox.serve(job())
        assert await another.ask(b"die") is None
        await another.close()
        await service.close()

    using(backend, run)


def test_a_service_that_claims_a_giant_answer_is_not_believed(backend: str) -> None:
    source = b"""\
import os, struct, time
os.read(0, 100)
os.write(1, struct.pack("!Q", 1 << 62))
time.sleep(60)
"""

    async def run(sandbox: Sandbox) -> None:
        limits = SandboxLimits(seconds=1.0, output=MIB)
        service = await sandbox.serve(Job(files={"main.py": source}, entry="main.py", limits=limits))
        assert await service.ask(b"x") is None
        await service.close()

    using(backend, run)


# Choosing.


def test_an_unknown_sandbox_is_refused_by_name() -> None:
    with pytest.raises(SandboxError, match=r"sandlok.*sandlock"):
        open_sandbox("sandlok")


def test_auto_is_never_the_unsafe_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from evolog.infra.sandbox import choose

    monkeypatch.setattr(choose, "probe", lambda backend: None if backend == "unsafe" else "not here")
    with pytest.raises(SandboxError, match="unsafe"):
        choose.open_sandbox("auto")
