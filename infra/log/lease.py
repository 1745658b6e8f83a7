"""Who directs a run. A lease spares two directors each other; the condition on decisions is what forbids two."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec

from ...events.errors import LeaseHeldError, LogError
from ..tasks import cancel
from .jetstream import WRONG_LAST_SEQUENCE, ApiError, JetStream
from .streams import LEASE_ROOT, LEASE_SECONDS, LEASES


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a lease. `born` tells a process from a later one with the same number."""

    host: str
    process: int
    born: str


def _born(process: int) -> str:
    """When a process started, in the kernel's own units (empty: unknown here)."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _gone(holder: Holder) -> bool:
    """Whether the holder is known to have ended."""
    if holder.host != socket.gethostname():
        return False
    try:
        os.kill(holder.process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return holder.born != _born(holder.process)


class Lease:
    """A lease held by this process; `lost` is set when it no longer is."""

    def __init__(self, js: JetStream, run: str) -> None:
        self._js = js
        self._run = run
        self._subject = f"{LEASE_ROOT}.{run}"
        me = os.getpid()
        self._content = msgspec.json.encode(Holder(host=socket.gethostname(), process=me, born=_born(me)))
        self._seq = 0
        self.lost = asyncio.Event()

    async def acquire(self) -> None:
        """Take the lease.

        Raises
        ------
        LeaseHeldError
            If another director is alive, or may be.
        """
        for _ in range(3):
            message = await self._js.direct_get(LEASES, {"last_by_subj": self._subject})
            after = 0
            if message is not None and message.headers is not None:
                holder = msgspec.json.decode(message.data, type=Holder)
                if message.data != self._content and not _gone(holder):
                    raise LeaseHeldError(
                        f"run {self._run} is directed by process {holder.process} on {holder.host}: stop that one "
                        f"first. If it is dead, its lease ends after {LEASE_SECONDS:g} s"
                    )
                after = int(message.headers["Nats-Sequence"])
            if await self._put(after):
                return
        raise LeaseHeldError(f"run {self._run} is being taken over by another director")

    async def _put(self, after: int) -> bool:
        try:
            ack = await self._js.publish(
                self._subject, self._content, {"Nats-Expected-Last-Subject-Sequence": str(after)}
            )
        except ApiError as error:
            if error.code != WRONG_LAST_SEQUENCE:
                raise
            return False
        self._seq = ack.seq
        return True

    async def renew(self) -> None:
        """Renew for ever; sets `lost` and returns when another has taken the lease."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 4)
            with suppress(LogError):  # the server is away: the next try tells
                if not await self._put(self._seq):
                    try:
                        await self.acquire()
                    except LeaseHeldError:
                        self.lost.set()
                        return

    async def release(self) -> None:
        with suppress(LogError):
            await self._js.api(f"STREAM.PURGE.{LEASES}", {"filter": self._subject})


@asynccontextmanager
async def leased(js: JetStream, run: str) -> AsyncIterator[Lease]:
    """Hold the lease of a run while inside.

    Raises
    ------
    LeaseHeldError
        If another director holds it.
    """
    lease = Lease(js, run)
    await lease.acquire()
    renewing = asyncio.create_task(lease.renew())
    try:
        yield lease
    finally:
        await cancel(renewing)
        if not lease.lost.is_set() and js.client.is_connected:
            await lease.release()
