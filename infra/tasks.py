"""Cancelling tasks for certain."""

from __future__ import annotations

import asyncio
import time
from typing import Any

_AGAIN_SECONDS = 0.05


async def cancel(*tasks: asyncio.Future[Any], seconds: float = 10.0) -> bool:
    """Cancel tasks until they have ended, and ignore how.

    Once is not enough: `asyncio.wait_for` of Python 3.11, which nats-py and FastStream wait in, loses a
    cancellation that comes together with what it waits for.

    Returns
    -------
    bool
        Whether all have ended within `seconds`.
    """
    until = time.monotonic() + seconds
    waiting = {task for task in tasks if not task.done()}
    while waiting and time.monotonic() < until:
        for task in waiting:
            task.cancel()
        _, waiting = await asyncio.wait(waiting, timeout=_AGAIN_SECONDS)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain
    return not waiting
