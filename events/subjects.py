"""Where an event is published: ``evolog.<run>.<fact|decision>.<noun>.<verb>``."""

from __future__ import annotations

import re

from .envelope import Event, Origin
from .errors import EventError

STREAM = "EVOLOG"
ROOT = "evolog"
RUN_PATTERN = "[a-z0-9][a-z0-9-]{1,39}"
_RUN = re.compile(RUN_PATTERN)


def check_run_id(run: str) -> str:
    """Return `run` if it can be one token of a subject.

    Raises
    ------
    EventError
        If it holds anything but lower-case letters, digits and inner hyphens, or is too long.
    """
    if not _RUN.fullmatch(run):
        raise EventError(f"run id {run!r} must be 2 to 40 lower-case letters, digits or '-'")
    return run


def subject_of(event: Event) -> str:
    return f"{ROOT}.{event.run}.{event.origin}.{event.kind}"


def run_filter(run: str | None = None, origin: Origin | None = None, kind: str | None = None) -> str:
    """A subject with wildcards that matches the wanted events."""
    if kind is not None:
        return f"{ROOT}.{run or '*'}.{origin or '*'}.{kind}"
    if origin is not None:
        return f"{ROOT}.{run or '*'}.{origin}.>"
    return f"{ROOT}.{run}.>" if run else f"{ROOT}.>"
