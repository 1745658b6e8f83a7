"""The log, the blobs and the work queue: ports, on a NATS server, and in memory."""

from .facts import fact, writer
from .lease import Lease
from .memory import MemoryBlobs, MemoryLog, MemoryWorkQueue
from .nats_blobs import NatsBlobs
from .nats_log import NatsLog
from .nats_work import NatsWorkQueue
from .port import Blobs, Log, Stored, Work, WorkQueue
from .rates import SharedRates
from .store import Store, connected, open_store

__all__ = [
    "Blobs",
    "Lease",
    "Log",
    "MemoryBlobs",
    "MemoryLog",
    "MemoryWorkQueue",
    "NatsBlobs",
    "NatsLog",
    "NatsWorkQueue",
    "SharedRates",
    "Store",
    "Stored",
    "Work",
    "WorkQueue",
    "connected",
    "fact",
    "open_store",
    "writer",
]
