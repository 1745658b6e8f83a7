"""Events of evaluation and of the archive."""

from __future__ import annotations

from typing import ClassVar

from ..envelope import Origin, Payload
from ..registry import register
from ..values import (
    Attestation,
    Blob,
    Limits,
    Outcome,
    Purpose,
    Reading,
    ReadingStatus,
    Ref,
    Resources,
    Value,
)


@register
class ExecutionRequested(Payload, frozen=True, kw_only=True):
    """A program is to be run on one split of a task and judged, for a stated purpose.

    `candidate` is the candidate's name or, for a baseline, ``baseline:<name>``.
    """

    KIND: ClassVar[str] = "execution.requested"
    ORIGIN: ClassVar[Origin] = "decision"
    ANSWERED_BY: ClassVar[frozenset[str]] = frozenset({"trace.recorded", "request.failed"})

    candidate: str
    program: Blob
    task: str
    split: str
    purpose: Purpose
    seed: int
    limits: Limits
    proposal: Ref | None = None


@register
class TraceRecorded(Payload, frozen=True, kw_only=True):
    """What happened when a program ran.

    `outcome` and `exit_code` are the program's own end. `output` is what it printed, cut at the
    limit; `feedback` a short text for a `debug` operator.
    """

    KIND: ClassVar[str] = "trace.recorded"
    ORIGIN: ClassVar[Origin] = "fact"
    VOLATILE: ClassVar[frozenset[str]] = frozenset({"resources", "attestation"})

    reading: Reading
    outcome: Outcome
    exit_code: int | None
    output: Blob | None
    feedback: Blob | None
    resources: Resources
    attestation: Attestation


class CandidateReading(Value, frozen=True, kw_only=True):
    """One reading that a candidate's mean rests on; it says where it came from and for what."""

    task: str
    split: str
    purpose: Purpose
    trace: Ref
    status: ReadingStatus
    score: float | None


@register
class CandidateEvaluated(Payload, frozen=True, kw_only=True):
    """A candidate's readings and their mean under the declared missing-value policy."""

    KIND: ClassVar[str] = "candidate.evaluated"
    ORIGIN: ClassVar[Origin] = "decision"

    candidate: str
    program: Blob
    parents: tuple[str, ...]
    operator: str
    generation: int
    readings: tuple[CandidateReading, ...]
    missing: str
    mean: float | None


@register
class CandidateAdmitted(Payload, frozen=True, kw_only=True):
    """A candidate entered the archive. `threshold` is what it had to reach (none: island empty)."""

    KIND: ClassVar[str] = "candidate.admitted"
    ORIGIN: ClassVar[Origin] = "decision"

    candidate: str
    program: Blob
    score: float
    island: int
    policy: str
    threshold: float | None


@register
class CandidateRejected(Payload, frozen=True, kw_only=True):
    """A candidate did not enter the archive. `reason`: below-threshold, invalid or not_run."""

    KIND: ClassVar[str] = "candidate.rejected"
    ORIGIN: ClassVar[Origin] = "decision"

    candidate: str
    reason: str
    score: float | None
    island: int
    policy: str
    threshold: float | None


@register
class CandidateEvicted(Payload, frozen=True, kw_only=True):
    """A candidate left the archive to keep its size."""

    KIND: ClassVar[str] = "candidate.evicted"
    ORIGIN: ClassVar[Origin] = "decision"

    candidate: str
    score: float
    island: int
    policy: str
