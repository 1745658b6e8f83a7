"""Workers: FastStream subscribers that take pointers to open requests from the work queue.

Each slot is a pull subscriber of its own with a batch of one, all on one durable consumer for each
role: nothing is fetched before there is a hand free for it, so nothing waits unseen while its
acknowledgement runs out. Long work reports progress to the broker. Any number of processes on any
number of hosts share the durables.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from ..events import Event, decode, run_filter
from ..events.errors import EvologError, LogError, LogUnavailableError
from ..events.kinds import RequestCancelled
from ..infra.log.nats_work import Pointer, server_start
from ..infra.log.streams import WORK, WORK_ROOT
from ..infra.tasks import cancel
from .answering import Answerer, RetryError

if TYPE_CHECKING:
    from faststream.nats import NatsBroker
    from nats.aio.msg import Msg

#: Seconds after which the broker gives unacknowledged work to another worker.
ACK_WAIT = 10.0
#: Seconds to wait after the store could not be reached, before the pointer comes back.
STORE_RETRY_SECONDS = 1.0
_FETCH_SECONDS = 5.0

logger = logging.getLogger(__name__)


class Hands:
    """The slots of one process, and what each is doing.

    Parameters
    ----------
    answerers
        For each role the answerer that its slots share.
    """

    def __init__(self, answerers: Mapping[str, Answerer]) -> None:
        self._answerers = answerers
        self._busy: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def take(self, role: str, message: Msg) -> None:
        """Answer the request that a message points to, then acknowledge it."""
        pointer = msgspec.json.decode(message.data, type=Pointer)
        event = decode(pointer.request.encode())
        restarted = pointer.server != server_start(message._client)
        again = pointer.again or restarted or message.metadata.num_delivered > 1
        assert event.place is not None
        key = (event.run, event.place)
        if key in self._busy:
            # A redelivery of what this process is still at: its progress reports got lost.
            await message.nak(delay=ACK_WAIT)
            return
        work = asyncio.create_task(self._answerers[role].answer(event, again=again, seq=pointer.seq))
        self._busy[key] = work
        heartbeat = asyncio.create_task(_report_progress(message))
        try:
            await work
        except asyncio.CancelledError:
            if not work.cancelled() or asyncio.current_task().cancelling():  # type: ignore[union-attr]
                work.cancel()
                raise
            await message.ack()  # the strategy no longer wants the answer
        except RetryError as retry:
            logger.warning("%s: %s; again in %g s", event.id, retry, retry.seconds)
            await message.nak(delay=retry.seconds)
        except LogError as error:
            logger.warning("%s: %s; again in %g s", event.id, error, STORE_RETRY_SECONDS)
            with suppress(Exception):  # the broker is away: the pointer comes back by itself
                await message.nak(delay=STORE_RETRY_SECONDS)
        else:
            await message.ack()
        finally:
            heartbeat.cancel()
            del self._busy[key]

    def cancelled(self, event: Event) -> None:
        """Stop what this process does for a cancelled request."""
        if isinstance(event.data, RequestCancelled):
            work = self._busy.get((event.run, event.data.request))
            if work is not None:
                work.cancel()

    async def idle(self) -> None:
        """Cancel everything and wait until all process trees are gone."""
        await cancel(*self._busy.values())


async def _report_progress(message: Msg) -> None:
    while True:
        await asyncio.sleep(ACK_WAIT / 3)
        await message.in_progress()


@asynccontextmanager
async def working(url: str, hands: Hands, slots: Mapping[str, int]) -> AsyncIterator[NatsBroker]:
    """Work in this process: `slots` says how many requests of each role are answered at once.

    Parameters
    ----------
    url
        Of the server, with its token: ``nats://token@127.0.0.1:4222``.

    Raises
    ------
    LogUnavailableError
        If the server cannot be reached.
    """
    import nats.errors
    from faststream import AckPolicy
    from faststream.nats import JStream, NatsBroker, PullSub
    from nats.js.api import AckPolicy as ConsumerAck
    from nats.js.api import ConsumerConfig

    broker = NatsBroker(
        url,
        apply_types=False,
        logger=None,
        graceful_timeout=None,
        max_reconnect_attempts=-1,
        reconnect_time_wait=0,
        decoder=_as_it_is,
    )
    stream = JStream(WORK, declare=False)
    for role, count in slots.items():
        config = ConsumerConfig(
            durable_name=role,
            ack_policy=ConsumerAck.EXPLICIT,
            ack_wait=ACK_WAIT,
            max_deliver=-1,
            max_ack_pending=100_000,
            filter_subject=f"{WORK_ROOT}.{role}.*",
        )
        for _ in range(count):
            broker.subscriber(
                f"{WORK_ROOT}.{role}.*",
                stream=stream,
                durable=role,
                config=config,
                pull_sub=PullSub(batch_size=1, timeout=_FETCH_SECONDS),
                ack_policy=AckPolicy.MANUAL,
                no_reply=True,
            )(_handler(role, hands))
    try:
        connection = await broker.connect()
    except (OSError, nats.errors.Error) as error:
        raise LogUnavailableError(f"no NATS server answers at {url.rpartition('@')[2]}: {error}") from error

    async def on_cancelled(message: Msg) -> None:
        with suppress(EvologError):
            hands.cancelled(decode(message.data))

    await connection.subscribe(run_filter(origin="decision", kind="request.cancelled"), cb=on_cancelled)
    await broker.start()
    try:
        yield broker
    finally:
        await hands.idle()
        await broker.stop()


async def _as_it_is(message: Any, _: Any = None) -> Any:
    return message


def _handler(role: str, hands: Hands) -> Any:
    async def handle(message: Any) -> None:
        await hands.take(role, message.raw_message)

    return handle
