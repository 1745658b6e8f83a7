"""Using the embedded server of a data directory, or one that the user names."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ...events.errors import ServerError, StoreHeldError
from ..tasks import cancel
from .home import Home, ServerFile, locked, try_lock

_POLL_SECONDS = 0.01
_START_SECONDS = 60.0
_WATCH_SECONDS = 0.25
#: Keepers that this process has started: a keeper outlives its first user, and is waited for when it ends before.
_keepers: list[subprocess.Popen[bytes]] = []


class Address(NamedTuple):
    """Where a server listens: ``nats://host:port``, and the token it wants (empty: none)."""

    url: str
    token: str = ""

    @property
    def full(self) -> str:
        """The URL with the token in it. Never printed, never in an event."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{self.token}@{rest}" if self.token else self.url


def named_server(url: str) -> Address:
    """The address of a server named with ``--nats``; a token may stand in the URL or in ``EVOLOG_NATS_TOKEN``.

    Raises
    ------
    ServerError
        If it is no URL of a NATS server.
    """
    match = re.fullmatch(r"(nats|tls)://(?:([^@/]+)@)?([^/@]+)/?", url)
    if match is None:
        raise ServerError(f"{url!r} is no address of a NATS server: write nats://HOST:PORT")
    scheme, token, place = match.groups()
    return Address(f"{scheme}://{place}", token or os.environ.get("EVOLOG_NATS_TOKEN", ""))


@asynccontextmanager
async def embedded(root: Path, *, sync: str | None = None) -> AsyncIterator[Address]:
    """Use the server of a data directory, starting it if nobody has.

    While inside, a keeper that was killed is started again, on the same address.

    Parameters
    ----------
    root
        The data directory; made if missing.
    sync
        ``always`` or ``default`` (None: whatever a running server has).

    Raises
    ------
    ServerError, StoreHeldError
        If it cannot be started, or runs with less care for power failures than asked for.
    """
    home = Home(root)
    home.create()
    using = await _lock_shared(home)
    watcher: asyncio.Task[None] | None = None
    try:
        keeping = _Keeping(home, sync)
        content = await keeping.ensure()
        if sync == "always" and content.sync != "always":
            raise ServerError(
                f"log.sync = 'always', but the server of {root} was started with {content.sync!r} by another "
                "evolog process: end that one first, or name another data directory with --home"
            )
        watcher = asyncio.create_task(keeping.watch())
        yield Address(f"nats://127.0.0.1:{content.port}", content.token)
    finally:
        if watcher is not None:
            await cancel(watcher)
        os.close(using)


async def _lock_shared(home: Home) -> int:
    until = time.monotonic() + _START_SECONDS
    while (descriptor := try_lock(home.clients_lock, shared=True)) is None:
        # A keeper that is ending holds it for some milliseconds.
        if time.monotonic() > until:
            raise ServerError(
                f"{home.clients_lock} has been locked for {_START_SECONDS:g} s by a keeper that does not end; "
                f"see {home.keeper_log}"
            )
        await asyncio.sleep(_POLL_SECONDS)
    return descriptor


class _Keeping:
    """Sees to it that there is a keeper."""

    def __init__(self, home: Home, sync: str | None) -> None:
        self._home = home
        self._sync = sync
        self._spawned: subprocess.Popen[bytes] | None = None

    async def ensure(self) -> ServerFile:
        """Wait for a ready server, starting a keeper where there is none.

        Raises
        ------
        ServerError
            If it does not become ready.
        """
        until = time.monotonic() + _START_SECONDS
        spawned_at = 0.0
        while time.monotonic() < until:
            content = self._home.read()
            held = locked(self._home.keeper_lock)
            if content is not None and held and content.state == "ready":
                return content
            ours = self._spawned is not None and content is not None and content.keeper == self._spawned.pid
            if content is not None and content.state == "failed" and ours:
                raise (StoreHeldError if content.held else ServerError)(content.error)
            if self._spawned is not None and self._spawned.poll() not in (None, 0):
                raise ServerError(
                    f"the keeper of {self._home.root} ended with {self._spawned.returncode}; "
                    f"see {self._home.keeper_log}"
                )
            if not held and time.monotonic() - spawned_at > 2.0:
                spawned_at = time.monotonic()
                self._spawn()
            await asyncio.sleep(_POLL_SECONDS)
        raise ServerError(
            f"the server of {self._home.root} was not ready after {_START_SECONDS:g} s; see {self._home.server_log}"
        )

    def _spawn(self) -> None:
        _keepers[:] = [keeper for keeper in _keepers if keeper.poll() is None]
        sync = self._sync or "default"
        with self._home.keeper_log.open("ab") as log:
            self._spawned = subprocess.Popen(
                [sys.executable, "-m", "evolog.infra.server.keeper", str(self._home.root), sync],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for evolog, not for its server
            )
        _keepers.append(self._spawned)

    async def watch(self) -> None:
        """Start another keeper when the one there was has been killed."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            if self._spawned is not None:
                self._spawned.poll()
            if locked(self._home.keeper_lock):
                continue
            content = self._home.read()
            if content is not None and self._sync is None:
                self._sync = content.sync
            self._spawned = None
            with suppress(ServerError):  # the log's own calls say that the server is away
                await self.ensure()
