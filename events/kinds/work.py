"""Events of doing the work: attempts, model calls, failures, timers."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..envelope import Origin, Payload
from ..registry import register
from ..values import Blob, Usage

Failure = Literal[
    "attempts",
    "timeout",
    "rate-limited",
    "refused",
    "unreachable",
    "over-budget",
    "missing-extra",
    "error",
]


@register
class AttemptStarted(Payload, frozen=True, kw_only=True):
    """A worker took a request up. `number` counts from 1."""

    KIND: ClassVar[str] = "attempt.started"
    ORIGIN: ClassVar[Origin] = "fact"

    attempt: str
    number: int


@register
class CallStarted(Payload, frozen=True, kw_only=True):
    """A model call is about to be sent. What it may cost at worst stands until it is settled."""

    KIND: ClassVar[str] = "call.started"
    ORIGIN: ClassVar[Origin] = "fact"

    attempt: str
    call: str
    model: str
    request: Blob
    worst_usd: float
    number: int


@register
class CompletionRecorded(Payload, frozen=True, kw_only=True):
    """A model call ended: `outcome` is ``ok`` or the kind of error; `usd` what it cost.

    An error whose cost is unknown (a timeout after sending) is charged at its worst case.
    """

    KIND: ClassVar[str] = "completion.recorded"
    ORIGIN: ClassVar[Origin] = "fact"
    VOLATILE: ClassVar[frozenset[str]] = frozenset({"seconds"})

    attempt: str
    call: str
    model: str
    request: Blob
    outcome: str
    number: int
    provider_model: str = ""
    fingerprint: str = ""
    reply: Blob | None = None
    finish: str = ""
    usage: Usage = Usage()
    usd: float = 0.0
    retry_after: float | None = None
    detail: str = ""
    seconds: float = 0.0


@register
class RequestFailed(Payload, frozen=True, kw_only=True):
    """A request will not be answered: its attempts are used up, or trying again cannot help."""

    KIND: ClassVar[str] = "request.failed"
    ORIGIN: ClassVar[Origin] = "fact"

    reason: Failure
    detail: str
    attempts: int
    usd: float = 0.0


@register
class RequestCancelled(Payload, frozen=True, kw_only=True):
    """The strategy no longer wants the answer to the request at `request`."""

    KIND: ClassVar[str] = "request.cancelled"
    ORIGIN: ClassVar[Origin] = "decision"

    request: str
    reason: str


@register
class TimerRequested(Payload, frozen=True, kw_only=True):
    """The strategy wants to be woken at `deadline` (ns, UTC)."""

    KIND: ClassVar[str] = "timer.requested"
    ORIGIN: ClassVar[Origin] = "decision"
    ANSWERED_BY: ClassVar[frozenset[str]] = frozenset({"timer.fired"})

    deadline: int
    purpose: str


@register
class TimerFired(Payload, frozen=True, kw_only=True):
    """The deadline of a timer has passed."""

    KIND: ClassVar[str] = "timer.fired"
    ORIGIN: ClassVar[Origin] = "fact"

    deadline: int
