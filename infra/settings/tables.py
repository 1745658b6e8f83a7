"""The tables of a run file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from ...events import Direction
from ..models.settings import PREFIX, ModelSettings
from .decoding import Bytes

Count = Annotated[int, msgspec.Meta(ge=1)]
Hands = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0.0)]
Usd = Annotated[float, msgspec.Meta(ge=0.0)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
#: Below 2**53, so that JavaScript readers see it exactly.
Seed = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]

DEFAULT_STRATEGY = "program"


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the tables."""


class RunTable(_Table, frozen=True, kw_only=True):
    """``[run]``: the seed that all draws come from, and a title for people."""

    seed: Seed = 1
    title: str = ""


class TaskTable(_Table, frozen=True, kw_only=True):
    """``[task]``: the problem. Paths are relative to the run file.

    Attributes
    ----------
    name, description
        What it is called, and what is asked for.
    direction
        Whether a greater or a smaller score is better.
    interface
        File with what a proposer is told about the program that it is to write.
    harness
        File that runs with the candidate in the sandbox.
    evaluator
        File that holds the answers and judges what the harness printed, in another process.
    judge
        Kind of evaluator, from the entry point group ``evolog.evaluators``. Other kinds than ``sandbox``
        may do without `harness` and `evaluator`.
    splits
        File of each named part of the data: ``search`` is searched on, ``holdout`` measured once.
    baselines
        Source file of each known program to compare with.
    """

    name: Name
    description: str = ""
    direction: Direction
    interface: Name
    harness: str = ""
    evaluator: str = ""
    judge: Name = "sandbox"
    splits: dict[str, Name]
    baselines: dict[str, Name] = {}

    def __post_init__(self) -> None:
        if not self.splits:
            raise ValueError('task.splits is empty; it needs at least search = "FILE"')
        if self.judge == "sandbox" and not (self.harness and self.evaluator):
            raise ValueError("task.harness and task.evaluator are needed for task.judge = 'sandbox'")


class SearchTable(_Table, frozen=True, kw_only=True):
    """``[search]``: the strategy's name, and its own keys as its own Struct."""

    strategy: Name = DEFAULT_STRATEGY
    options: msgspec.Struct


class ProposerTable(ModelSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[proposer]``: who writes programs, and what one request may use.

    Attributes
    ----------
    model
        ``<proposer>:<argument>``, such as ``builtin:mutate`` or ``litellm:openai/gpt-4o-mini``.
    seconds
        Wall time of one attempt at a request, all its model calls and waits together.
    attempts
        Attempts before the request has failed.
    usd
        Money that one request may cost at worst, retries included; reserved when it is made.
    """

    model: Name = "builtin:mutate"
    seconds: Seconds = 600.0
    attempts: Count = 3
    usd: Usd = 0.0
    timeout_seconds: float = 120.0


class EvaluationTable(_Table, frozen=True, kw_only=True):
    """``[evaluation]``: what one evaluation may use.

    Attributes
    ----------
    seconds
        Wall time of one attempt.
    attempts
        Attempts before the request has failed (of the infrastructure; a program's fault is a reading).
    memory, output
        Bytes of memory, and of standard output and error together.
    processes
        Processes and threads alive at once.
    """

    seconds: Seconds = 10.0
    attempts: Count = 3
    memory: Bytes = 512 * 1024 * 1024
    processes: Count = 16
    output: Bytes = 1024 * 1024


class BudgetTable(_Table, frozen=True, kw_only=True):
    """``[budget]``: candidates proposed at most, and money spent at most (None: no limit)."""

    candidates: Count = 100
    usd: Usd | None = None


class WorkersTable(_Table, frozen=True, kw_only=True):
    """``[workers]``: proposals and evaluations in flight at once in this process. They decide nothing.

    0 leaves that work to ``evolog worker`` in other processes, on this host or on others.
    """

    proposals: Hands = 2
    evaluations: Hands = 2


class SandboxTable(_Table, frozen=True, kw_only=True):
    """``[sandbox]``: the backend that runs model-written code; ``auto`` takes the safest that works here."""

    backend: Name = "auto"


class LogTable(_Table, frozen=True, kw_only=True):
    """``[log]``: when the server writes through to the disk, for those who fear power failures."""

    sync: Literal["default", "always"] = "default"


class RunSettings(_Table, frozen=True, kw_only=True):
    """A run file, decoded."""

    run: RunTable = RunTable()
    task: TaskTable
    search: SearchTable
    proposer: ProposerTable = ProposerTable()
    evaluation: EvaluationTable = EvaluationTable()
    budget: BudgetTable = BudgetTable()
    workers: WorkersTable = WorkersTable()
    sandbox: SandboxTable = SandboxTable()
    log: LogTable = LogTable()

    def __post_init__(self) -> None:
        free = self.proposer.usd_per_million_input == 0.0 and self.proposer.usd_per_million_output == 0.0
        if self.budget.usd is not None and self.proposer.model.startswith(PREFIX) and not free:
            if self.proposer.usd <= 0.0:
                raise ValueError(
                    f"budget.usd = {self.budget.usd} needs proposer.usd: what one request may cost at worst, "
                    "so that it can be reserved before it is made"
                )
            if self.proposer.usd > self.budget.usd:
                raise ValueError(
                    f"proposer.usd = {self.proposer.usd} is more than budget.usd = {self.budget.usd}: "
                    "not a single request would be made"
                )


def model_settings(table: dict[str, Any]) -> ModelSettings:
    """The part of the effective table ``[proposer]`` that the model client reads."""
    names = ModelSettings.__struct_fields__
    return msgspec.convert({name: table[name] for name in names if name in table}, ModelSettings)
