"""The keeper: a small process that starts nats-server, restarts it after a crash, and ends with its last client.

Started as ``python -m evolog.infra.server.keeper HOME SYNC`` by the first evolog process that needs the
server. It is single-threaded on purpose: PDEATHSIG follows the thread that forked.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ...events.errors import EvologError, ServerError, StoreHeldError
from .home import Home, ServerFile, find_binary, try_lock

_POLL_SECONDS = 0.05
#: Polls between two looks whether any client is left.
_POLLS_PER_LOOK = 4
_START_SECONDS = 15.0
_STORE_WAIT_SECONDS = 5.0
_STOP_SECONDS = 10.0
#: So many crashes within so many seconds, and the keeper gives up.
_CRASHES, _CRASH_SECONDS = 5, 10.0
_PR_SET_PDEATHSIG = 1
_MAX_STORE = 1 << 50


class Keeper:
    """Keeps one nats-server on one data directory."""

    def __init__(self, home: Home, sync: str) -> None:
        self.home = home
        self.sync = sync
        before = home.read()
        # The same address after the keeper was killed lets clients reconnect.
        self.token = before.token if before is not None and before.token else secrets.token_urlsafe(32)
        self.port = before.port if before is not None and before.port else 0
        self.child: subprocess.Popen[bytes] | None = None
        self.crashes: list[float] = []
        self.asked_to_stop = False

    def run(self) -> None:
        self._write("starting")
        self._start()
        self._write("ready")
        polls = 0
        while not self.asked_to_stop:
            time.sleep(_POLL_SECONDS)
            assert self.child is not None
            if self.child.poll() is not None:
                self._restart()
            polls += 1
            if polls % _POLLS_PER_LOOK == 0:
                alone = try_lock(self.home.clients_lock)
                if alone is not None:
                    # Held until this process ends: a client that comes now waits and starts the next keeper.
                    break
        self.stop()
        self._write("stopped")

    def stop(self) -> None:
        if self.child is None or self.child.poll() is not None:
            return
        self.child.terminate()
        try:
            self.child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()

    def fail(self, error: EvologError) -> None:
        self.stop()
        self._write("failed", error=str(error), held=isinstance(error, StoreHeldError))

    def _write(self, state: str, *, error: str = "", held: bool = False) -> None:
        self.home.write(
            ServerFile(
                state=state,  # type: ignore[arg-type]
                keeper=os.getpid(),
                server=self.child.pid if self.child is not None else 0,
                port=self.port,
                token=self.token,
                sync=self.sync,
                error=error,
                held=held,
            )
        )

    def _restart(self) -> None:
        assert self.child is not None
        now = time.monotonic()
        self.crashes = [*(at for at in self.crashes if now - at < _CRASH_SECONDS), now]
        _say(f"nats-server {self.child.pid} ended with {self.child.returncode}; starting it again")
        if len(self.crashes) > _CRASHES:
            raise ServerError(
                f"nats-server ended {len(self.crashes)} times within {_CRASH_SECONDS:g} s: {self._last_words()}"
            )
        self._start()
        self._write("ready")

    def _start(self) -> None:
        binary = find_binary()
        store = self._lock_store()
        try:
            for _ in range(3):
                port = self.port or _free_port()
                self._configure(port)
                self.child = self._spawn(binary, store)
                if self._wait_ready(port):
                    self.port = port
                    return
                if self.port and "address already in use" in self._last_words():
                    # Another program took the old port while nobody used it.
                    self.port = 0
                    continue
                break
            raise ServerError(f"nats-server does not start on {self.home.root}: {self._last_words()}")
        finally:
            os.close(store)

    def _lock_store(self) -> int:
        until = time.monotonic() + _STORE_WAIT_SECONDS
        while (descriptor := try_lock(self.home.store_lock)) is None:
            if time.monotonic() > until:
                content = self.home.store_lock.read_text().strip()
                raise StoreHeldError(
                    f"another nats-server{f' (process {content})' if content else ''} holds the store "
                    f"{self.home.store}: stop it, or name another data directory with --home"
                )
            time.sleep(_POLL_SECONDS)
        return descriptor

    def _configure(self, port: int) -> None:
        self.home.store.mkdir(mode=0o700, exist_ok=True)
        sync = "always" if self.sync == "always" else "1m"
        lines = [
            f"listen: 127.0.0.1:{port}",
            f"authorization {{ token: {json.dumps(self.token)} }}",
            "max_payload: 8MB",
            "jetstream {",
            f"  store_dir: {json.dumps(str(self.home.store))}",
            # Without a number the server takes 75 % of the free disk and refuses writes long before it is full.
            f"  max_file_store: {_MAX_STORE}",
            f"  sync_interval: {sync}",
            "}",
        ]
        descriptor = os.open(self.home.config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("\n".join(lines) + "\n")

    def _spawn(self, binary: str, store: int) -> subprocess.Popen[bytes]:
        with self.home.server_log.open("wb") as log:
            child = subprocess.Popen(
                [binary, "-c", str(self.home.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[store],
                preexec_fn=_die_with_parent,  # noqa: PLW1509 (the keeper has one thread)
            )
        os.ftruncate(store, 0)
        os.pwrite(store, str(child.pid).encode(), 0)
        return child

    def _wait_ready(self, port: int) -> bool:
        """Whether JetStream answers; an open port alone proves nothing."""
        assert self.child is not None
        # A large store takes its time to recover: as long as it lives and the log grows, wait.
        until = time.monotonic() + _START_SECONDS
        size = -1
        while self.child.poll() is None:
            if _jetstream_answers(port, self.token):
                return True
            grown = self.home.server_log.stat().st_size
            if grown != size:
                size, until = grown, time.monotonic() + _START_SECONDS
            if time.monotonic() > until:
                self.child.kill()
                self.child.wait()
                return False
            time.sleep(0.01)
        return False

    def _last_words(self) -> str:
        try:
            lines = self.home.server_log.read_text(errors="replace").splitlines()
        except OSError as error:
            return str(error)
        serious = [line for line in lines if "[FTL]" in line or "[ERR]" in line or "nats-server:" in line]
        chosen = serious[-1] if serious else lines[-1] if lines else "it said nothing"
        return f"{chosen} (see {self.home.server_log})"


def _die_with_parent() -> None:
    # Linux only; elsewhere the next keeper finds the store locked and says by whom.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _jetstream_answers(port: int, token: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            hello = {"auth_token": token, "verbose": False, "pedantic": False, "lang": "evolog", "version": "1"}
            connection.sendall(
                b"CONNECT " + json.dumps(hello).encode() + b"\r\nSUB _INBOX.keeper 1\r\n"
                b"PUB $JS.API.INFO _INBOX.keeper 0\r\n\r\n"
            )
            received = b""
            while b"account_info_response" not in received:
                chunk = connection.recv(65536)
                if not chunk:
                    return False
                received += chunk
            return True
    except OSError:
        return False


def _say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} keeper {os.getpid()}: {text}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Keep the server of ``arguments[0]``; 0 if another keeper does already."""
    home = Home(Path(arguments[0]))
    until = time.monotonic() + 1.0
    # A client that looks whether there is a keeper holds the lock for a moment.
    while (lock := try_lock(home.keeper_lock)) is None:
        if time.monotonic() > until:
            return 0
        time.sleep(0.01)
    os.truncate(home.keeper_lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    keeper = Keeper(home, arguments[1] if len(arguments) > 1 else "default")

    def on_terminate(*_: object) -> None:
        keeper.asked_to_stop = True

    signal.signal(signal.SIGTERM, on_terminate)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        keeper.run()
    except EvologError as error:
        _say(str(error))
        keeper.fail(error)
        return 1
    except OSError as error:
        free = shutil.disk_usage(home.root).free
        _say(f"{error}")
        with suppress(OSError):
            keeper.fail(ServerError(f"the server of {home.root} cannot be kept: {error} ({free} bytes free)"))
        return 1
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
