"""The limiter of a provider, on a clock that the test moves."""

from __future__ import annotations

import asyncio

from evolog.infra.models import Limiter, shared_limiter
from hypothesis import given
from hypothesis import strategies as st


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def starts(count: int, per_minute: int | None, seconds_each: float = 0.0) -> list[float]:
    """When each of `count` calls started, in seconds after the first."""
    clock = Clock()
    seen: list[float] = []

    async def scenario() -> None:
        limiter = Limiter(clock, clock.sleep)

        async def one() -> None:
            async with limiter.slot(per_minute=per_minute, concurrent=count):
                seen.append(clock.now)
                clock.now += seconds_each

        await asyncio.gather(*[one() for _ in range(count)])

    asyncio.run(scenario())
    return [moment - seen[0] for moment in seen]


def test_calls_within_the_limit_start_at_once() -> None:
    assert starts(5, 5) == [0.0] * 5
    assert starts(50, None) == [0.0] * 50


def test_the_call_after_the_limit_waits_for_the_window() -> None:
    assert starts(7, 3) == [0.0, 0.0, 0.0, 60.0, 60.0, 60.0, 120.0]


@given(
    count=st.integers(1, 40),
    per_minute=st.integers(1, 12),
    seconds_each=st.floats(0.0, 40.0, allow_nan=False),
)
def test_no_minute_has_more_calls_than_the_limit(count: int, per_minute: int, seconds_each: float) -> None:
    moments = starts(count, per_minute, seconds_each)
    assert moments == sorted(moments)
    for first, later in zip(moments, moments[per_minute:], strict=False):
        assert later - first >= 60.0 - 1e-9


def test_a_pause_holds_back_every_worker() -> None:
    clock = Clock()
    seen = []

    async def scenario() -> None:
        limiter = Limiter(clock, clock.sleep)
        limiter.pause(30.0)
        limiter.pause(5.0)  # a shorter one takes nothing back

        async def one() -> None:
            async with limiter.slot(per_minute=None, concurrent=4):
                seen.append(clock.now - 1000.0)

        await asyncio.gather(one(), one())

    asyncio.run(scenario())
    assert seen == [30.0, 30.0]


def test_a_slot_is_given_back_after_an_error_and_after_a_cancelled_wait() -> None:
    async def scenario() -> None:
        limiter = Limiter()

        async def hold(release: asyncio.Event) -> None:
            async with limiter.slot(per_minute=None, concurrent=1):
                await release.wait()
                raise ValueError

        async def wait() -> None:
            async with limiter.slot(per_minute=None, concurrent=1):
                pass

        release = asyncio.Event()
        holder = asyncio.create_task(hold(release))
        await asyncio.sleep(0)
        waiter = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiter.cancel()
        release.set()
        assert isinstance((await asyncio.gather(holder, return_exceptions=True))[0], ValueError)
        await asyncio.wait_for(wait(), timeout=30.0)

    asyncio.run(scenario())


def test_workers_of_one_loop_share_a_providers_limiter() -> None:
    async def scenario() -> tuple[Limiter, Limiter, Limiter]:
        return shared_limiter("a", "url"), shared_limiter("a", "url"), shared_limiter("b", "url")

    first, second, other = asyncio.run(scenario())
    assert first is second
    assert first is not other

    assert asyncio.run(scenario())[0] is not first
