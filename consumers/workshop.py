"""What a worker process works with: the sandbox, and proposers and evaluators as each run's settings want them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..events.errors import RunError
from ..events.kinds import RunReconfigured, RunStarted
from ..infra.log import Log
from ..infra.sandbox import Sandbox, open_sandbox
from ..replay.plugins import plugin
from .evaluation import Evaluator, evaluator_for
from .proposing import Proposer


class Workshop:
    """Makes proposers and evaluators on first use and keeps them.

    Parameters
    ----------
    log
        Where runs' settings are read.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._settings: dict[str, Mapping[str, Any]] = {}
        self._proposers: dict[tuple[str, str], Proposer] = {}
        self._evaluators: dict[tuple[str, str], Evaluator] = {}
        self._sandboxes: dict[str, Sandbox] = {}

    async def settings(self, run: str) -> Mapping[str, Any]:
        """The run's effective settings; those of a reconfigured run as they were when first asked for.

        Raises
        ------
        RunError
            If the run is not in the log.
        """
        if run not in self._settings:
            newest = await self._log.last(run, "run.reconfigured") or await self._log.last(run, "run.started")
            if newest is None or not isinstance(newest.event.data, RunStarted | RunReconfigured):
                raise RunError(f"run {run!r} is not in the log")
            self._settings[run] = newest.event.data.settings
        return self._settings[run]

    def sandbox(self, backend: str) -> Sandbox:
        """The sandbox of this name.

        Raises
        ------
        SandboxError
            If this machine does not offer it.
        """
        if backend not in self._sandboxes:
            self._sandboxes[backend] = open_sandbox(backend)
        return self._sandboxes[backend]

    async def proposer_for(self, run: str, model: str) -> Proposer:
        """The proposer for a model name such as ``builtin:mutate`` or ``litellm:openai/gpt-4o``."""
        key = (run, model)
        settings = await self.settings(run)
        # Nothing is awaited between the look and the making, so that there is one of each.
        if key not in self._proposers:
            name, _, argument = model.partition(":")
            self._proposers[key] = plugin("proposers", name)(argument, settings["proposer"])
        return self._proposers[key]

    async def evaluator_for(self, run: str, judge: str) -> Evaluator:
        """The evaluator of the kind that the task names."""
        key = (run, judge)
        settings = await self.settings(run)
        if key not in self._evaluators:
            self._evaluators[key] = evaluator_for(
                judge, settings=settings, sandbox=lambda: self.sandbox(settings["sandbox"]["backend"])
            )
        return self._evaluators[key]

    async def close(self) -> None:
        """End the processes of evaluators and sandboxes."""
        for evaluator in self._evaluators.values():
            closing = getattr(evaluator, "close", None)
            if closing is not None:
                await closing()
        for sandbox in self._sandboxes.values():
            await sandbox.close()
