"""Values that several kinds of event share."""

from __future__ import annotations

import hashlib
import math
from typing import Literal

import msgspec

Direction = Literal["maximize", "minimize"]
Purpose = Literal["gate", "search", "repeat", "floor", "inherited", "promotion", "holdout"]
ReadingStatus = Literal["scored", "invalid", "not_run"]
Outcome = Literal[
    "exited",
    "signalled",
    "timeout",
    "memory",
    "processes",
    "disk",
    "output",
    "cancelled",
    "refused",
    "unavailable",
]
RunStatus = Literal["completed", "budget_exhausted", "stopped", "failed"]


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the frozen values inside payloads."""


class Blob(Value, frozen=True, kw_only=True):
    """Content by its digest: `sha256` in hex and `size` in bytes."""

    sha256: str
    size: int


def blob_of(content: bytes) -> Blob:
    """The reference of `content`; it stores nothing."""
    return Blob(sha256=hashlib.sha256(content).hexdigest(), size=len(content))


class Ref(Value, frozen=True, kw_only=True):
    """Another event of the same run: the place of the request, and the content digest of what is meant."""

    place: str
    digest: str


class Limits(Value, frozen=True, kw_only=True):
    """What one request may use, all attempts together.

    Attributes
    ----------
    seconds
        Wall time of one attempt.
    attempts
        How many attempts before the request has failed.
    tokens
        Completion tokens of one model call.
    usd
        Money reserved for the request, retries included.
    memory
        Bytes of address space or resident memory, as the sandbox's backend counts it.
    processes
        Processes and threads alive at once.
    output
        Bytes of standard output and error together.
    """

    seconds: float
    attempts: int = 3
    tokens: int | None = None
    usd: float = 0.0
    memory: int | None = None
    processes: int | None = None
    output: int | None = None


class Reading(Value, frozen=True, kw_only=True):
    """One evaluation's answer (design rule 6): only `scored` has a number.

    Raises
    ------
    ValueError
        If `score` is given for another status, is missing for `scored`, or is not finite.
    """

    status: ReadingStatus
    score: float | None = None
    reason: str | None = None
    metrics: dict[str, float] = {}

    def __post_init__(self) -> None:
        if (self.status == "scored") != (self.score is not None):
            raise ValueError(f"a reading that is {self.status} cannot have the score {self.score}")
        if self.score is not None and not math.isfinite(self.score):
            raise ValueError(f"score {self.score} is not finite: such a reading is 'invalid'")
        for name, value in self.metrics.items():
            if not math.isfinite(value):
                raise ValueError(f"metric {name!r} is {value}, not finite: leave it out")


class Usage(Value, frozen=True, kw_only=True):
    """What a model call used, in tokens."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Resources(Value, frozen=True, kw_only=True):
    """What an execution used: wall and CPU seconds, peak memory in bytes."""

    wall_seconds: float
    cpu_seconds: float | None = None
    peak_bytes: int | None = None


class Attestation(Value, frozen=True, kw_only=True):
    """What ran an execution, said by the host and never by the program."""

    backend: str
    backend_version: str
    evaluator: str
    files: str
