"""The small pure rules that a search is made of (spec/openrsi.md, 1.3 and 1.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...events import Direction
from ...replay import pick_rounded, pure, rounded


def better(a: float, b: float | None, direction: Direction) -> bool:
    """Whether score `a` is strictly better than `b` (None: than nothing)."""
    if b is None:
        return True
    return a > b if direction == "maximize" else a < b


def temperature(generation: int, span: int, initial: float, final: float) -> float:
    """Temperature of a generation: linear from `initial` to `final` over `span` generations, clamped (1.4)."""
    if span <= 0:
        return final
    value = initial - (initial - final) * max(0, generation) / span
    low, high = min(initial, final), max(initial, final)
    return min(max(value, low), high)


def normalised(score: float | None, low: float | None, high: float | None, direction: Direction) -> float:
    """A score in [0, 1], 1 best, over the range of all finite scores seen; 0 for a missing one (1.3).

    0.5 while the range is empty or a single point.
    """
    if score is None or not math.isfinite(score):
        return 0.0
    if low is None or high is None or not high > low:
        return 0.5
    share = min(max((score - low) / (high - low), 0.0), 1.0)
    return share if direction == "maximize" else 1.0 - share


@pure
def selection_weights(
    scores: Sequence[float], low: float | None, high: float | None, direction: Direction, temperature: float
) -> list[float]:
    """Probabilities of an archive's members: the softmax of their normalised scores (1.4)."""
    return softmax([normalised(score, low, high, direction) for score in scores], temperature)


def softmax(values: Sequence[float], temperature: float) -> list[float]:
    """Probabilities of `values` at a temperature, with 12 significant digits.

    Raises
    ------
    ValueError
        If the temperature is not above 0.
    """
    if not temperature > 0.0:
        raise ValueError(f"temperature is {temperature}; it must be above 0")
    if not values:
        return []
    top = max(values)
    powers = [math.exp((value - top) / temperature) for value in values]
    total = math.fsum(powers)
    return [rounded(power / total) for power in powers]


@pure
def without_replacement(weights: Sequence[float], uniforms: Sequence[float]) -> list[int]:
    """One index for each uniform number, each as likely as its weight among those not taken yet.

    Uniform among the rest where no positive weight is left (1.4, step 6). The weights must have been
    rounded (see `softmax`).

    Raises
    ------
    ValueError
        If more are wanted than there are weights.
    """
    if len(uniforms) > len(weights):
        raise ValueError(f"{len(uniforms)} picks from {len(weights)} weights")
    rest, left = list(range(len(weights))), list(weights)
    chosen: list[int] = []
    for uniform in uniforms:
        if left and max(left) <= 0.0:
            left = [1.0] * len(rest)
        index = pick_rounded(left, uniform)
        left.pop(index)
        chosen.append(rest.pop(index))
    return chosen


@pure
def island_mean(scores: Sequence[float]) -> float | None:
    """Mean of an island's finite scores, None if there is none (1.3)."""
    finite = [score for score in scores if math.isfinite(score)]
    return rounded(math.fsum(finite) / len(finite)) if finite else None


def worst_index(scores: Sequence[float], direction: Direction) -> int:
    """Index of the worst score, the first of equals (1.3)."""
    chosen = min if direction == "maximize" else max
    return scores.index(chosen(scores))
