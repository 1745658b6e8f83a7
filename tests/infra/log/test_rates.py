"""A rate limit that processes share: exact within any window, and free again after it."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path

from evolog.infra.log import SharedRates, open_store
from evolog.infra.models.limiter import Limiter


def test_processes_together_keep_the_limit_in_any_window(shared_home: Path) -> None:
    account = ("provider", secrets.token_hex(4))
    started: list[float] = []

    async def work() -> None:
        async with open_store(shared_home) as one, open_store(shared_home) as other:

            async def calls(store: object, count: int) -> None:
                rates = SharedRates(store.js, window_seconds=1.5)  # type: ignore[attr-defined]
                take = rates.tokens(account)
                for _ in range(count):
                    while not await take(4):  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                    started.append(time.monotonic())

            await asyncio.gather(calls(one, 5), calls(other, 5))

    asyncio.run(work())
    started.sort()
    assert len(started) == 10
    # The server lets a message go up to a tenth of a second late, never early.
    for first, fifth in zip(started, started[4:], strict=False):
        assert fifth - first > 1.4
    assert started[-1] - started[0] < 10.0


def test_accounts_and_limits_do_not_meet(shared_home: Path) -> None:
    async def work() -> None:
        async with open_store(shared_home) as store:
            rates = SharedRates(store.js)
            mark = secrets.token_hex(4)
            one, other = rates.tokens(("a", mark)), rates.tokens(("b", mark))
            assert [await one(2) for _ in range(3)] == [True, True, False]
            assert await other(2)

    asyncio.run(work())


def test_a_limiter_waits_for_what_other_processes_have_taken(shared_home: Path) -> None:
    async def work() -> None:
        async with open_store(shared_home) as store:
            take = SharedRates(store.js, window_seconds=1.0).tokens((secrets.token_hex(4),))
            assert await take(1)
            waited: list[float] = []

            async def sleep(seconds: float) -> None:
                waited.append(seconds)
                await asyncio.sleep(0.1)

            async with Limiter(sleep=sleep, tokens=take).slot(per_minute=1, concurrent=1):
                pass
            assert waited

    asyncio.run(work())
