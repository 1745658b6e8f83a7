"""What strategy ``program`` is told, and everything that it knows."""

from __future__ import annotations

from typing import Literal

import msgspec

from ...events import Blob, Ref
from ...events.errors import RequestFailedError
from ...events.kinds import Operator, Parent, ProposalMade
from ...replay import Answer

OUTCOMES = ("admitted", "rejected", "refused", "failed", "cancelled")


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[search]``. Names and meanings as in spec/openrsi.md, sections 1.3 to 1.6.

    Attributes
    ----------
    individuals_per_generation
        Proposals made at once; independent of how many evaluations are in flight.
    num_generations
        Generations after which the run is complete (None: only the budget ends it).
    max_island_size
        Members kept in the archive.
    crossover_prob, num_generations_till_crossover
        Probability of crossover instead of improve, from that generation on.
    fresh_draft_prob
        Probability of a fresh draft instead of either.
    initial_temp, final_temp
        Temperature of the softmax over normalised scores, linear over the generations.
    max_debug_depth
        Repairs tried on a program that fails (0: none).
    patience
        Generations without a better best after which the run is complete (0: never).
    target
        Score at which the run is complete (None: none).
    admission
        ``island-mean``: at least as good as the island's mean (published).
    """

    individuals_per_generation: int = 5
    num_generations: int | None = None
    max_island_size: int = 500
    crossover_prob: float = 0.5
    num_generations_till_crossover: int = 2
    fresh_draft_prob: float = 0.0
    initial_temp: float = 1.0
    final_temp: float = 1.0
    max_debug_depth: int = 0
    patience: int = 0
    target: float | None = None
    admission: Literal["island-mean"] = "island-mean"

    def __post_init__(self) -> None:
        for name in ("individuals_per_generation", "max_island_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"search.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("crossover_prob", "fresh_draft_prob"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"search.{name} is {getattr(self, name)}; it must be between 0 and 1")
        for name in ("initial_temp", "final_temp"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"search.{name} is {getattr(self, name)}; it must be above 0")
        if self.max_debug_depth < 0 or self.patience < 0:
            raise ValueError("search.max_debug_depth and search.patience must not be negative")


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate in the archive."""

    candidate: str
    program: Blob
    score: float


class SearchState(msgspec.Struct, kw_only=True):
    """Everything that the search knows at a generation's start.

    `low` and `high` are the least and greatest score ever seen, rejected candidates included (1.3).
    `seen` holds the first 24 hex digits of each normalised program, in the order they came.
    """

    generation: int = 0
    members: list[Member] = []
    best: Member | None = None
    low: float | None = None
    high: float | None = None
    seen: list[str] = []
    attempts: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    spent_usd: float = 0.0
    stale: int = 0
    fruitless: int = 0
    last_failure: str = ""
    checkpointed_at: int = 0
    held_out: list[str] = []

    @property
    def proposals(self) -> int:
        return sum(self.attempts.values())


class Attempt(msgspec.Struct, kw_only=True):
    """One proposal of a generation on its way through proposing, screening and execution."""

    individual: int
    operator: Operator
    parents: tuple[Parent, ...]
    feedback: Blob | None = None
    candidate: str = ""
    proposal: Ref | None = None
    made: ProposalMade | None = None
    program: Blob | None = None
    trace: Answer | None = None
    failure: RequestFailedError | None = None

    @property
    def buggy(self) -> bool:
        """Executed, and the program is at fault: what `debug` may repair."""
        return self.trace is not None and self.trace.data.reading.status == "invalid"


def repair_of(attempt: Attempt) -> Attempt:
    """The `debug` attempt that follows a buggy one."""
    assert attempt.program is not None
    assert attempt.trace is not None
    broken = Parent(candidate=attempt.candidate, program=attempt.program, score=None)
    return Attempt(
        individual=attempt.individual,
        operator="debug",
        parents=(broken,),
        feedback=attempt.trace.data.feedback,
    )
