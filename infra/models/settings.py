"""How models are called: the part of the table ``[proposer]`` that the model client reads."""

from __future__ import annotations

import math
import re
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

PREFIX = "litellm:"

#: What `extra` may add to a request. Anything else that litellm understands would change how a call
#: is made (retries, fallbacks, headers with secrets), and belongs to this client alone.
EXTRA_PARAMETERS = frozenset(
    {
        "extra_body",
        "frequency_penalty",
        "logit_bias",
        "min_p",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "stop",
        "thinking",
        "top_k",
        "top_p",
        "verbosity",
    }
)


class ModelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model is called, where, how often, and what it costs.

    Attributes
    ----------
    model
        ``litellm:<model>``, with the model's name as litellm has it (``openai/gpt-4o-mini``,
        ``anthropic/claude-sonnet-4-5``, ``hosted_vllm/my-model``).
    api_base
        Address of the endpoint (None: the provider's own).
    api_key_env
        Name of the environment variable that holds the key. None sends no key to an `api_base`,
        and leaves litellm its own look-up for a provider's own endpoint.
    temperature
        Sampling temperature.
    tokens
        Most completion tokens of one call.
    timeout_seconds
        Wall time that one call may take, connection included.
    tries
        Calls made at most for one completion; each is an event of its own.
    backoff_seconds
        Wait before the second try; doubled for each further one. A longer ``Retry-After`` wins.
    requests_per_minute
        Calls started within any 60 s, all workers of the server together, on whatever host (None: no limit).
    concurrent
        Calls in flight at once, all workers of the process together.
    usd_per_million_input, usd_per_million_output
        Price in USD per million tokens. None takes litellm's price of the model; a local model is
        ``0.0``.
    format
        ``whole``: replies are whole files. ``diff``: replies are patches of the first parent.
    extra
        Further parameters of the request, as in OpenAI's chat completions (``top_p``, ``stop``, …);
        ``extra.extra_body`` goes into the request's body as it is.
    """

    model: str
    api_base: str | None = None
    api_key_env: str | None = None
    temperature: float = 1.0
    tokens: int = 8192
    timeout_seconds: float = 300.0
    tries: int = 4
    backoff_seconds: float = 2.0
    requests_per_minute: int | None = None
    concurrent: int = 8
    usd_per_million_input: float | None = None
    usd_per_million_output: float | None = None
    format: Literal["whole", "diff"] = "whole"
    extra: dict[str, Any] = {}

    def __post_init__(self) -> None:
        for name in ("tokens", "tries", "concurrent"):
            if getattr(self, name) < 1:
                raise ValueError(f"proposer.{name} is {getattr(self, name)}; it must be at least 1")
        if self.requests_per_minute is not None and self.requests_per_minute < 1:
            raise ValueError(
                f"proposer.requests_per_minute is {self.requests_per_minute}; it must be at least 1, "
                "or left out for no limit"
            )
        if not 0.0 < self.timeout_seconds < math.inf:
            raise ValueError(f"proposer.timeout_seconds is {self.timeout_seconds}; it must be above 0")
        for name in ("backoff_seconds", "temperature"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(f"proposer.{name} is {getattr(self, name)}; it must not be negative")
        prices = (self.usd_per_million_input, self.usd_per_million_output)
        if (prices[0] is None) != (prices[1] is None):
            raise ValueError(
                "proposer.usd_per_million_input and proposer.usd_per_million_output are a pair: give both or neither"
            )
        for price in prices:
            if price is not None and not 0.0 <= price < math.inf:
                raise ValueError(f"a price of {price} USD per million tokens; it must not be negative")
        # The value is not repeated in the message: someone may have pasted the key itself.
        if self.api_key_env is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.api_key_env):
            raise ValueError(
                "proposer.api_key_env must be the name of an environment variable that holds the key, "
                "such as OPENAI_API_KEY, never the key itself"
            )
        self._check_address()
        for name in self.extra:
            if name not in EXTRA_PARAMETERS:
                raise ValueError(
                    f"proposer.extra.{name} is not one of {', '.join(sorted(EXTRA_PARAMETERS))}; "
                    "what only this endpoint knows goes under proposer.extra.extra_body"
                )

    def _check_address(self) -> None:
        if self.api_base is None:
            return
        parts = urlsplit(self.api_base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("proposer.api_base must be an http or https address, such as http://127.0.0.1:8000/v1")
        if parts.username is not None or parts.query:
            raise ValueError(
                "proposer.api_base must not carry a user, a password or a query, since settings are recorded: "
                "name the key's environment variable in proposer.api_key_env"
            )

    @property
    def model_name(self) -> str:
        """The model's name as litellm has it."""
        return self.model.removeprefix(PREFIX)
