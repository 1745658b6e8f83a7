"""The model client over real HTTP: every try is announced and settled, and none is hidden."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from evolog.events import blob_of
from evolog.events.errors import MissingExtraError, RequestFailedError
from evolog.infra.models import Completion, Message, ModelCall, ModelClient, ModelSettings, Spend

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from facts import Notebook, ProcessDiedError
from openai_server import Hangs, OpenAIServer, Raw, Reply, Says, Status, dead_url

QUICK = {"backoff_seconds": 0.0, "timeout_seconds": 30.0, "tries": 3}
PRICED = {"usd_per_million_input": 1.0, "usd_per_million_output": 10.0}


def settings(url: str, **changes: Any) -> ModelSettings:
    return ModelSettings(**{"model": "litellm:openai/a-local-model", "api_base": url, **QUICK, **changes})


def a_call(**changes: Any) -> ModelCall:
    call = ModelCall(
        place="4.2",
        attempt="a-1",
        name="0",
        messages=(Message(role="user", content="Say something."),),
        tokens=100,
        seed=5,
        temperature=0.5,
    )
    return msgspec.structs.replace(call, **changes)


def complete(
    setup: ModelSettings, notes: Notebook, spend: Spend | None = None, call: ModelCall | None = None
) -> Completion:
    return asyncio.run(
        ModelClient(setup).complete(call or a_call(), spend=spend or Spend(), record=notes.record, store=notes.store)
    )


def complete_noting_waits(setup: ModelSettings, notes: Notebook) -> tuple[Completion, list[float]]:
    """Complete without sitting the back-off out."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    client = ModelClient(setup, sleep=sleep)
    return asyncio.run(client.complete(a_call(), spend=Spend(), record=notes.record, store=notes.store)), waits


def failure(
    setup: ModelSettings, notes: Notebook, spend: Spend | None = None, call: ModelCall | None = None
) -> RequestFailedError:
    with pytest.raises(RequestFailedError) as caught:
        complete(setup, notes, spend, call)
    return caught.value


def test_a_completion_is_announced_sent_once_and_settled() -> None:
    notes, spend = Notebook(), Spend()
    with OpenAIServer([Says(text="Something.")]) as server:
        answer = complete(settings(server.url, **PRICED, extra={"top_p": 0.9}), notes, spend)
    assert (answer.text, answer.finish, answer.tries) == ("Something.", "stop", 1)
    assert (answer.provider_model, answer.fingerprint) == ("served-model-0726", "fp_loopback")
    assert list(notes.facts) == ["call-0-1", "call-0-1-end"]
    [started], [ended] = notes.started, notes.ended
    assert (started.attempt, started.call, started.number) == ("a-1", "a-1/call-0-1", 1)
    assert started.model == "openai/a-local-model"
    assert (ended.outcome, ended.call, ended.request) == ("ok", started.call, started.request)
    assert (ended.usage.prompt_tokens, ended.usage.completion_tokens) == (11, 7)
    assert ended.usd == pytest.approx(11e-6 + 70e-6)
    assert spend.total_usd == ended.usd
    assert ended.reply is not None
    assert notes.blobs[ended.reply.sha256] == b"Something."
    assert ended.seconds > 0.0
    # What is recorded as the request is what arrived.
    recorded = msgspec.json.decode(notes.blobs[started.request.sha256])
    assert recorded.pop("model") == "openai/a-local-model"
    [arrived] = server.requests
    assert dict(arrived.body) == {**recorded, "model": "a-local-model"}
    assert (recorded["seed"], recorded["temperature"], recorded["max_tokens"], recorded["top_p"]) == (
        5,
        0.5,
        100,
        0.9,
    )


def test_equal_calls_have_equal_request_digests() -> None:
    digests = set()
    for _ in range(2):
        notes = Notebook()
        with OpenAIServer([Says(text="x")]) as server:
            digests.add(complete(settings(server.url), notes).request.sha256)
    assert len(digests) == 1


def test_a_rate_limit_is_waited_out_and_each_request_is_an_event() -> None:
    notes = Notebook()
    with OpenAIServer([Status(code=429, headers={"Retry-After": "0.25"}), Says(text="now")]) as server:
        answer, waits = complete_noting_waits(settings(server.url), notes)
    assert (answer.text, answer.tries) == ("now", 2)
    assert len(server.requests) == len(notes.started) == len(notes.ended) == 2
    assert [fact.outcome for fact in notes.ended] == ["rate-limited", "ok"]
    assert notes.ended[0].retry_after == 0.25
    assert notes.ended[0].usd == 0.0
    assert waits == [0.25]


def test_the_back_off_doubles_and_a_longer_retry_after_wins() -> None:
    plain = Status(code=503)
    script = [plain, plain, Status(code=503, headers={"Retry-After": "900"}), Status(code=503), Says(text="x")]
    with OpenAIServer(script) as server:
        _, waits = complete_noting_waits(settings(server.url, backoff_seconds=3.0, tries=5), Notebook())
    assert waits == [3.0, 6.0, 900.0, 24.0]


def test_a_wait_past_the_requests_time_is_not_begun() -> None:
    notes = Notebook()
    with OpenAIServer([Status(code=429, headers={"Retry-After": "3600"})]) as server:
        error = failure(settings(server.url), notes, call=a_call(seconds=60.0))
    assert error.reason == "rate-limited"
    assert "3600" in error.detail
    assert "the request has 60 s" in error.detail
    assert len(server.requests) == len(notes.started) == 1


def test_tries_are_used_up_by_a_server_that_keeps_failing() -> None:
    notes = Notebook()
    with OpenAIServer([Status(code=500, message="out of memory on the GPU")]) as server:
        error = failure(settings(server.url, **PRICED), notes)
    assert error.reason == "error"
    assert "3 of 3 tries" in error.detail
    assert "out of memory on the GPU" in error.detail
    assert len(server.requests) == len(notes.started) == len(notes.ended) == 3
    assert [fact.number for fact in notes.started] == [1, 2, 3]
    assert {(fact.outcome, fact.usd) for fact in notes.ended} == {("error", 0.0)}


def test_no_request_is_hidden_where_litellm_would_retry_by_itself() -> None:
    for script in ([Status(code=503)], [Status(code=429)], [Status(code=408)], [Status(code=409)]):
        notes = Notebook()
        with OpenAIServer(script) as server:
            failure(settings(server.url, tries=2), notes)
        assert len(server.requests) == len(notes.started) == 2


def test_a_slow_server_is_given_up_and_charged_at_its_worst_case() -> None:
    notes, spend = Notebook(), Spend()
    with OpenAIServer([Hangs()]) as server:
        error = failure(settings(server.url, **PRICED, timeout_seconds=0.3, tries=2), notes, spend)
    assert error.reason == "timeout"
    assert "proposer.timeout_seconds" in error.detail
    assert [fact.outcome for fact in notes.ended] == ["timeout", "timeout"]
    assert [fact.usd for fact in notes.ended] == [fact.worst_usd for fact in notes.started]
    assert notes.started[0].worst_usd > 100 * 10e-6
    assert error.usd == pytest.approx(sum(fact.worst_usd for fact in notes.started))
    assert len(server.requests) == 2


def test_a_dead_server_costs_nothing_and_is_named() -> None:
    notes, url = Notebook(), dead_url()
    error = failure(settings(url, **PRICED), notes)
    assert error.reason == "unreachable"
    assert f"cannot connect to {url}" in error.detail
    assert [fact.outcome for fact in notes.ended] == ["unreachable"] * 3
    assert error.usd == 0.0


def test_a_connection_that_breaks_off_is_charged_at_its_worst_case() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="x" * 500, drop_after=60), Says(text="whole")]) as server:
        answer = complete(settings(server.url, **PRICED), notes)
    assert answer.text == "whole"
    assert [fact.outcome for fact in notes.ended] == ["unreachable", "ok"]
    assert "broke off" in notes.ended[0].detail
    assert notes.ended[0].usd == notes.started[0].worst_usd
    assert len(server.requests) == 2


def test_a_cut_off_reply_is_a_completion() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="def f(", finish="length")]) as server:
        answer = complete(settings(server.url), notes)
    assert (answer.text, answer.finish, answer.tries) == ("def f(", "length", 1)
    assert notes.ended[0].outcome == "ok"
    assert notes.ended[0].finish == "length"


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_reply_is_a_completion(text: str | None) -> None:
    notes = Notebook()
    with OpenAIServer([Says(text=text)]) as server:
        assert complete(settings(server.url), notes).text == ""
    assert notes.ended[0].outcome == "ok"


@pytest.mark.parametrize(
    "body",
    [
        b"<html>busy</html>",
        b"",
        b"[1, 2]",
        b'{"hello": 1}',
        b'{"choices": []}',
        b'{"choices": [{"index": 0}]}',
        b'{"choices": [{"index": 0, "mess',
    ],
)
def test_a_body_that_is_no_completion_is_garbage_and_tried_again(body: bytes) -> None:
    notes = Notebook()
    with OpenAIServer([Raw(body=body), Says(text="better")]) as server:
        assert complete(settings(server.url, **PRICED), notes).text == "better"
    assert [fact.outcome for fact in notes.ended] == ["garbage", "ok"]
    assert notes.ended[0].usd == notes.started[0].worst_usd
    assert len(server.requests) == 2


def test_garbage_of_another_of_litellms_clients_is_garbage_too() -> None:
    # litellm's hosted_vllm goes through its own HTTP client and not through OpenAI's.
    for body in (b"nope", b'{"hello": 1}'):
        notes = Notebook()
        with OpenAIServer([Raw(body=body), Says(text="better")]) as server:
            complete(settings(server.url, model="litellm:hosted_vllm/m"), notes)
        assert [fact.outcome for fact in notes.ended] == ["garbage", "ok"]
    notes, url = Notebook(), dead_url()
    assert failure(settings(url, model="litellm:hosted_vllm/m"), notes).reason == "unreachable"


@pytest.mark.parametrize(
    "status",
    [
        Status(code=401, message="no such key"),
        Status(code=403, message="not yours"),
        Status(code=400, message="maximum context length exceeded", error_code="context_length_exceeded"),
        Status(code=404, message="no such model"),
        Status(code=422, message="bad field"),
        Status(code=429, message="You exceeded your current quota", error_code="insufficient_quota"),
    ],
    ids=lambda status: f"{status.code}-{status.error_code}",
)
def test_what_another_try_cannot_help_is_refused_at_once(status: Status) -> None:
    notes = Notebook()
    with OpenAIServer([status]) as server:
        error = failure(settings(server.url, **PRICED), notes)
    assert error.reason == "refused"
    assert status.message in error.detail
    assert str(status.code) in error.detail
    assert len(server.requests) == len(notes.started) == 1
    assert notes.ended[0].outcome == "refused"
    assert error.usd == 0.0


def test_a_model_without_a_provider_is_refused_before_anything_is_recorded() -> None:
    notes = Notebook()
    error = failure(settings(dead_url(), model="litellm:nobodys-model"), notes)
    assert error.reason == "refused"
    assert "<provider>/<model>" in error.detail
    assert not notes.facts


# Money.


def test_a_model_of_unknown_price_is_refused_under_a_money_limit() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="x")]) as server:
        error = failure(settings(server.url), notes, Spend(limit_usd=1.0))
    assert error.reason == "refused"
    assert "proposer.usd_per_million_input" in error.detail
    assert not server.requests
    assert not notes.started


def test_a_model_of_unknown_price_costs_nothing_without_a_limit() -> None:
    notes, spend = Notebook(), Spend()
    with OpenAIServer([Says(text="x")]) as server:
        complete(settings(server.url), notes, spend)
    assert (notes.started[0].worst_usd, notes.ended[0].usd, spend.total_usd) == (0.0, 0.0, 0.0)


def test_the_cost_map_prices_a_known_model() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="x", prompt_tokens=1000, completion_tokens=50)]) as server:
        complete(settings(server.url, model="litellm:openai/gpt-4o-mini"), notes, Spend(limit_usd=1.0))
    # 0.15 and 0.60 USD per million tokens, as OpenAI publishes and litellm 1.110 carries.
    assert notes.ended[0].usd == pytest.approx(1000 * 0.15e-6 + 50 * 0.60e-6)
    assert notes.started[0].worst_usd >= 100 * 0.60e-6


def test_the_settings_price_goes_before_the_cost_map() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="x")]) as server:
        complete(settings(server.url, model="litellm:openai/gpt-4o-mini", **PRICED), notes)
    assert notes.ended[0].usd == pytest.approx(11e-6 + 70e-6)


def test_a_reply_without_usage_is_charged_at_its_worst_case() -> None:
    body = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}]}'
    notes = Notebook()
    with OpenAIServer([Raw(body=body)]) as server:
        complete(settings(server.url, **PRICED), notes)
    assert notes.ended[0].usd == notes.started[0].worst_usd > 0.0
    assert "no usage" in notes.ended[0].detail


def test_the_worst_case_bounds_what_a_call_costs() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="x", prompt_tokens=90, completion_tokens=100)]) as server:
        complete(
            settings(server.url, **PRICED), notes, call=a_call(messages=(Message(role="user", content="é" * 90),))
        )
    assert notes.ended[0].usd <= notes.started[0].worst_usd


def test_a_try_that_could_pass_the_limit_is_not_made() -> None:
    notes = Notebook()
    with OpenAIServer([Hangs()]) as server:
        error = failure(settings(server.url, **PRICED, timeout_seconds=0.2), notes, Spend(limit_usd=0.0025))
    # One try may cost some 0.0012 USD: two of them fit, the third does not.
    assert error.reason == "over-budget"
    assert "proposer.usd" in error.detail
    assert len(server.requests) == len(notes.started) == 2
    assert error.usd == pytest.approx(sum(fact.usd for fact in notes.ended))
    assert error.usd <= 0.0025


def test_money_of_earlier_attempts_counts() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="x")]) as server:
        error = failure(settings(server.url, **PRICED), notes, Spend(limit_usd=0.0025, spent_usd=0.002))
    assert (error.reason, error.usd) == ("over-budget", 0.002)
    assert not server.requests


def test_calls_at_once_reserve_from_one_account() -> None:
    notes, spend = Notebook(), Spend(limit_usd=0.0025)

    async def scenario(url: str) -> list[Completion | BaseException]:
        client = ModelClient(settings(url, **PRICED, timeout_seconds=0.3, tries=1))
        calls = [
            client.complete(a_call(name=str(i)), spend=spend, record=notes.record, store=notes.store)
            for i in range(4)
        ]
        return await asyncio.gather(*calls, return_exceptions=True)

    with OpenAIServer([Hangs()]) as server:
        errors = asyncio.run(scenario(server.url))
    reasons = sorted(error.reason for error in errors if isinstance(error, RequestFailedError))
    assert reasons == ["over-budget", "over-budget", "timeout", "timeout"]
    assert len(server.requests) == 2
    assert spend.total_usd <= 0.0025


def test_a_crash_after_the_announcement_leaves_the_worst_case_standing() -> None:
    notes, spend = Notebook(dies_after="call.started"), Spend()
    with OpenAIServer([Says(text="x")]) as server, pytest.raises(ProcessDiedError):
        complete(settings(server.url, **PRICED), notes, spend)
    assert not server.requests
    assert not notes.ended
    assert spend.total_usd == notes.started[0].worst_usd > 0.0


def test_a_cancelled_call_stays_announced() -> None:
    notes, spend = Notebook(), Spend()
    arrived = threading.Event()

    def reply(number: int, _: object) -> Reply:
        arrived.set()
        return Hangs()

    async def scenario(url: str) -> None:
        client = ModelClient(settings(url, **PRICED))
        task = asyncio.create_task(client.complete(a_call(), spend=spend, record=notes.record, store=notes.store))
        await asyncio.to_thread(arrived.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with OpenAIServer(reply) as server:
        asyncio.run(scenario(server.url))
    assert len(notes.started) == 1
    assert not notes.ended
    assert spend.total_usd == notes.started[0].worst_usd


# Secrets.


def test_the_key_is_sent_and_recorded_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-loopback-0123456789"
    monkeypatch.setenv("EVOLOG_TEST_KEY", key)
    notes = Notebook()
    script = [
        Status(code=500, message=f"rejected {key}"),
        Status(code=429, message=f"slow down, {key}", headers={"Retry-After": "0"}),
        Says(text=f"your key is {key}", fingerprint=key),
    ]
    with OpenAIServer(script) as server:
        answer = complete(settings(server.url, api_key_env="EVOLOG_TEST_KEY"), notes)
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {key}"}
    assert len(server.requests) == 3
    assert key.encode() not in notes.everything()
    assert answer.text == "your key is [secret]"
    assert "masked" in notes.ended[-1].detail


def test_a_key_that_is_not_set_is_refused_before_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVOLOG_TEST_KEY", raising=False)
    notes = Notebook()
    with OpenAIServer([Says(text="x")]) as server:
        error = failure(settings(server.url, api_key_env="EVOLOG_TEST_KEY"), notes)
    assert error.reason == "refused"
    assert "EVOLOG_TEST_KEY" in error.detail
    assert not server.requests


def test_another_providers_key_is_not_sent_to_an_endpoint_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-meant-for-openai-only")
    notes = Notebook()
    with OpenAIServer([Says(text="x")]) as server:
        complete(settings(server.url), notes)
    assert "sk-meant-for-openai-only" not in str(server.requests)


# Many at once.


def test_calls_in_flight_are_bounded_for_all_clients_of_a_provider() -> None:
    notes = Notebook()
    two_are_here = threading.Barrier(2)

    def reply(number: int, _: object) -> Reply:
        # Each pair must be in flight together, and a third one would break the bound.
        two_are_here.wait(timeout=30.0)
        return Says(text=str(number))

    async def scenario(url: str) -> None:
        clients = [ModelClient(settings(url, concurrent=2)) for _ in range(2)]
        await asyncio.gather(
            *[
                clients[i % 2].complete(a_call(name=str(i)), spend=Spend(), record=notes.record, store=notes.store)
                for i in range(8)
            ]
        )

    with OpenAIServer(reply) as server:
        asyncio.run(scenario(server.url))
    assert server.most_at_once == 2
    assert len(server.requests) == 8


# The import.

_IN_A_FRESH_PROCESS = """
import asyncio, sys
{before}
from evolog.events.errors import MissingExtraError
from evolog.infra.models import Message, ModelCall, ModelClient, ModelSettings, Spend
import evolog.consumers.proposing.llm
assert sys.modules.get("litellm") is None, "importing the proposer imported litellm"
{after}
"""


def test_the_proposer_is_imported_without_litellm() -> None:
    script = _IN_A_FRESH_PROCESS.format(before="", after="print('imported')")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "imported\n", done.stderr


def test_a_missing_litellm_names_the_install_command() -> None:
    after = """
async def never(*_): raise AssertionError("nothing is recorded")
call = ModelCall(place="1", attempt="a", name="0", messages=(Message(role="user", content="x"),), tokens=1)
client = ModelClient(ModelSettings(model="litellm:openai/x"))
for _ in range(2):
    try:
        asyncio.run(client.complete(call, spend=Spend(), record=never, store=never))
    except MissingExtraError as error:
        print(error)
"""
    script = _IN_A_FRESH_PROCESS.format(before="sys.modules['litellm'] = None", after=after)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    expected = str(MissingExtraError("a model named litellm:<model>", "llm"))
    assert done.stdout.splitlines() == [expected, expected], done.stderr
    assert "pip install 'evolog[llm]'" in expected


def test_a_process_that_called_a_model_ends_quietly(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("EVOLOG_FROM_DOTENV=1\n")
    script = f"""
import asyncio, os, sys
sys.path[:0] = [{str(Path(__file__).parents[2] / "support")!r}]
from openai_server import OpenAIServer, Says
from facts import Notebook
from evolog.infra.models import Message, ModelCall, ModelClient, ModelSettings, Spend
notes = Notebook()
call = ModelCall(place="1", attempt="a", name="0", messages=(Message(role="user", content="x"),), tokens=1)
with OpenAIServer([Says(text="hello")]) as server:
    client = ModelClient(ModelSettings(model="litellm:openai/x", api_base=server.url))
    answer = asyncio.run(client.complete(call, spend=Spend(), record=notes.record, store=notes.store))
print(answer.text, os.environ.get("EVOLOG_FROM_DOTENV"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello None\n", "")


def test_blobs_are_stored_before_the_events_that_name_them() -> None:
    class Ordered(Notebook):
        async def record(self, name: str, payload: Any) -> None:
            for blob in (payload.request, getattr(payload, "reply", None)):
                assert blob is None or blob.sha256 in self.blobs
            await super().record(name, payload)

    notes = Ordered()
    with OpenAIServer([Says(text="hi")]) as server:
        answer = complete(settings(server.url), notes)
    assert answer.reply == blob_of(b"hi")
