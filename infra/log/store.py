"""Opening everything that a server keeps: log, blobs and work queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ...events.errors import LogUnavailableError
from ..server import Address, embedded, named_server
from .jetstream import JetStream, connect_jetstream
from .lease import Lease, leased
from .nats_blobs import NatsBlobs
from .nats_log import NatsLog
from .nats_work import NatsWorkQueue
from .streams import ensure_streams

_STARTING_SECONDS = 15.0


class Store(NamedTuple):
    """What one server keeps. `address` has the token; it is never printed."""

    log: NatsLog
    blobs: NatsBlobs
    work: NatsWorkQueue
    address: Address
    js: JetStream

    def leased(self, run: str) -> AbstractAsyncContextManager[Lease]:
        """Hold the lease of a run while inside (see `evolog.infra.log.lease`)."""
        return leased(self.js, run)


@asynccontextmanager
async def connected(
    address: Address, *, patience: float = 60.0, replicas: int = 1, starting_seconds: float = 0.0
) -> AsyncIterator[Store]:
    """Use a server that is running.

    Parameters
    ----------
    starting_seconds
        For how long a refused connection is tried again: the embedded server may just be restarted.
    patience
        Seconds for which a server that does not answer is asked again.
    replicas
        Of each stream, if it has to be made.

    Raises
    ------
    LogUnavailableError
        If it cannot be reached.
    LogDamagedError
        If its log has a gap or a limit.
    """
    js = await _connect(address, patience, starting_seconds)
    try:
        await ensure_streams(js, replicas)
        yield Store(NatsLog(js), NatsBlobs(js), NatsWorkQueue(js), address, js)
    finally:
        with suppress(Exception):
            await js.client.close()


@asynccontextmanager
async def open_store(
    home: Path, nats: str | None = None, *, sync: str | None = None, patience: float = 60.0
) -> AsyncIterator[Store]:
    """Use the server at the URL `nats`, else the embedded one of the data directory `home`.

    Raises
    ------
    ServerError, LogError
        If it cannot be used.
    """
    if nats:
        async with connected(named_server(nats), patience=patience) as store:
            yield store
    else:
        async with (
            embedded(home, sync=sync) as address,
            connected(address, patience=patience, starting_seconds=_STARTING_SECONDS) as store,
        ):
            yield store


async def _connect(address: Address, patience: float, starting_seconds: float) -> JetStream:
    until = time.monotonic() + starting_seconds
    while True:
        try:
            return await connect_jetstream(address, patience=patience)
        except LogUnavailableError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.05)
