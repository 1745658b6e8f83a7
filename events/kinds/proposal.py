"""Events of proposing: what was asked of an operator, what it made, what was refused."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..envelope import Origin, Payload
from ..registry import register
from ..values import Blob, Limits, Ref, Usage, Value

Operator = Literal["draft", "improve", "crossover", "debug"]
Refusal = Literal["empty", "unparsable", "patch", "screened", "duplicate", "over-budget"]


class Parent(Value, frozen=True, kw_only=True):
    """A candidate that a proposal builds on, pinned by program digest."""

    candidate: str
    program: Blob
    score: float | None


class Choice(Value, frozen=True, kw_only=True):
    """One individual of a generation: its operator and parents, and the uniform draws that chose them."""

    operator: Operator
    parents: tuple[str, ...]
    draws: tuple[float, ...]
    why: str = ""


@register
class ParentsSelected(Payload, frozen=True, kw_only=True):
    """Which candidates one generation builds on: the pool, its weights, and each individual's draw."""

    KIND: ClassVar[str] = "parents.selected"
    ORIGIN: ClassVar[Origin] = "decision"

    generation: int
    policy: str
    temperature: float
    pool: tuple[str, ...]
    weights: tuple[float, ...]
    choices: tuple[Choice, ...]


@register
class ProposalRequested(Payload, frozen=True, kw_only=True):
    """An operator is asked for `samples` programs.

    `feedback` is what the failing program printed, for `debug`. `seed` is below 2**48, so that
    JavaScript readers see it exactly.
    """

    KIND: ClassVar[str] = "proposal.requested"
    ORIGIN: ClassVar[Origin] = "decision"
    ANSWERED_BY: ClassVar[frozenset[str]] = frozenset({"proposal.made", "request.failed"})

    task: str
    operator: Operator
    model: str
    seed: int
    limits: Limits
    generation: int = 0
    samples: int = 1
    temperature: float = 1.0
    parents: tuple[Parent, ...] = ()
    feedback: Blob | None = None


class Sample(Value, frozen=True, kw_only=True):
    """One program that an operator made, or why there is none.

    `normal` is the digest of the program's normalised source (comments, docstrings and layout
    removed), made by the worker, since the way Python unparses changes between versions.
    `problem` is a refusal reason found by the parser, with `diagnostics` as its explanation.
    """

    program: Blob | None
    normal: str | None
    problem: Refusal | None = None
    diagnostics: tuple[str, ...] = ()
    note: str = ""


@register
class ProposalMade(Payload, frozen=True, kw_only=True):
    """What an operator made: prompt and reply by digest, one entry for each sample asked for."""

    KIND: ClassVar[str] = "proposal.made"
    ORIGIN: ClassVar[Origin] = "fact"
    VOLATILE: ClassVar[frozenset[str]] = frozenset({"seconds"})

    samples: tuple[Sample, ...]
    prompt: Blob | None = None
    replies: tuple[Blob, ...] = ()
    usage: Usage = Usage()
    usd: float = 0.0
    seconds: float = 0.0


@register
class ProposalRefused(Payload, frozen=True, kw_only=True):
    """A sample that is not evaluated, and why."""

    KIND: ClassVar[str] = "proposal.refused"
    ORIGIN: ClassVar[Origin] = "decision"

    proposal: Ref
    sample: int
    reason: Refusal
    detail: str
