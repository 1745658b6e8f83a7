"""Run evolog and kill the process (-9) at a named point: python dies_at.py POINT COUNT ARGUMENTS...

| point | the process dies |
| --- | --- |
| ``result-made`` | when the COUNTth result was made, before it is appended |
| ``decision-sent`` | when the COUNTth decision was sent, before its acknowledgement is read |
| ``half-step`` | when half of the COUNTth step of several decisions was appended |
| ``blob-stored`` | when the COUNTth put of blobs is acknowledged, before any event names them |
| ``pointer-put`` | when the decisions are in the log, before the COUNTth put of pointers |
| ``call-started`` | when the COUNTth model call is announced and under way |
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from evolog.infra.cli import main
from evolog.infra.log import NatsBlobs, NatsLog, NatsWorkQueue


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Countdown:
    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


def arm(point: str, count: int) -> None:
    due = Countdown(count)
    append, decide, decide_one = NatsLog.append, NatsLog.decide, NatsLog._decide_one
    put, put_work = NatsBlobs.put, NatsWorkQueue.put

    async def append_or_die(self: NatsLog, *facts: Any) -> Any:
        kinds = {fact.kind for fact in facts}
        if point == "result-made" and kinds & {"proposal.made", "trace.recorded"} and due():
            die()
        found = await append(self, *facts)
        if point == "call-started" and "call.started" in kinds and due():
            await asyncio.sleep(0.5)
            die()
        return found

    async def decide_or_die(self: NatsLog, decisions: Any, *, after: int) -> Any:
        if point == "half-step" and len(decisions) > 1 and due():
            await decide(self, decisions[: len(decisions) // 2], after=after)
            die()
        return await decide(self, decisions, after=after)

    async def decide_one_or_die(self: NatsLog, decision: Any, after: int) -> Any:
        if point == "decision-sent" and due():
            sending = asyncio.ensure_future(decide_one(self, decision, after))
            await asyncio.sleep(0)
            await self._js.client.flush()
            del sending
            die()
        return await decide_one(self, decision, after)

    async def put_or_die(self: NatsBlobs, *contents: bytes) -> Any:
        blobs = await put(self, *contents)
        if point == "blob-stored" and due():
            die()
        return blobs

    async def put_work_or_die(self: NatsWorkQueue, *work: Any) -> None:
        if point == "pointer-put" and due():
            die()
        await put_work(self, *work)

    NatsLog.append = append_or_die  # type: ignore[method-assign]
    NatsLog.decide = decide_or_die  # type: ignore[method-assign]
    NatsLog._decide_one = decide_one_or_die  # type: ignore[method-assign]
    NatsBlobs.put = put_or_die  # type: ignore[method-assign]
    NatsWorkQueue.put = put_work_or_die  # type: ignore[method-assign]


if __name__ == "__main__":
    arm(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
