"""A server of one's own with a token, a run on one host and its workers on others."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from evolog.events import Event, encode
from evolog.infra.log import connected
from evolog.infra.server import Address
from evolog.infra.server.home import find_binary
from runs import (
    EVOLOG,
    assert_equal_decisions,
    assert_nothing_left,
    decisions_of,
    environment,
    events_of,
    evolog,
    write_task,
)

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A nats-server with JetStream that wants a token; its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "nats.conf"
    config.write_text(
        f'listen: "127.0.0.1:{port}"\nauthorization {{ token: "{TOKEN}" }}\n'
        f'jetstream {{ store_dir: "{tmp_path / "jetstream"}" }}\n'
    )
    process = subprocess.Popen([find_binary(), "-c", str(config)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.05)
    yield f"nats://127.0.0.1:{port}"
    process.terminate()
    process.wait()


def host(home: Path, *arguments: str, token: str = TOKEN) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*EVOLOG, *arguments],
        env={**os.environ, **environment(home), "EVOLOG_NATS_TOKEN": token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_work_of_a_run_is_done_on_other_hosts(tmp_path: Path, server: str) -> None:
    task = write_task(tmp_path / "task")
    workers = [
        host(tmp_path / "first", "worker", "--nats", server, "--roles", "proposing"),
        host(tmp_path / "second", "worker", "--nats", server, "--roles", "evaluation", "--slots", "3"),
    ]
    none_here = ["--set", "workers.proposals=0", "--set", "workers.evaluations=0"]
    run = host(tmp_path / "third", "run", str(task), "--nats", server, "--quiet", *none_here)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert "completed" in out
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=10)
        assert worker.returncode == 130
    evolog(tmp_path / "home", "run", str(task), "--quiet")
    assert_equal_decisions(decisions_of(events_of(tmp_path / "home")), decisions_of(asyncio.run(events_at(server))))
    for name in ("first", "second", "third"):
        assert_nothing_left(tmp_path / name)


async def events_at(server: str) -> list[Event]:
    async with connected(Address(server, TOKEN)) as store:
        return [stored.event async for stored in store.log.read()]


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_wrong_token_is_refused_and_never_printed(tmp_path: Path, server: str, token: str) -> None:
    for command in (("ls",), ("worker",), ("doctor",)):
        process = host(tmp_path / "home", *command, "--nats", server, token=token)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 1, out + err
        assert server in out + err
        assert "token" in (out + err).lower()
        assert "wrong" not in err


def test_a_worker_without_a_server_says_where_it_looked(tmp_path: Path) -> None:
    worker = host(tmp_path / "home", "worker", "--nats", "nats://127.0.0.1:1")
    _, err = worker.communicate(timeout=30)
    assert worker.returncode == 1
    assert "nats://127.0.0.1:1" in err


def test_tokens_are_in_no_event(tmp_path: Path, server: str) -> None:
    run = host(
        tmp_path / "home", "run", str(write_task(tmp_path / "task", candidates=6)), "--nats", server, "--quiet"
    )
    assert run.wait(timeout=60) == 0
    run.communicate()
    assert not any(TOKEN.encode() in encode(event) for event in asyncio.run(events_at(server)))
