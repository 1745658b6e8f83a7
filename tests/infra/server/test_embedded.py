"""The embedded server: shared, restarted, never left over; and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evolog.events.errors import LogDamagedError, LogUnavailableError, ServerError, StoreHeldError
from evolog.infra.log import connected, open_store
from evolog.infra.server import Address, embedded, named_server
from evolog.infra.server.home import Home, locked
from processes import alive, wait_for_end
from said import decision, new_run, paused


async def until(true: object, seconds: float = 15.0) -> None:
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{true} did not come true"
        await asyncio.sleep(0.02)


def test_it_is_shared_private_and_ends_with_the_last_user(home: Path) -> None:
    async def main() -> None:
        async with embedded(home) as first:
            async with embedded(home) as second:
                assert first == second
            content = Home(home).read()
            assert content is not None
            assert alive(content.server)
            assert first.url.startswith("nats://127.0.0.1:")
            assert stat.S_IMODE(os.stat(home).st_mode) == 0o700  # noqa: PTH116
            for file in (Home(home).server_file, Home(home).config):
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
            with pytest.raises(LogUnavailableError, match="refuses the token"):
                async with connected(Address(first.url, "wrong")):
                    pass
            assert first.token not in str(Home(home).server_log.read_text())

    asyncio.run(main())
    content = Home(home).read()
    wait_for_end(home)
    assert content is not None
    asyncio.run(until(lambda: not alive(content.server)))


def test_many_processes_start_one_server(home: Path) -> None:
    code = (
        "import asyncio, sys, pathlib\n"
        "from evolog.infra.server import embedded\n"
        "from evolog.infra.server.home import Home\n"
        "async def main():\n"
        "    home = pathlib.Path(sys.argv[1])\n"
        "    async with embedded(home) as address:\n"
        "        await asyncio.sleep(1.0)\n"
        "        print(address.url, Home(home).read().server)\n"
        "asyncio.run(main())\n"
    )
    users = [
        subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True) for _ in range(5)
    ]
    told = {user.communicate(timeout=60)[0] for user in users}
    assert len(told) == 1
    assert all(user.returncode == 0 for user in users)
    wait_for_end(home)


def test_a_killed_server_is_restarted_and_nothing_acknowledged_is_lost(home: Path) -> None:
    async def main() -> None:
        run = new_run()
        async with open_store(home) as store:
            seen: list[str] = []

            async def follow() -> None:
                async for stored in store.log.follow(run):
                    seen.append(stored.event.id)

            following = asyncio.create_task(follow())
            ids = []
            for i in range(120):
                if i in (30, 60, 90):
                    content = Home(home).read()
                    assert content is not None
                    os.kill(content.keeper if i == 60 else content.server, signal.SIGKILL)
                event = paused(run, str(i))
                await store.log.append(event)
                ids.append(event.id)
            read = [s.event.id async for s in store.log.read(run)]
            assert read == ids
            await until(lambda: len(seen) >= len(ids))
            assert seen == ids
            following.cancel()

    asyncio.run(main())
    wait_for_end(home)


def test_decisions_survive_a_kill_between_sending_and_acknowledgement(home: Path) -> None:
    async def main() -> None:
        run = new_run()
        async with open_store(home) as store:
            after, n = 0, 0
            for kill in range(4):
                content = Home(home).read()
                assert content is not None
                step = [decision(run, n + i) for i in range(40 if kill % 2 else 8)]
                deciding = asyncio.create_task(store.log.decide(step, after=after))
                await asyncio.sleep(0.002 * kill)
                os.kill(content.server, signal.SIGKILL)
                after, n = (await deciding)[-1], n + len(step)
                await until(lambda before=content.server: Home(home).read().server != before)  # type: ignore[union-attr]
            assert [s.event.n async for s in store.log.read(run)] == list(range(n))

    asyncio.run(main())
    wait_for_end(home)


def test_no_server_is_left_when_its_users_are_killed(home: Path) -> None:
    code = (
        "import asyncio, sys, pathlib\n"
        "from evolog.infra.server import embedded\n"
        "async def main():\n"
        "    async with embedded(pathlib.Path(sys.argv[1])):\n"
        "        print('up', flush=True)\n"
        "        await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    user = subprocess.Popen([sys.executable, "-c", code, str(home)], stdout=subprocess.PIPE, text=True)
    assert user.stdout is not None
    assert user.stdout.readline() == "up\n"
    content = Home(home).read()
    assert content is not None
    user.kill()
    user.wait()
    user.stdout.close()
    wait_for_end(home)
    asyncio.run(until(lambda: not alive(content.server) and not alive(content.keeper)))


def test_a_store_that_another_server_holds(home: Path) -> None:
    import fcntl

    files = Home(home)
    files.create()
    with files.store_lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("4711")
        held.flush()

        async def main() -> None:
            async with embedded(home):
                pass

        with pytest.raises(StoreHeldError, match=r"process 4711.*--home"):
            asyncio.run(main())
    wait_for_end(home)
    asyncio.run(main())  # and once it is free, it works
    wait_for_end(home)


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")

    async def main() -> None:
        async with embedded(blocked / "home"):
            pass

    with pytest.raises(ServerError, match=r"cannot be written.*--home"):
        asyncio.run(main())


def test_asking_for_more_care_than_a_running_server_takes(home: Path) -> None:
    async def main() -> None:
        async with embedded(home):
            with pytest.raises(ServerError, match="log.sync = 'always'"):
                async with embedded(home, sync="always"):
                    pass
        wait_for_end(home)
        async with embedded(home, sync="always"):
            assert "sync_interval: always" in Home(home).config.read_text()
            async with embedded(home, sync="default"):
                pass

    asyncio.run(main())
    wait_for_end(home)


def test_a_dead_server_and_a_wrong_address() -> None:
    async def main() -> None:
        with pytest.raises(LogUnavailableError, match=r"nats://127\.0\.0\.1:1: .*--nats"):
            async with connected(named_server("nats://127.0.0.1:1"), patience=0.5):
                pass

    asyncio.run(main())
    for wrong in ("localhost:4222", "http://host:1", "nats://"):
        with pytest.raises(ServerError, match="nats://HOST:PORT"):
            named_server(wrong)
    assert named_server("nats://secret@host:4222") == Address("nats://host:4222", "secret")


def blocks(home: Path) -> list[Path]:
    return sorted((home / "nats").glob("**/EVOLOG/msgs/*.blk"))


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_block_is_found_at_the_next_start(home: Path, damage: str) -> None:
    async def write() -> None:
        async with open_store(home) as store:
            run = new_run()
            for first in range(0, 2000, 250):
                await store.log.append(*(paused(run, f"{first + i}", "x" * 300) for i in range(250)))

    async def reopen() -> None:
        async with open_store(home, patience=5.0) as store:
            async for _ in store.log.read():
                pass

    asyncio.run(write())
    wait_for_end(home)
    block = blocks(home)[0]
    content = bytearray(block.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 0xFF
        block.write_bytes(content)
    else:
        block.write_bytes(content[: len(content) // 2])
    with pytest.raises(LogDamagedError, match=r"damaged|lacks"):
        asyncio.run(reopen())
    wait_for_end(home)


def test_a_stream_that_could_forget_is_refused(home: Path) -> None:
    async def main() -> None:
        async with open_store(home) as store:
            info = await store.js.api("STREAM.INFO.EVOLOG")
            with pytest.raises(LogDamagedError, match="max_msgs"):
                await store.js.api("STREAM.UPDATE.EVOLOG", {**info["config"], "max_msgs": 10})
                async with open_store(home):
                    pass

    asyncio.run(main())
    wait_for_end(home)


def test_the_log_refuses_deletes_and_purges(home: Path) -> None:
    from evolog.infra.log.jetstream import ApiError

    async def main() -> None:
        async with open_store(home) as store:
            run = new_run()
            await store.log.append(paused(run, "kept"))
            for name, body in (("MSG.DELETE", {"seq": 1}), ("PURGE", {})):
                with pytest.raises(ApiError, match="not permitted"):
                    await store.js.api(f"STREAM.{name}.EVOLOG", body)
            assert len([s async for s in store.log.read(run)]) == 1

    asyncio.run(main())
    wait_for_end(home)
    assert not locked(Home(home).keeper_lock)
