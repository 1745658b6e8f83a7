"""What a worker does with work that it may not be the first to take up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from evolog.events import encode
from evolog.infra.log import open_store
from evolog.infra.log.nats_work import Pointer
from evolog.infra.log.streams import WORK_ROOT
from runs import assert_nothing_left, evolog, finish, start, write_task


@pytest.mark.parametrize(("server", "again"), [("an earlier start of the server", False), (None, True)])
def test_answered_work_that_comes_back_is_not_done_again(tmp_path: Path, server: str | None, again: bool) -> None:
    """nats-server, killed, forgets that it delivered a message and that it was acknowledged: it looks new then."""
    home = tmp_path / "home"
    evolog(home, "run", str(write_task(tmp_path / "task", candidates=6)), "--quiet")

    async def bring_back() -> tuple[int, int]:
        async with open_store(home) as store:
            tip, count = await store.log.tip(), 0
            async for seq, event in store.log.read():
                if event.kind not in ("proposal.requested", "execution.requested"):
                    continue
                role = "proposing" if event.kind.startswith("proposal") else "evaluation"
                assert event.place is not None
                pointer = Pointer(
                    role=role,
                    run=event.run,
                    place=event.place,
                    seq=seq,
                    again=again,
                    server=server or str(store.js.client._server_info["server_id"]),
                    request=encode(event).decode(),
                )
                await store.js.publish(f"{WORK_ROOT}.{role}.{event.run}", msgspec.json.encode(pointer), {})
                count += 1
            run = event.run
            worker = start(home, "worker")
            while await store.work.count(run):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            worker.terminate()
            finish(worker)
            assert await store.log.tip() == tip, "a request was taken up a second time"
            return tip, count

    _, count = asyncio.run(bring_back())
    assert count > 6
    assert_nothing_left(home)
