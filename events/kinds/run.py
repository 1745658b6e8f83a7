"""Events of a run as a whole: an operator's words, boundaries, the end."""

from __future__ import annotations

from typing import Any, ClassVar

from ..envelope import Origin, Payload
from ..registry import register
from ..values import Blob, Direction, RunStatus, Value


class TaskDigest(Value, frozen=True, kw_only=True):
    """A task by its name and the digest of its registration."""

    name: str
    digest: str


@register
class RunStarted(Payload, frozen=True, kw_only=True):
    """An operator started a run: everything that its decisions rest on besides the tasks.

    `settings` are the full effective settings as plain JSON; secrets are there only by the name
    of their environment variable.
    """

    KIND: ClassVar[str] = "run.started"
    ORIGIN: ClassVar[Origin] = "fact"

    strategy: str
    strategy_source: str
    settings: dict[str, Any]
    seed: int
    tasks: tuple[TaskDigest, ...]
    package: str
    python: str
    platform: str
    sandbox: str


@register
class RunReconfigured(Payload, frozen=True, kw_only=True):
    """An operator changed settings: dotted keys, each with its old and its new value."""

    KIND: ClassVar[str] = "run.reconfigured"
    ORIGIN: ClassVar[Origin] = "fact"

    changes: dict[str, tuple[Any, Any]]
    settings: dict[str, Any]


@register
class RunPaused(Payload, frozen=True, kw_only=True):
    """Work on the run ceased without ending it (an interrupt, a nearly full disk)."""

    KIND: ClassVar[str] = "run.paused"
    ORIGIN: ClassVar[Origin] = "fact"

    reason: str


@register
class RunResumed(Payload, frozen=True, kw_only=True):
    """A director took the run up again; `strategy_source` is the code that goes on."""

    KIND: ClassVar[str] = "run.resumed"
    ORIGIN: ClassVar[Origin] = "fact"

    strategy_source: str
    package: str
    python: str
    platform: str


@register
class RunStopped(Payload, frozen=True, kw_only=True):
    """An operator ended the run before its budget did."""

    KIND: ClassVar[str] = "run.stopped"
    ORIGIN: ClassVar[Origin] = "fact"

    reason: str


class Split(Value, frozen=True, kw_only=True):
    """A named part of a task's data, by digest."""

    name: str
    data: Blob


class Baseline(Value, frozen=True, kw_only=True):
    """A known program to compare with."""

    name: str
    program: Blob


@register
class TaskRegistered(Payload, frozen=True, kw_only=True):
    """A problem: what is asked, which way is better, and its data by digest.

    `harness` runs with the candidate in the sandbox; `evaluator` holds the answers and judges what
    the harness printed in another process. `interface` is the text that a model is shown. `judge`
    names the kind of evaluator that is used, from the entry point group ``evolog.evaluators``.
    """

    KIND: ClassVar[str] = "task.registered"
    ORIGIN: ClassVar[Origin] = "fact"

    name: str
    description: str
    direction: Direction
    judge: str = "sandbox"
    interface: Blob
    harness: Blob
    evaluator: Blob
    splits: tuple[Split, ...]
    baselines: tuple[Baseline, ...] = ()


@register
class RunCheckpointed(Payload, frozen=True, kw_only=True):
    """The strategy's typed state at a boundary, as a blob of canonical JSON."""

    KIND: ClassVar[str] = "run.checkpointed"
    ORIGIN: ClassVar[Origin] = "decision"

    boundary: str
    state: Blob


@register
class VersionRecorded(Payload, frozen=True, kw_only=True):
    """Which version of a changed piece of strategy code this run uses from here."""

    KIND: ClassVar[str] = "version.recorded"
    ORIGIN: ClassVar[Origin] = "decision"

    name: str
    value: int


@register
class RunCompleted(Payload, frozen=True, kw_only=True):
    """The strategy is done; `run.reconfigured` may ask it to go on."""

    KIND: ClassVar[str] = "run.completed"
    ORIGIN: ClassVar[Origin] = "decision"
    ANSWERED_BY: ClassVar[frozenset[str]] = frozenset({"run.reconfigured"})

    status: RunStatus
    reason: str
    best: str | None
    attempts: dict[str, int]


@register
class ViewsDigested(Payload, frozen=True, kw_only=True):
    """Digests of the projections as of the event `as_of`, each under ``name/version``."""

    KIND: ClassVar[str] = "views.digested"
    ORIGIN: ClassVar[Origin] = "fact"

    as_of: str
    views: dict[str, str]
