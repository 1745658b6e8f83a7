"""Settings of the model client: what does not fit is refused, and a secret is repeated nowhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from evolog.infra.models import ModelSettings


def decoded(**table: Any) -> ModelSettings:
    return msgspec.convert({"model": "litellm:openai/m", **table}, ModelSettings)


def test_the_models_name_is_litellms() -> None:
    assert decoded().model_name == "openai/m"


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"tries": 0}, "proposer.tries"),
        ({"tokens": 0}, "proposer.tokens"),
        ({"concurrent": 0}, "proposer.concurrent"),
        ({"requests_per_minute": 0}, "proposer.requests_per_minute"),
        ({"timeout_seconds": 0.0}, "proposer.timeout_seconds"),
        ({"backoff_seconds": -1.0}, "proposer.backoff_seconds"),
        ({"temperature": -0.1}, "proposer.temperature"),
        ({"usd_per_million_input": 1.0}, "both or neither"),
        ({"usd_per_million_input": -1.0, "usd_per_million_output": 1.0}, "negative"),
        ({"api_base": "127.0.0.1:8000"}, "proposer.api_base"),
        ({"extra": {"num_retries": 3}}, "proposer.extra.num_retries"),
        ({"extra": {"api_key": "x"}}, "proposer.extra.api_key"),
        ({"format": "haiku"}, "haiku"),
        ({"triez": 3}, "triez"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(table: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        decoded(**table)


@pytest.mark.parametrize(
    "table",
    [
        {"api_key_env": "sk-proj-0123456789"},
        {"api_base": "https://me:sk-proj-0123456789@example.com/v1"},
        {"api_base": "https://example.com/v1?key=sk-proj-0123456789"},
    ],
)
def test_a_pasted_secret_is_refused_without_being_repeated(table: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        decoded(**table)
    assert "sk-proj" not in str(caught.value)
