"""Strategies, proposers and evaluators by name: evolog's own, and those of users' packages (entry points)."""

from __future__ import annotations

import difflib
import hashlib
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from ..events.errors import SettingsError
from .strategy import Strategy

_registered: dict[tuple[str, str], Callable[..., Any]] = {}


def register_plugin(group: str, name: str, factory: Callable[..., Any]) -> None:
    """Make a factory known in this process only, for tests and notebooks; packages use entry points.

    Parameters
    ----------
    group
        ``strategies``, ``proposers`` or ``evaluators``.
    """
    _registered[group, name] = factory


def plugin(group: str, name: str) -> Callable[..., Any]:
    """The factory registered as `name` under the entry point group ``evolog.<group>``.

    Raises
    ------
    SettingsError
        If there is none, naming the nearest known names.
    """
    own = _registered.get((group, name))
    if own is not None:
        return own
    points = {point.name: point for point in entry_points(group=f"evolog.{group}")}
    point = points.get(name)
    if point is None:
        known = sorted({*points, *(n for g, n in _registered if g == group)})
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise SettingsError(
            f"no {group.removesuffix('s')} is named {name!r}.{hint} Known: {', '.join(known)}. "
            f"A package of yours can add it under the entry point group 'evolog.{group}'"
        )
    factory: Callable[..., Any] = point.load()
    return factory


def strategy_named(name: str) -> Strategy:
    """A fresh strategy object.

    Raises
    ------
    SettingsError
        If no strategy has this name.
    """
    made: Strategy = plugin("strategies", name)()
    return made


def source_digest(strategy: Strategy) -> str:
    """sha256 over the sources of the strategy's package, its part of what decided a run.

    All modules beside the strategy's own count, since its policies live there.
    """
    module = sys.modules[type(strategy).__module__]
    path = Path(inspect.getfile(module))
    digest = hashlib.sha256()
    for source in sorted(path.parent.glob("*.py")):
        digest.update(f"{source.name}\0".encode() + source.read_bytes() + b"\0")
    return digest.hexdigest()
