"""The log on JetStream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from ...events import STREAM, Event, decode, encode, run_filter, subject_of
from ...events.envelope import Origin
from ...events.errors import ConflictError, LogError
from .feed import Feed
from .jetstream import DUPLICATE_IN_BATCH, WRONG_LAST_SEQUENCE, ApiError, JetStream, NoAnswerError
from .port import Stored
from .streams import check_gaps, damaged

#: A batch costs 8 ms however small, an append half a millisecond (facts: speed).
_BATCH_FROM = 17
_BATCH_MOST = 1_000
_WINDOW = 256
_ATTEMPTS = 200


class NatsLog:
    """`evolog.infra.log.Log` on a stream of a NATS server."""

    def __init__(self, js: JetStream) -> None:
        self._js = js
        self._batches = 0

    async def append(self, *facts: Event) -> list[int]:
        messages = [(subject_of(fact), encode(fact), {"Nats-Msg-Id": fact.id}) for fact in facts]
        if len(messages) == 1:
            return [(await self._js.publish(*messages[0])).seq]
        found: list[int] = []
        for first in range(0, len(messages), _WINDOW):
            acks = await asyncio.gather(*(self._js.publish(*one) for one in messages[first : first + _WINDOW]))
            found += [ack.seq for ack in acks]
        return found

    async def decide(self, decisions: Sequence[Event], *, after: int) -> list[int]:
        if not decisions:
            return []
        run = decisions[0].run
        done: list[int] = []
        for _ in range(_ATTEMPTS):
            last = done[-1] if done else after
            rest = decisions[len(done) :]
            if not rest:
                return done
            try:
                if len(rest) >= _BATCH_FROM:
                    done += await self._batch(rest[:_BATCH_MOST], last)
                else:
                    for decision in rest:
                        done.append(await self._decide_one(decision, done[-1] if done else after))
            except (NoAnswerError, ApiError) as error:
                if isinstance(error, ApiError) and error.code not in (WRONG_LAST_SEQUENCE, DUPLICATE_IN_BATCH):
                    raise
                # Stored or not? The error does not tell (facts: the duplicate window's trap), the tail does.
                await asyncio.sleep(0 if isinstance(error, ApiError) else 0.05)
                done = await self._reconcile(run, decisions, after)
                if isinstance(error, ApiError) and len(done) < len(decisions):
                    tail = await self.last(run, origin="decision")
                    if tail is not None and tail.seq != (done[-1] if done else after):
                        raise self._conflict(run, tail.event, after) from None
        raise LogError(f"run {run}: {len(decisions)} decisions could not be appended in {_ATTEMPTS} attempts")

    async def _decide_one(self, decision: Event, after: int) -> int:
        ack = await self._js.publish_once(
            subject_of(decision), encode(decision), {"Nats-Msg-Id": decision.id, **_condition(decision.run, after)}
        )
        if ack.duplicate:
            # A repetition on a replicated stream, or this id was decided before: the tail tells.
            raise NoAnswerError("duplicate")
        return ack.seq

    async def _batch(self, decisions: Sequence[Event], after: int) -> list[int]:
        if len(decisions) == 1:
            return [await self._decide_one(decisions[0], after)]
        self._batches += 1
        batch = self._js.client.new_inbox()[-22:]
        for number, decision in enumerate(decisions, 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number), "Nats-Msg-Id": decision.id}
            if number == 1:
                headers.update(_condition(decision.run, after))
            if number < len(decisions):
                await self._js.client.publish(subject_of(decision), encode(decision), headers=headers)
            else:
                headers["Nats-Batch-Commit"] = "1"
                ack = await self._js.publish_once(subject_of(decision), encode(decision), headers)
                return list(range(ack.seq - len(decisions) + 1, ack.seq + 1))
        raise AssertionError("a batch has a last message")

    async def _reconcile(self, run: str, decisions: Sequence[Event], after: int) -> list[int]:
        """Sequences of those of `decisions` that are in the log already, behind sequence `after`."""
        found: list[int] = []
        tip = await self.tip()
        feed = Feed(self._js, STREAM, run_filter(run, "decision"), start=after + 1, until=tip)
        async for seq, data in feed.messages():
            if len(found) >= len(decisions) or data != encode(decisions[len(found)]):
                raise self._conflict(run, decode(data), after)
            found.append(seq)
        return found

    def _conflict(self, run: str, event: Event, after: int) -> ConflictError:
        return ConflictError(
            f"run {run}: {event.by.role} {event.by.host}/{event.by.process} appended decision {event.n} behind "
            f"sequence {after}; it directs the run now"
        )

    async def read(
        self, run: str | None = None, *, start: int = 1, until: int | None = None
    ) -> AsyncIterator[Stored]:
        async for seq, data in self.read_raw(run, start=start, until=until):
            yield Stored(seq, decode(data))

    async def read_raw(
        self, run: str | None = None, *, start: int = 1, until: int | None = None
    ) -> AsyncIterator[tuple[int, bytes]]:
        """As `read`, with the bytes as they are stored."""
        tip = await self.tip()
        end = tip if until is None else min(until, tip)
        expected, count = start, 0
        async for seq, data in Feed(self._js, STREAM, run_filter(run), start=start, until=end).messages():
            if run is None and seq != expected:
                raise damaged(self._js.place, f"sequence {expected} is missing before {seq}")
            expected = seq + 1
            count += 1
            yield seq, data
        # A server that has not met the damage yet tells of no gap until the block has been read.
        await self.tip()
        if run is None and expected <= end:
            raise damaged(self._js.place, f"sequences {expected} to {end} are missing")
        if run is not None and start == 1 and end == tip:
            there = await self._count(run)
            if there > count and await self.tip() == tip:
                raise damaged(self._js.place, f"of {there} events of run {run} only {count} can be read")

    async def _count(self, run: str) -> int:
        info = await self._js.api(f"STREAM.INFO.{STREAM}", {"subjects_filter": run_filter(run)})
        return sum((info["state"].get("subjects") or {}).values())

    async def follow(
        self, run: str | None = None, *, start: int = 1, origin: Origin | None = None
    ) -> AsyncIterator[Stored]:
        async for seq, data in Feed(self._js, STREAM, run_filter(run, origin), start=start).messages():
            yield Stored(seq, decode(data))

    async def last(self, run: str, kind: str | None = None, origin: Origin | None = None) -> Stored | None:
        message = await self._js.direct_get(STREAM, {"last_by_subj": run_filter(run, origin, kind)})
        if message is None or message.headers is None:
            return None
        return Stored(int(message.headers["Nats-Sequence"]), decode(message.data))

    async def tip(self) -> int:
        info = await self._js.api(f"STREAM.INFO.{STREAM}")
        return check_gaps(info["state"], self._js.place)

    async def runs(self) -> list[str]:
        found: list[str] = []
        while True:
            body = {"subjects_filter": run_filter(None, "fact", "run.started"), "offset": len(found)}
            info = await self._js.api(f"STREAM.INFO.{STREAM}", body)
            subjects = info["state"].get("subjects") or {}
            found += [subject.split(".")[1] for subject in subjects]
            if not subjects or len(found) >= int(info.get("total", len(found))):
                return sorted(found)


def _condition(run: str, after: int) -> dict[str, str]:
    return {
        "Nats-Expected-Last-Subject-Sequence": str(after),
        "Nats-Expected-Last-Subject-Sequence-Subject": run_filter(run, "decision"),
    }
