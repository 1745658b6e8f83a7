"""Evaluators: who answers `execution.requested`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...infra.sandbox import Sandbox
from ...replay.plugins import plugin
from .hashing import HashEvaluator
from .port import Assignment, Evaluator, Store
from .sandboxed import SandboxEvaluator

__all__ = ["Assignment", "Evaluator", "HashEvaluator", "SandboxEvaluator", "Store", "evaluator_for"]


def evaluator_for(judge: str, *, settings: Mapping[str, Any], sandbox: Callable[[], Sandbox]) -> Evaluator:
    """The evaluator of the kind that a task names.

    Parameters
    ----------
    judge
        ``sandbox``, ``hash``, or a name of the entry point group ``evolog.evaluators``, whose factories
        take the same keyword arguments as this function.
    settings
        The run's effective settings.
    sandbox
        Gives the sandbox, made when first asked for.

    Raises
    ------
    SettingsError
        If there is none of this name.
    """
    if judge == "sandbox":
        return SandboxEvaluator(settings, sandbox)
    if judge == "hash":
        return HashEvaluator()
    made: Evaluator = plugin("evaluators", judge)(settings=settings, sandbox=sandbox)
    return made
