"""Facts as they are appended: dated now, by whom."""

from __future__ import annotations

import os
import socket
import time

from ...events import Event, Payload, Writer
from ...events.version import VERSION


def writer(role: str) -> Writer:
    """Who this process is, for the envelopes of what it appends."""
    return Writer(role=role, host=socket.gethostname(), process=os.getpid(), version=VERSION)


def fact(run: str, identity: str, data: Payload, by: Writer, cause: tuple[str, ...] = ()) -> Event:
    """A fact of `run` under the id ``<run>/<identity>``, dated now."""
    return Event(
        kind=data.KIND,
        v=data.VERSION,
        id=f"{run}/{identity}",
        run=run,
        n=None,
        place=None,
        at=time.time_ns(),
        by=by,
        cause=cause,
        data=data,
    )
