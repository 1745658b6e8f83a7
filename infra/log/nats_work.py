"""The work queue on JetStream."""

from __future__ import annotations

import asyncio

import msgspec

from .jetstream import JetStream
from .port import Work
from .streams import WORK, WORK_ROOT


class _Pointer(msgspec.Struct):
    role: str
    run: str
    place: str
    seq: int
    again: bool
    request: str


class NatsWorkQueue:
    """`evolog.infra.log.WorkQueue` on a stream with work-queue retention."""

    def __init__(self, js: JetStream) -> None:
        self._js = js

    async def put(self, *work: Work) -> None:
        await asyncio.gather(*(self._put(one) for one in work))

    async def _put(self, work: Work) -> None:
        pointer = _Pointer(work.role, work.run, work.place, work.seq, work.again, work.request.decode())
        # A repetition after a lost acknowledgement puts a second pointer: workers find the request answered.
        await self._js.publish(f"{WORK_ROOT}.{work.role}.{work.run}", msgspec.json.encode(pointer), {})

    async def purge(self, run: str) -> None:
        await self._js.api(f"STREAM.PURGE.{WORK}", {"filter": f"{WORK_ROOT}.*.{run}"})

    async def count(self, run: str) -> int:
        info = await self._js.api(f"STREAM.INFO.{WORK}", {"subjects_filter": f"{WORK_ROOT}.*.{run}"})
        return sum((info["state"].get("subjects") or {}).values())
