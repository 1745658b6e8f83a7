"""What a failure means, where HTTP alone cannot show it; and prices."""

from __future__ import annotations

import time
from email.utils import formatdate
from types import SimpleNamespace

import pytest
from evolog.events import Usage
from evolog.infra.models import price_in_map, price_per_million
from evolog.infra.models.outcomes import reply_of_error, reply_of_response


class RateLimitError(Exception):
    def __init__(self, headers: dict[str, str]) -> None:
        self.response = SimpleNamespace(status_code=429, headers=headers)
        super().__init__("slow down")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "1e9"}, 86_400.0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "tomorrow"}, None),
        ({"Server": "x"}, None),
    ],
)
def test_retry_after_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    reply = reply_of_error(RateLimitError(headers), "http://x")
    assert (reply.outcome, reply.retry_after) == ("rate-limited", seconds)


def test_retry_after_may_be_a_date() -> None:
    reply = reply_of_error(RateLimitError({"Retry-After": formatdate(time.time() + 3000, usegmt=True)}), "http://x")
    assert reply.retry_after is not None
    assert 2000 < reply.retry_after <= 3000


def test_an_error_of_no_known_cause_is_charged_at_its_worst_case() -> None:
    reply = reply_of_error(RuntimeError("?"), "http://x")
    assert (reply.outcome, reply.charge) == ("error", "worst")


def test_a_chain_of_causes_that_bites_its_tail_ends() -> None:
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert reply_of_error(first, "http://x").outcome in ("error", "garbage")


def test_lone_surrogates_do_not_reach_the_log() -> None:
    message = SimpleNamespace(content="a\ud800b \U0001f600")
    response = SimpleNamespace(
        choices=[SimpleNamespace(message=message, finish_reason="stop")],
        model="m",
        usage=SimpleNamespace(prompt_tokens=3, completion_tokens=None),
    )
    reply = reply_of_response(response)
    assert reply.text == "a�b \U0001f600"
    assert reply.usage == Usage(prompt_tokens=3, completion_tokens=0)


def test_the_worst_price_is_the_highest_that_a_token_can_have() -> None:
    price = price_in_map(
        {
            "input_cost_per_token": 1e-6,
            "input_cost_per_token_above_200k_tokens": 2e-6,
            "input_cost_per_token_batches": 9.0,
            "input_cost_per_audio_token": 9.0,
            "input_cost_per_request": 9.0,
            "cache_creation_input_token_cost": 3e-6,
            "output_cost_per_token": 5e-6,
            "output_cost_per_reasoning_token": 8e-6,
            "max_tokens": 4096,
        }
    )
    assert price is not None
    assert (price.worst_input_usd, price.worst_output_usd) == (3e-6, 8e-6)
    assert price.of(Usage(prompt_tokens=10, completion_tokens=2)) == pytest.approx(20e-6)
    assert price.worst(1000, 10) == pytest.approx(3e-3 + 80e-6)


def test_a_model_that_costs_nothing_has_a_price_and_an_unknown_one_has_none() -> None:
    assert price_per_million(0.0, 0.0).worst(10**6, 10**6) == 0.0
    assert price_in_map({"output_cost_per_image": 0.04}) is None
