"""The streams that evolog keeps on a server, made when missing and checked when there (design section 3)."""

from __future__ import annotations

from typing import Any

from ...events import STREAM
from ...events.errors import LogDamagedError
from .jetstream import STREAM_NAME_IN_USE, STREAM_NOT_FOUND, ApiError, JetStream

BLOBS, BLOB_ROOT = "EVOLOG_BLOBS", "evolog_blob"
WORK, WORK_ROOT = "EVOLOG_WORK", "evolog_work"
LEASES, LEASE_ROOT = "EVOLOG_LEASES", "evolog_lease"
#: Seconds after which the lease of a director that no longer renews it is free.
LEASE_SECONDS = 15.0
_DUPLICATE_WINDOW = 120 * 10**9

_UNLIMITED = {"max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msgs_per_subject": -1, "discard": "new"}
_IMMUTABLE = {"deny_delete": True, "deny_purge": True, "retention": "limits", "storage": "file", "allow_direct": True}


def configurations(replicas: int = 1) -> dict[str, dict[str, Any]]:
    """The configuration of each stream by its name."""
    return {
        STREAM: {
            "name": STREAM,
            "subjects": ["evolog.>"],
            **_UNLIMITED,
            **_IMMUTABLE,
            "num_replicas": replicas,
            "duplicate_window": _DUPLICATE_WINDOW,
            "compression": "s2",
            "allow_atomic": True,
        },
        BLOBS: {
            "name": BLOBS,
            "subjects": [f"{BLOB_ROOT}.>"],
            **_UNLIMITED,
            "retention": "limits",
            "storage": "file",
            "allow_direct": True,
            "num_replicas": replicas,
            "duplicate_window": _DUPLICATE_WINDOW,
            "compression": "s2",
        },
        WORK: {
            "name": WORK,
            "subjects": [f"{WORK_ROOT}.*.*"],
            "retention": "workqueue",
            "storage": "file",
            "num_replicas": replicas,
            "max_age": 0,
            "discard": "old",
        },
        LEASES: {
            "name": LEASES,
            "subjects": [f"{LEASE_ROOT}.*"],
            "retention": "limits",
            "storage": "file",
            "num_replicas": replicas,
            "max_msgs_per_subject": 1,
            "max_age": int(LEASE_SECONDS * 1e9),
            "duplicate_window": int(LEASE_SECONDS * 1e9),
            "allow_direct": True,
            "discard": "old",
        },
    }


async def ensure_streams(js: JetStream, replicas: int = 1) -> None:
    """Make the streams that are missing; check the log for limits that would forget, and for gaps.

    Raises
    ------
    LogDamagedError
        If the log's stream has a limit, can be deleted from, or has a gap.
    """
    for name, wanted in configurations(replicas).items():
        try:
            info = await js.api(f"STREAM.INFO.{name}")
        except ApiError as error:
            if error.code != STREAM_NOT_FOUND:
                raise
            try:
                await js.api(f"STREAM.CREATE.{name}", wanted)
            except ApiError as refused:  # another process was faster
                if refused.code != STREAM_NAME_IN_USE:
                    raise
            continue
        if name == STREAM:
            check_limits(info["config"], js.place)
            check_gaps(info["state"], js.place)


def check_limits(config: dict[str, Any], place: str) -> None:
    """Refuse a stream that could forget or be purged.

    Raises
    ------
    LogDamagedError
    """
    for key, value in {**_UNLIMITED, "deny_delete": True, "deny_purge": True, "allow_atomic": True}.items():
        found = config.get(key, 0 if key == "max_age" else False)
        if found != value:
            raise LogDamagedError(
                f"stream {STREAM} at {place} has {key} = {found!r}; an immutable log needs {value!r}. "
                "Somebody changed it or another program made it: use another server or account"
            )


def check_gaps(state: dict[str, Any], place: str) -> int:
    """The newest sequence, if no message is missing before it.

    Raises
    ------
    LogDamagedError
        If some are: the server drops the rest of a damaged block silently (facts: faults seen).
    """
    first, last, messages = int(state["first_seq"]), int(state["last_seq"]), int(state["messages"])
    missing = last - messages if last else 0
    if missing or state.get("num_deleted", 0) or (last and first > 1):
        raise damaged(place, f"it lacks {missing} of {last} events")
    return last


def damaged(place: str, what: str) -> LogDamagedError:
    """The error for a log with a gap, with what to do next."""
    return LogDamagedError(
        f"stream {STREAM} at {place}: {what}: a block of its store is damaged or was cut. Nothing is overwritten. "
        "Stop, copy the data directory, and restore from an export or a backup"
    )
