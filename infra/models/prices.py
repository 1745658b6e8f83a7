"""What a call costs, and what it may cost at worst."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ...events import Usage

#: Parts of the names of prices in litellm's cost map that no plain text call is charged.
_OTHER_UNITS = ("audio", "batch", "character", "flex", "image", "page", "pixel", "priority", "second", "video")


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """USD per token.

    Attributes
    ----------
    input_usd, output_usd
        The plain price.
    worst_input_usd, worst_output_usd
        The highest that applies to any token: long contexts, cache writes, reasoning.
    """

    input_usd: float
    output_usd: float
    worst_input_usd: float
    worst_output_usd: float

    def of(self, usage: Usage) -> float:
        """USD for `usage` at the plain price."""
        return usage.prompt_tokens * self.input_usd + usage.completion_tokens * self.output_usd

    def worst(self, request_bytes: int, tokens: int) -> float:
        """USD that a call can cost at most.

        A token stands for at least one byte of what is sent, so the bytes of the request bound its
        tokens from above.

        Parameters
        ----------
        request_bytes
            Size of the whole request.
        tokens
            Completion tokens asked for at most.
        """
        return request_bytes * self.worst_input_usd + tokens * self.worst_output_usd


def price_per_million(input_usd: float, output_usd: float) -> Price:
    """The price of settings, in USD per million tokens."""
    entering, leaving = input_usd / 1e6, output_usd / 1e6
    return Price(input_usd=entering, output_usd=leaving, worst_input_usd=entering, worst_output_usd=leaving)


def price_in_map(entry: Mapping[str, Any]) -> Price | None:
    """The price that an entry of litellm's cost map gives, or None if it gives no price per token."""
    entering, leaving = entry.get("input_cost_per_token"), entry.get("output_cost_per_token")
    if not isinstance(entering, int | float) or not isinstance(leaving, int | float):
        return None
    inputs, outputs = [float(entering)], [float(leaving)]
    for name, value in entry.items():
        if not isinstance(value, int | float) or "token" not in name or any(u in name for u in _OTHER_UNITS):
            continue
        if name.startswith(("input_cost_per_", "cache_creation_input_token_cost")):
            inputs.append(float(value))
        elif name.startswith("output_cost_per_"):
            outputs.append(float(value))
    return Price(
        input_usd=float(entering),
        output_usd=float(leaving),
        worst_input_usd=max(inputs),
        worst_output_usd=max(outputs),
    )
