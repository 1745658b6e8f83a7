"""A run's life: who started it and how, whether it is at work, and for how long it was."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from ..events import Event
from ..events.kinds import (
    CandidateEvaluated,
    ParentsSelected,
    RunCheckpointed,
    RunCompleted,
    RunPaused,
    RunReconfigured,
    RunResumed,
    RunStarted,
    RunStopped,
)
from .base import Projection, on

Status = Literal["unknown", "running", "paused", "stopping", "completed", "budget_exhausted", "stopped", "failed"]


class LifecycleState(msgspec.Struct):
    """State of `Lifecycle`.

    Attributes
    ----------
    status
        The operator's and the director's last word. ``running`` says nothing about a process being
        alive: one that was killed could not say so.
    best
        The best candidate as `run.completed` names it.
    started_at, last_at
        Nanoseconds since the Unix epoch, UTC.
    active_ns
        Time at work: pauses, and what lies between a kill and the resume, are left out.
    """

    strategy: str = ""
    seed: int = 0
    tasks: tuple[str, ...] = ()
    package: str = ""
    status: Status = "unknown"
    reason: str = ""
    best: str | None = None
    ended: bool = False
    resumed: int = 0
    started_at: int = 0
    last_at: int = 0
    active_ns: int = 0
    words: set[str] = set()


class Lifecycle(Projection[LifecycleState]):
    """Status and times of one run. Unlike the other views it differs between two equal runs: it holds times."""

    NAME: ClassVar[str] = "lifecycle"
    State: ClassVar[type[msgspec.Struct]] = LifecycleState

    @on(RunStarted)
    def _started(self, event: Event, data: RunStarted) -> None:
        state = self.state
        if not self._new(event) or state.status != "unknown":
            return
        state.strategy, state.seed, state.package = data.strategy, data.seed, data.package
        state.tasks = tuple(task.name for task in data.tasks)
        state.status = "running"
        state.started_at = state.last_at = event.at

    @on(RunPaused)
    def _paused(self, event: Event, data: RunPaused) -> None:
        if self._new(event) and not self.state.ended:
            self._tick(event)
            self.state.status, self.state.reason = "paused", data.reason

    @on(RunResumed)
    def _resumed(self, event: Event, _: RunResumed) -> None:
        if self._new(event):
            self.state.resumed += 1
            if not self.state.ended:
                self._again(event)

    @on(RunReconfigured)
    def _reconfigured(self, event: Event, _: RunReconfigured) -> None:
        if self._new(event) and self.state.ended:
            self._again(event)

    @on(RunStopped)
    def _stopped(self, event: Event, data: RunStopped) -> None:
        if self._new(event) and not self.state.ended:
            self.state.status, self.state.reason = "stopping", data.reason

    @on(RunCompleted)
    def _completed(self, event: Event, data: RunCompleted) -> None:
        self._tick(event)
        self.state.status, self.state.reason, self.state.best = data.status, data.reason, data.best
        self.state.ended = True

    @on(ParentsSelected, CandidateEvaluated, RunCheckpointed)
    def _worked(self, event: Event, _: msgspec.Struct) -> None:
        self._tick(event)

    def _again(self, event: Event) -> None:
        self.state.status, self.state.reason, self.state.ended = "running", "", False
        self.state.last_at = max(self.state.last_at, event.at)

    def _tick(self, event: Event) -> None:
        # Writers' clocks differ between hosts: time that goes back counts as none.
        if event.at > self.state.last_at:
            if self.state.status != "paused":
                self.state.active_ns += event.at - self.state.last_at
            self.state.last_at = event.at

    def _new(self, event: Event) -> bool:
        if event.id in self.state.words:
            return False
        self.state.words.add(event.id)
        return True
