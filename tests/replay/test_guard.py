"""A strategy that reads anything but its run's facts is stopped, with the call's place named."""

from __future__ import annotations

import datetime
import os
import random
import secrets
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from time import perf_counter as taken_by_name
from typing import Any

import pytest
from evolog.events.errors import ForbiddenCallError
from evolog.replay import Context

sys.path.insert(0, str(Path(__file__).parent))
from strategies import Loop, NoSettings, World, note, proposal

HERE = Path(__file__)

FORBIDDEN: dict[str, Callable[[], Any]] = {
    "time.time": lambda: time.time(),
    "time.time_ns": lambda: time.time_ns(),
    "time.monotonic": lambda: time.monotonic(),
    "time.sleep": lambda: time.sleep(0),
    "time.perf_counter": lambda: taken_by_name(),
    "datetime.now": lambda: datetime.datetime.now(),
    "datetime.utcnow": lambda: datetime.datetime.now(tz=datetime.UTC),
    "date.today": lambda: datetime.date.today(),
    "random.random": lambda: random.random(),
    "random.choice": lambda: random.choice([1, 2]),
    "random.Random": lambda: random.Random(1).random(),
    "random.SystemRandom": lambda: random.SystemRandom().random(),
    "os.urandom": lambda: os.urandom(4),
    "uuid.uuid4": lambda: uuid.uuid4(),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "secrets": lambda: secrets.token_hex(4),
    "os.environ[]": lambda: os.environ["PATH"],
    "os.environ.get": lambda: os.environ.get("PATH"),
    "os.environ in": lambda: "PATH" in os.environ,
    "os.environ iteration": lambda: list(os.environ),
    "os.getenv": lambda: os.getenv("PATH"),
    "open": lambda: open(HERE).close(),  # noqa: PTH123
    "Path.read_text": lambda: HERE.read_text(),
    "os.open": lambda: os.open(HERE, os.O_RDONLY),
    "os.listdir": lambda: os.listdir("/"),
    "socket": lambda: socket.socket(),
    "urlopen": lambda: urllib.request.urlopen("http://127.0.0.1:9"),
    "subprocess": lambda: subprocess.run(["true"], check=True),
    "os.system": lambda: os.system("true"),
    "through map": lambda: sorted([2, 1], key=lambda _: time.time()),
}


class Calls:
    NAME = "calls"
    Settings = NoSettings
    State = Loop

    def __init__(self, call: Callable[[], Any], *, swallow: bool = False) -> None:
        self.call, self.swallow = call, swallow

    async def run(self, ctx: Context, state: Loop | None) -> None:
        ctx.decide(note("before", 0.0))
        if self.swallow:
            try:
                self.call()
            except Exception:
                ctx.decide(note("swallowed", 0.0))
        else:
            self.call()
        await ctx.request(proposal(1))


@pytest.mark.parametrize("name", FORBIDDEN)
def test_forbidden_calls_are_stopped_and_placed(name: str) -> None:
    with pytest.raises(ForbiddenCallError, match="the strategy called") as caught:
        World(Calls(FORBIDDEN[name]))
    assert ".py:" in str(caught.value) or "<frozen" in str(caught.value)


@pytest.mark.parametrize("name", ["time.time", "open", "os.environ[]"])
def test_swallowing_the_error_does_not_help(name: str) -> None:
    with pytest.raises(ForbiddenCallError):
        World(Calls(FORBIDDEN[name], swallow=True))


def test_what_a_strategy_needs_is_allowed() -> None:
    def arithmetic() -> None:
        import fractions  # importing reads files, which is not the strategy's doing
        import math

        assert math.exp(0.0) == 1.0
        assert sorted({3: "a", 1: "b"}) == [1, 3]
        assert datetime.timedelta(seconds=1).total_seconds() == 1.0
        assert fractions.Fraction(1, 2) < 1
        assert " ".join(str(x) for x in range(3)) == "0 1 2"

    World(Calls(arithmetic))


def test_the_guard_is_lifted_outside_the_strategy() -> None:
    World(Calls(lambda: None))
    assert time.time() > 0
    assert sys.getprofile() is None
    assert os.environ["PATH"]
