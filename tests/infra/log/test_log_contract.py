"""What every log, blob store and work queue must do: the same tests in memory and on a real nats-server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from evolog.events import Blob, blob_of
from evolog.events.errors import BlobMissingError, ConflictError, UnknownKindError
from evolog.infra.log import (
    Blobs,
    Log,
    MemoryBlobs,
    MemoryLog,
    MemoryWorkQueue,
    Stored,
    Work,
    WorkQueue,
    open_store,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from said import OTHER, decision, new_run, paused, started


class Trio(NamedTuple):
    log: Log
    blobs: Blobs
    work: WorkQueue


Test = Callable[[Trio], Awaitable[None]]


@pytest.fixture(params=["memory", "nats"])
def store(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs an async test against one implementation."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Trio]:
        if request.param == "memory":
            yield Trio(MemoryLog(), MemoryBlobs(), MemoryWorkQueue())
        else:
            home: Path = request.getfixturevalue("shared_home")
            async with open_store(home) as real:
                yield Trio(real.log, real.blobs, real.work)

    def run(test: Test) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), opened() as trio:
                await test(trio)

        asyncio.run(main())

    return run


async def collected(events: Any) -> list[Stored]:
    return [stored async for stored in events]


def test_what_is_appended_is_read_back_in_order(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        facts = [paused(run, f"f{i}", reason=f"Grüße {i}") for i in range(300)]
        sequences = await trio.log.append(*facts)
        read = await collected(trio.log.read(run))
        assert sorted(sequences) == [stored.seq for stored in read]
        assert {stored.event.id: stored.event for stored in read} == {fact.id: fact for fact in facts}
        [last] = await trio.log.append(paused(run, "later"))
        assert last == max(sequences) + 1
        assert [stored.seq for stored in await collected(trio.log.read(run, start=last))] == [last]
        assert await collected(trio.log.read(run, start=last + 1)) == []

    store(test)


def test_a_fact_is_stored_once(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        fact = paused(run, "once")
        first = await trio.log.append(fact)
        assert await trio.log.append(fact) == first
        assert len(await collected(trio.log.read(run))) == 1

    store(test)


def test_reading_ends_at_the_newest_event_or_where_told(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run, other = new_run(), new_run()
        a = await trio.log.append(paused(run, "a"))
        await trio.log.append(paused(other, "b"))
        c = await trio.log.append(paused(run, "c"))
        await trio.log.append(paused(other, "d"))
        assert [s.seq for s in await collected(trio.log.read(run))] == a + c
        assert [s.seq for s in await collected(trio.log.read(run, until=c[0] - 1))] == a
        everything = await collected(trio.log.read(start=a[0]))
        assert [s.seq for s in everything] == list(range(a[0], a[0] + len(everything)))
        assert await trio.log.tip() == everything[-1].seq
        assert await collected(trio.log.read("nobody")) == []

    store(test)


def test_following_gives_the_past_and_then_what_comes(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        await trio.log.append(paused(run, "past"))
        seen: list[str] = []

        async def follow() -> None:
            async with aclosing(trio.log.follow(run)) as events:  # type: ignore[type-var]
                async for stored in events:
                    seen.append(stored.event.id.partition("/")[2])
                    if len(seen) == 51:
                        return

        following = asyncio.create_task(follow())
        for i in range(50):
            await trio.log.append(paused(run, str(i)))
            await trio.log.append(paused(new_run(), "of another run"))
        await following
        assert seen == ["past", *map(str, range(50))]

    store(test)


def test_following_facts_alone_leaves_decisions_out(store: Any) -> None:
    async def work(trio: Trio) -> None:
        run = new_run()
        await trio.log.append(paused(run, "one"))
        [first] = await trio.log.decide([decision(run, 0)], after=0)
        found: list[str] = []

        async def follow() -> None:
            async with aclosing(trio.log.follow(run, origin="fact")) as events:  # type: ignore[type-var]
                async for stored in events:
                    found.append(stored.event.id)
                    if len(found) == 2:
                        return

        following = asyncio.create_task(follow())
        await trio.log.decide([decision(run, 1)], after=first)
        await trio.log.append(paused(run, "two"))
        await following
        assert found == [f"{run}/one", f"{run}/two"]

    store(work)


@pytest.mark.parametrize("count", [1, 5, 16, 17, 60])
def test_decisions_are_appended_in_order_and_once(store: Any, count: int) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        await trio.log.append(paused(run, "before"))
        decisions = [decision(run, n) for n in range(count)]
        sequences = await trio.log.decide(decisions, after=0)
        await trio.log.append(paused(run, "between"))
        # As a director does whose acknowledgement was lost: the same again is no conflict and stores nothing.
        assert await trio.log.decide(decisions, after=0) == sequences
        more = await trio.log.decide([decision(run, count)], after=sequences[-1])
        read = [s for s in await collected(trio.log.read(run)) if s.event.n is not None]
        assert [s.event.n for s in read] == list(range(count + 1))
        assert [s.seq for s in read] == [*sequences, *more]

    store(test)


def test_half_a_step_is_completed(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        step = [decision(run, n) for n in range(30)]
        half = await trio.log.decide(step[:11], after=0)
        assert (await trio.log.decide(step, after=0))[:11] == half
        assert [s.event.n for s in await collected(trio.log.read(run))] == list(range(30))

    store(test)


@pytest.mark.parametrize("count", [1, 40])
def test_two_directors_never_both_write(store: Any, count: int) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        [at] = await trio.log.decide([decision(run, 0)], after=0)
        await trio.log.decide([decision(run, 1, by=OTHER)], after=at)
        with pytest.raises(ConflictError, match=r"director there/2 appended decision 1"):
            await trio.log.decide([decision(run, n) for n in range(1, 1 + count)], after=at)
        assert [s.event.by.host for s in await collected(trio.log.read(run))] == ["here", "there"]
        # Decisions of one run are no condition on another's.
        await trio.log.decide([decision(new_run(), 0)], after=0)

    store(test)


def test_racing_directors_leave_one_dense_series(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()

        async def direct(reason: str) -> int:
            after, n = 0, 0
            while True:
                try:
                    after = (await trio.log.decide([decision(run, n, reason=reason)], after=after))[-1]
                except ConflictError:
                    return n
                n += 1
                if n == 20:
                    return n

        counts = await asyncio.gather(*(direct(f"director {i}") for i in range(4)))
        read = await collected(trio.log.read(run))
        assert [s.event.n for s in read] == list(range(max(counts)))
        assert len({s.event.data.reason for s in read}) == 1  # type: ignore[union-attr]

    store(test)


def test_the_last_event_of_a_kind_or_origin(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        assert await trio.log.last(run) is None
        await trio.log.append(started(run))
        [decided] = await trio.log.decide([decision(run, 0)], after=0)
        [newest] = await trio.log.append(paused(run, "p"))
        for wanted, found in (
            ({}, newest),
            ({"origin": "decision"}, decided),
            ({"kind": "request.cancelled"}, decided),
            ({"kind": "run.paused"}, newest),
        ):
            stored = await trio.log.last(run, **wanted)
            assert stored is not None
            assert stored.seq == found
        assert run in await trio.log.runs()

    store(test)


def test_a_kind_that_nobody_registered_is_not_written(store: Any) -> None:
    from evolog.events.envelope import Payload

    class Stranger(Payload, frozen=True, kw_only=True):
        KIND = "stranger.came"
        ORIGIN = "fact"

    async def test(trio: Trio) -> None:
        run = new_run()
        import msgspec

        event = msgspec.structs.replace(paused(run, "x"), kind="stranger.came", data=Stranger())
        with pytest.raises(UnknownKindError):
            await trio.log.append(event)
        assert await collected(trio.log.read(run)) == []

    store(test)


def test_blobs_come_back_by_digest(store: Any) -> None:
    async def test(trio: Trio) -> None:
        contents = [b"", b"one", b"one", b"\x00" * 524_288, b"big" * 300_000]
        blobs = await trio.blobs.put(*contents)
        assert blobs == [blob_of(content) for content in contents]
        for blob, content in zip(blobs, contents, strict=True):
            assert await trio.blobs.get(blob) == content
        assert await trio.blobs.put(*contents) == blobs

    store(test)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_a_missing_blob_says_which(store: Any, size: int) -> None:
    async def test(trio: Trio) -> None:
        missing = Blob(sha256="0" * 64, size=size)
        with pytest.raises(BlobMissingError, match="0" * 64):
            await trio.blobs.get(missing)

    store(test)


def test_work_is_counted_and_purged_by_run(store: Any) -> None:
    async def test(trio: Trio) -> None:
        run, other = new_run(), new_run()
        await trio.work.put(*(Work("proposing", run, str(i)) for i in range(3)), Work("evaluation", run, "9"))
        await trio.work.put(Work("evaluation", other, "1"))
        assert (await trio.work.count(run), await trio.work.count(other)) == (4, 1)
        await trio.work.purge(run)
        assert (await trio.work.count(run), await trio.work.count(other)) == (0, 1)
        await trio.work.purge(other)

    store(test)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.booleans(), st.integers(1, 25)), max_size=8))
def test_any_mixture_of_facts_and_decisions_is_read_as_it_was_written(
    store: Any, steps: list[tuple[bool, int]]
) -> None:
    async def test(trio: Trio) -> None:
        run = new_run()
        written: dict[int, str] = {}
        after = n = 0
        for number, (decides, count) in enumerate(steps):
            if decides:
                events = [decision(run, n + i) for i in range(count)]
                sequences = await trio.log.decide(events, after=after)
                after, n = sequences[-1], n + count
            else:
                events = [paused(run, f"{number}-{i}") for i in range(count)]
                sequences = await trio.log.append(*events)
            written.update({seq: event.id for seq, event in zip(sequences, events, strict=True)})
        read = await collected(trio.log.read(run))
        assert {s.seq: s.event.id for s in read} == written
        assert [s.seq for s in read] == sorted(written)

    store(test)
