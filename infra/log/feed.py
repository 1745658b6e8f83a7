"""Reading a stream in order, fast and without ever missing a message.

An ordered consumer with a callback is the fastest way that nats-py offers (facts: speed). The
consumer is ephemeral: whenever it is lost (the server was killed) or a message is missing (the
connection was), another is made that goes on after the last message seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from ...events.errors import LogError
from .jetstream import JetStream
from .streams import damaged

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_HEARTBEAT_SECONDS = 2.0
#: Messages waiting for a slow reader, above which the server is held back by its flow control.
_HIGH_WATER = 20_000
_FRUITLESS_RESETS = 3


class Feed:
    """Messages of `stream` on `subject` from sequence `start` on.

    Parameters
    ----------
    until
        Last sequence wanted (None: go on for ever).
    """

    def __init__(self, js: JetStream, stream: str, subject: str, *, start: int = 1, until: int | None = None) -> None:
        self._js = js
        self._stream = stream
        self._subject = subject
        self._next = max(1, start)
        self._until = until
        self._ready: deque[tuple[int, bytes]] = deque()
        self._arrived = asyncio.Event()
        self._drained = asyncio.Event()
        self._generation = 0
        self._expected = 1
        self._broken = False
        self._last_seen = time.monotonic()
        self._subscription: Any = None
        self._consumer = ""
        self._pending = 0

    async def messages(self) -> AsyncIterator[tuple[int, bytes]]:
        """Sequence and payload of each message, in order.

        Raises
        ------
        LogDamagedError
            If the server says that more messages come and does not deliver them.
        LogUnavailableError
            If it stays away.
        """
        if self._until is not None and self._next > self._until:
            return
        forget = self._js.on_reconnect(self._break)
        resets, at_reset = 0, self._next
        try:
            await self._open()
            while True:
                while self._ready:
                    seq, data = self._ready.popleft()
                    if self._until is not None and seq > self._until:
                        return
                    yield seq, data
                    if seq == self._until:
                        return
                self._drained.set()
                if self._until is not None and self._pending == 0 and not self._ready and not self._broken:
                    return
                self._arrived.clear()
                if not self._ready and not self._broken:
                    # asyncio.wait_for of Python 3.11 loses a cancellation that comes with the event.
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_HEARTBEAT_SECONDS):
                            await self._arrived.wait()
                silent = time.monotonic() - self._last_seen > 2.5 * _HEARTBEAT_SECONDS
                if (self._broken or silent) and not self._ready:
                    resets = resets + 1 if self._next == at_reset and self._pending else 0
                    at_reset = self._next
                    if resets > _FRUITLESS_RESETS:
                        raise damaged(self._js.place, f"sequence {self._next} is not delivered")
                    await self._open()
        finally:
            forget()
            self._generation += 1
            self._drained.set()
            await self._close()

    def _break(self) -> None:
        self._broken = True
        self._arrived.set()

    async def _open(self) -> None:
        await self._close()
        self._generation += 1
        self._expected = 1
        self._broken = False
        client = self._js.client
        inbox = client.new_inbox()
        self._subscription = await client.subscribe(
            inbox, cb=self._receiver(self._generation), pending_msgs_limit=-1, pending_bytes_limit=-1
        )
        config = {
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._next,
            "deliver_subject": inbox,
            "filter_subject": self._subject,
            "ack_policy": "none",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": int(_HEARTBEAT_SECONDS * 1e9),
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": 30 * 10**9,
        }
        # The server may deliver before it answers: what has arrived by then lowers what is pending.
        self._pending = -1
        info = await self._js.api(f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config})
        self._consumer = info["name"]
        if self._pending < 0:
            self._pending = int(info["num_pending"]) + int(info["delivered"]["consumer_seq"])
        self._last_seen = time.monotonic()

    def _receiver(self, generation: int) -> Any:
        async def receive(message: Msg) -> None:
            if generation != self._generation:
                return
            self._last_seen = time.monotonic()
            headers = message.headers
            if headers is not None and headers.get("Status") == "100":
                await self._control(message, headers)
                return
            # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
            tokens = message.reply.split(".")
            if len(tokens) > 9:  # with domain and account in front, and a random token behind
                tokens = tokens[2:]
            if int(tokens[6]) != self._expected:
                self._break()
                return
            self._expected += 1
            seq = int(tokens[5])
            self._next = seq + 1
            self._pending = int(tokens[8])
            self._ready.append((seq, message.data))
            if not self._arrived.is_set():
                self._arrived.set()
            if len(self._ready) >= _HIGH_WATER:
                self._drained.clear()
                await self._drained.wait()

        return receive

    async def _control(self, message: Msg, headers: dict[str, str]) -> None:
        if message.reply:  # flow control: the server waits for this answer
            await self._js.client.publish(message.reply)
        else:
            stalled = headers.get("Nats-Consumer-Stalled")
            if stalled:
                await self._js.client.publish(stalled)
            last = headers.get("Nats-Last-Consumer")
            if last is not None and int(last) != self._expected - 1:
                self._break()

    async def _close(self) -> None:
        if self._subscription is not None:
            subscription, self._subscription = self._subscription, None
            with contextlib.suppress(Exception):
                await subscription.unsubscribe()
            consumer, self._consumer = self._consumer, ""
            if consumer and self._js.client.is_connected:
                with contextlib.suppress(LogError, asyncio.CancelledError):
                    # Nobody waits for the answer: an ephemeral consumer ends by itself in any case.
                    await self._js.client.publish(f"$JS.API.CONSUMER.DELETE.{self._stream}.{consumer}")
