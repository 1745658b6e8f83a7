"""The work queue on JetStream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from .jetstream import JetStream
from .port import Work
from .streams import WORK, WORK_ROOT

if TYPE_CHECKING:
    from nats.aio.client import Client


class Pointer(msgspec.Struct):
    """A `Work` as it is stored. `server` is the start of the server that it was put on (see `server_start`)."""

    role: str
    run: str
    place: str
    seq: int
    again: bool
    server: str
    request: str


def server_start(client: Client) -> str:
    """Which start of which server a client is connected to.

    A server that is killed may forget what it has delivered and even what was acknowledged, so that
    old work comes back looking new: whoever takes it up must know that the server was another then.
    """
    return str(client._server_info.get("server_id", ""))


class NatsWorkQueue:
    """`evolog.infra.log.WorkQueue` on a stream with work-queue retention."""

    def __init__(self, js: JetStream) -> None:
        self._js = js

    async def put(self, *work: Work) -> None:
        await asyncio.gather(*(self._put(one) for one in work))

    async def _put(self, work: Work) -> None:
        server = server_start(self._js.client)
        pointer = Pointer(work.role, work.run, work.place, work.seq, work.again, server, work.request.decode())
        # A repetition after a lost acknowledgement puts a second pointer: workers find the request answered.
        await self._js.publish(f"{WORK_ROOT}.{work.role}.{work.run}", msgspec.json.encode(pointer), {})

    async def purge(self, run: str) -> None:
        await self._js.api(f"STREAM.PURGE.{WORK}", {"filter": f"{WORK_ROOT}.*.{run}"})

    async def count(self, run: str) -> int:
        info = await self._js.api(f"STREAM.INFO.{WORK}", {"subjects_filter": f"{WORK_ROOT}.*.{run}"})
        return sum((info["state"].get("subjects") or {}).values())
