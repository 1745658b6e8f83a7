"""The rules of spec/openrsi.md, 1.3 and 1.4, one by one."""

from __future__ import annotations

import itertools
import math

import pytest
from evolog.consumers.search.policies import (
    better,
    island_mean,
    normalised,
    selection_weights,
    softmax,
    temperature,
    without_replacement,
    worst_index,
)
from hypothesis import given
from hypothesis import strategies as st

scores = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40)


def test_the_temperature_is_linear_and_clamped() -> None:
    assert [temperature(g, 10, 1.0, 0.2) for g in (0, 5, 10, 99)] == pytest.approx([1.0, 0.6, 0.2, 0.2])
    assert temperature(-3, 10, 1.0, 0.2) == 1.0
    assert temperature(5, 10, 0.2, 1.0) == pytest.approx(0.6)
    assert temperature(3, 0, 1.0, 0.2) == 0.2


@pytest.mark.parametrize(
    ("score", "low", "high", "maximise", "minimise"),
    [(3.0, 1.0, 5.0, 0.5, 0.5), (5.0, 1.0, 5.0, 1.0, 0.0), (9.0, 1.0, 5.0, 1.0, 0.0), (3.0, 3.0, 3.0, 0.5, 0.5)],
)
def test_scores_are_normalised_over_the_range_seen(
    score: float, low: float, high: float, maximise: float, minimise: float
) -> None:
    assert normalised(score, low, high, "maximize") == maximise
    assert normalised(score, low, high, "minimize") == minimise


def test_a_missing_score_is_the_worst_and_an_unknown_range_tells_nothing() -> None:
    assert normalised(None, 0.0, 1.0, "minimize") == 0.0
    assert normalised(math.inf, 0.0, 1.0, "maximize") == 0.0
    assert normalised(2.0, None, None, "maximize") == 0.5


@given(scores, st.floats(0.01, 10.0))
def test_weights_are_probabilities_that_rise_with_quality(values: list[float], heat: float) -> None:
    for direction in ("maximize", "minimize"):
        weights = selection_weights(values, min(values), max(values), direction, heat)  # type: ignore[arg-type]
        assert math.isclose(math.fsum(weights), 1.0, rel_tol=1e-9)
        sign = 1.0 if direction == "maximize" else -1.0
        ranked = [weight for _, weight in sorted(zip([sign * v for v in values], weights, strict=True))]
        assert all(a <= b * (1 + 1e-9) for a, b in itertools.pairwise(ranked))


def test_a_softmax_needs_heat() -> None:
    assert softmax([], 1.0) == []
    assert softmax([1.0, 1.0], 1.0) == [0.5, 0.5]
    with pytest.raises(ValueError, match="temperature is 0"):
        softmax([1.0], 0.0)


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20), st.data())
def test_picks_are_different_and_follow_the_weights(weights: list[float], data: st.DataObject) -> None:
    wanted = data.draw(st.integers(0, len(weights)))
    uniforms = data.draw(st.lists(st.floats(0.0, 1.0, exclude_max=True), min_size=wanted, max_size=wanted))
    chosen = without_replacement(weights, uniforms)
    assert len(set(chosen)) == wanted
    positive = [i for i, weight in enumerate(weights) if weight > 0.0]
    # Those without weight come last.
    assert all(i in positive for i in chosen[: len(positive)])


def test_which_share_of_the_line_is_whose() -> None:
    weights = [0.2, 0.0, 0.3, 0.5]
    assert [without_replacement(weights, [u])[0] for u in (0.0, 0.19, 0.2, 0.49, 0.5, 0.999)] == [0, 0, 2, 2, 3, 3]
    assert without_replacement([0.0, 0.0], [0.6, 0.0]) == [1, 0]
    with pytest.raises(ValueError, match="3 picks from 2"):
        without_replacement([1.0, 1.0], [0.1, 0.2, 0.3])


def test_mean_worst_and_better() -> None:
    assert island_mean([1.0, 2.0, math.inf]) == 1.5
    assert island_mean([]) is None
    assert worst_index([3.0, 1.0, 1.0], "maximize") == 1
    assert worst_index([3.0, 1.0, 3.0], "minimize") == 0
    assert better(2.0, None, "minimize")
    assert better(1.0, 2.0, "minimize")
    assert not better(2.0, 2.0, "maximize")
