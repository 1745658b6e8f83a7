"""The log in memory, for users' tests and notebooks: same behaviour, nothing durable."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from ...events import Blob, Event, blob_of, decode, encode
from ...events.envelope import Origin
from ...events.errors import BlobMissingError, ConflictError
from .port import Stored, Work


class MemoryLog:
    """`evolog.infra.log.Log` without a server. Events pass through their bytes, as they would on a server."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, Origin, str, bytes]] = []
        self._by_id: dict[str, int] = {}
        self._more = asyncio.Condition()

    async def append(self, *facts: Event) -> list[int]:
        found = []
        for fact in facts:
            data = encode(fact)
            seq = self._by_id.get(fact.id)
            if seq is None:
                seq = self._store(fact, data)
            found.append(seq)
        await self._notify()
        return found

    async def decide(self, decisions: Sequence[Event], *, after: int) -> list[int]:
        if not decisions:
            return []
        run = decisions[0].run
        encoded = [encode(decision) for decision in decisions]
        tail = [
            (seq, data)
            for seq, (owner, origin, _, data) in enumerate(self._messages, 1)
            if owner == run and origin == "decision"
        ]
        behind = [(seq, data) for seq, data in tail if seq > after]
        last = max((seq for seq, _ in tail if seq <= after), default=0)
        if [data for _, data in behind] == encoded[: len(behind)] and last == after:
            # Nothing, or a repetition after a lost acknowledgement.
            found = [seq for seq, _ in behind]
            found += [
                self._store(decision, data)
                for decision, data in zip(decisions[len(behind) :], encoded[len(behind) :], strict=True)
            ]
            await self._notify()
            return found
        event = decode(tail[-1][1]) if tail else None
        who = f"{event.by.role} {event.by.host}/{event.by.process} appended decision {event.n}" if event else "nobody"
        raise ConflictError(f"run {run}: {who} behind sequence {after}; it directs the run now")

    def _store(self, event: Event, data: bytes) -> int:
        self._messages.append((event.run, event.origin, event.kind, data))
        seq = len(self._messages)
        self._by_id.setdefault(event.id, seq)
        return seq

    async def _notify(self) -> None:
        async with self._more:
            self._more.notify_all()

    async def read(
        self, run: str | None = None, *, start: int = 1, until: int | None = None
    ) -> AsyncIterator[Stored]:
        end = len(self._messages) if until is None else min(until, len(self._messages))
        for seq in range(max(1, start), end + 1):
            owner, _, _, data = self._messages[seq - 1]
            if run is None or owner == run:
                yield Stored(seq, decode(data))

    async def follow(
        self, run: str | None = None, *, start: int = 1, origin: Origin | None = None
    ) -> AsyncIterator[Stored]:
        position = max(1, start)
        while True:
            async with self._more:
                await self._more.wait_for(lambda: len(self._messages) >= position)  # noqa: B023
            end = len(self._messages)
            async for stored in self.read(run, start=position, until=end):
                if origin in (None, "fact" if stored.event.n is None else "decision"):
                    yield stored
            position = end + 1

    async def last(self, run: str, kind: str | None = None, origin: Origin | None = None) -> Stored | None:
        for seq in range(len(self._messages), 0, -1):
            owner, its_origin, its_kind, data = self._messages[seq - 1]
            if owner == run and kind in (None, its_kind) and origin in (None, its_origin):
                return Stored(seq, decode(data))
        return None

    async def tip(self) -> int:
        return len(self._messages)

    async def runs(self) -> list[str]:
        return sorted({run for run, _, kind, _ in self._messages if kind == "run.started"})


class MemoryBlobs:
    """`evolog.infra.log.Blobs` without a server."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    async def put(self, *contents: bytes) -> list[Blob]:
        blobs = [blob_of(content) for content in contents]
        for blob, content in zip(blobs, contents, strict=True):
            self._contents.setdefault(blob.sha256, content)
        return blobs

    async def get(self, blob: Blob) -> bytes:
        try:
            return self._contents[blob.sha256]
        except KeyError:
            raise BlobMissingError(f"blob {blob.sha256} ({blob.size} bytes) is not in memory") from None


class MemoryWorkQueue:
    """`evolog.infra.log.WorkQueue` without a server; `take` hands out what `put` was given."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[Work] = asyncio.Queue()
        self._open: list[Work] = []

    async def put(self, *work: Work) -> None:
        for one in work:
            self._open.append(one)
            self._waiting.put_nowait(one)

    async def purge(self, run: str) -> None:
        self._open = [one for one in self._open if one.run != run]
        kept: asyncio.Queue[Work] = asyncio.Queue()
        while not self._waiting.empty():
            one = self._waiting.get_nowait()
            if one.run != run:
                kept.put_nowait(one)
        while not kept.empty():
            self._waiting.put_nowait(kept.get_nowait())

    async def count(self, run: str) -> int:
        return sum(one.run == run for one in self._open)

    async def take(self) -> Work:
        """The next pointer, waiting for one."""
        return await self._waiting.get()

    def done(self, work: Work) -> None:
        """Acknowledge: the request has its answer."""
        if work in self._open:
            self._open.remove(work)
