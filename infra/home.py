"""Where evolog keeps its data: the server's store, snapshots and credentials."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "EVOLOG_HOME"


def data_home(given: str | None = None) -> Path:
    """The data directory as an absolute path. It is not created.

    Parameters
    ----------
    given
        What the user named. Otherwise ``EVOLOG_HOME`` decides, then ``evolog`` in the user's data
        directory by the XDG Base Directory Specification.
    """
    named = given or os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    # The specification has relative paths in the variable ignored.
    data = os.environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return base / "evolog"
