"""Randomness that a replay reproduces: one generator for each purpose and place.

Nothing shares a generator, so an extra or a missing draw elsewhere changes nothing. The generator
is SHA-256 in counter mode, with methods of its own, because those of Python's `random` change
between versions.
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import math
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")

_WEIGHT_DIGITS = 12


class Draw:
    """A counter-based generator that is a pure function of its key.

    Parameters
    ----------
    key
        Anything that names the draw, such as ``f"{seed}/{purpose}/{place}"``.
    """

    def __init__(self, key: str) -> None:
        self._key = hashlib.sha256(key.encode()).digest()
        self._counter = 0
        self._words: list[int] = []

    def word(self) -> int:
        """The next 64 random bits as an integer."""
        if not self._words:
            block = hashlib.sha256(self._key + self._counter.to_bytes(8, "big")).digest()
            self._counter += 1
            self._words = [int.from_bytes(block[i : i + 8], "big") for i in (24, 16, 8, 0)]
        return self._words.pop()

    def uniform(self) -> float:
        """A float in [0, 1) with 53 random bits."""
        return (self.word() >> 11) * 2.0**-53

    def below(self, n: int) -> int:
        """An integer in [0, n), each equally likely.

        Raises
        ------
        ValueError
            If `n` is not between 1 and 2**64.
        """
        if not 1 <= n <= 1 << 64:
            raise ValueError(f"below({n}): n must be between 1 and 2**64")
        limit = (1 << 64) - (1 << 64) % n
        while (word := self.word()) >= limit:
            pass
        return word % n

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`, each equally likely."""
        return items[self.below(len(items))]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put `items` into a random order, in place."""
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]

    def sample(self, items: Sequence[T], k: int) -> list[T]:
        """`k` different items, in random order.

        Raises
        ------
        ValueError
            If there are fewer than `k`.
        """
        if k > len(items):
            raise ValueError(f"sample of {k} from {len(items)} items")
        rest = list(items)
        return [rest.pop(self.below(len(rest))) for _ in range(k)]

    def weighted(self, weights: Sequence[float]) -> int:
        """An index, each as likely as its weight (see `pick`)."""
        return pick(weights, self.uniform())

    def normal(self) -> float:
        """A standard normal variate (Box and Muller). Its last bit depends on the platform's libm."""
        u = 1.0 - self.uniform()
        return math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * self.uniform())


def rounded(weight: float) -> float:
    """`weight` with 12 significant digits, so that another processor's last bit decides nothing."""
    return float(f"{weight:.{_WEIGHT_DIGITS - 1}e}")


def pick(weights: Sequence[float], u: float) -> int:
    """The index whose share of the summed weights contains `u` in [0, 1).

    Weights are rounded to 12 significant digits first.

    Raises
    ------
    ValueError
        If there is no weight, one is negative or not finite, or all are zero.
    """
    return pick_rounded([rounded(w) for w in weights], u)


def pick_rounded(shares: Sequence[float], u: float) -> int:
    """As `pick`, of weights that have been rounded already."""
    total = math.fsum(shares)
    if not 0.0 < total < math.inf or min(shares) < 0.0:
        raise ValueError(f"weights must be finite, not negative and not all zero: {list(shares)}")
    index = bisect.bisect_right(list(itertools.accumulate(shares)), u * total)
    return index if index < len(shares) else max(i for i, share in enumerate(shares) if share > 0.0)
