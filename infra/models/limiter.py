"""How often and how many at once: one limiter for each provider, shared by workers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

WINDOW_SECONDS = 60.0
#: Seconds after which a start that other processes left no room for is asked for again.
ASK_AGAIN_SECONDS = 1.0

#: Asks for one start under a limit of so many per minute, counting those of all processes.
Tokens = Callable[[int], Awaitable[bool]]


class Limiter:
    """Admits calls to one provider, first come first served.

    The window slides: in any 60 s no more than the allowed number of calls start. (A token bucket
    would let twice as many through at the edge of a minute, which providers answer with 429.)

    Parameters
    ----------
    clock
        Seconds of a clock that never goes back.
    sleep
        Waits so many seconds.
    tokens
        Counts the starts of other processes too (None: this process is alone).
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tokens: Tokens | None = None,
    ) -> None:
        self._tokens = tokens
        self._clock = clock
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self._active = 0
        self._started: deque[float] = deque()
        self._paused_until = 0.0

    @asynccontextmanager
    async def slot(self, *, per_minute: int | None, concurrent: int) -> AsyncIterator[None]:
        """Wait until a call may start, and hold its place until it has ended.

        Callers may have different limits of their own; each waits until its own are kept, counting
        the calls of all.

        Parameters
        ----------
        per_minute
            Calls started within any 60 s (None: no limit).
        concurrent
            Calls in flight at once.
        """
        async with self._turn:
            while True:
                if self._active >= concurrent:
                    self._freed.clear()
                    await self._freed.wait()
                    continue
                wait = self._seconds_to_wait(per_minute)
                if wait <= 0.0:
                    if per_minute is None or self._tokens is None or await self._tokens(per_minute):
                        break
                    wait = ASK_AGAIN_SECONDS
                await self._sleep(wait)
            self._active += 1
            self._started.append(self._clock())
        try:
            yield
        finally:
            self._active -= 1
            self._freed.set()

    def pause(self, seconds: float) -> None:
        """Start no further call for so many seconds: the provider has asked for it."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _seconds_to_wait(self, per_minute: int | None) -> float:
        now = self._clock()
        while self._started and self._started[0] <= now - WINDOW_SECONDS:
            self._started.popleft()
        wait = self._paused_until - now
        if per_minute is not None and len(self._started) >= per_minute:
            wait = max(wait, self._started[-per_minute] + WINDOW_SECONDS - now)
        return wait


_limiters: dict[asyncio.AbstractEventLoop, dict[tuple[str, ...], Limiter]] = {}
_tokens: dict[asyncio.AbstractEventLoop, Callable[[tuple[str, ...]], Tokens]] = {}


@contextmanager
def shared_tokens(tokens: Callable[[tuple[str, ...]], Tokens]) -> Iterator[None]:
    """While inside, limiters of the current event loop count the starts of other processes too.

    Parameters
    ----------
    tokens
        Gives what asks for an account's starts (see `evolog.infra.log.SharedRates`).
    """
    loop = asyncio.get_running_loop()
    _tokens[loop] = tokens
    try:
        yield
    finally:
        del _tokens[loop]
        _limiters.pop(loop, None)


def shared_limiter(*provider: str) -> Limiter:
    """The limiter of a provider, one for all workers that run on the current event loop.

    Parameters
    ----------
    provider
        What tells one account at one provider from another: its name, address, and the name of the
        key's variable.
    """
    for loop in [loop for loop in _limiters if loop.is_closed()]:
        del _limiters[loop]
    loop = asyncio.get_running_loop()
    limiters = _limiters.setdefault(loop, {})
    if provider not in limiters:
        tokens = _tokens.get(loop)
        limiters[provider] = Limiter(tokens=tokens(provider) if tokens is not None else None)
    return limiters[provider]
