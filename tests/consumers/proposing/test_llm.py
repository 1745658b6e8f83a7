"""The proposer `litellm:<model>` over real HTTP: from a brief to programs, money and problems."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from evolog.consumers.proposing.llm import LiteLLMProposer, sample_seed
from evolog.consumers.proposing.normal import normal_digest
from evolog.consumers.proposing.port import Brief
from evolog.events import Limits, blob_of
from evolog.events.errors import RequestFailedError
from evolog.events.kinds import Operator, Parent, ProposalMade, ProposalRequested, TaskRegistered
from evolog.infra.models import ModelSettings

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))
from facts import Notebook, ProcessDiedError
from openai_server import OpenAIServer, Reply, Says, Status, dead_url

PARENT = "def rule(job):\n    return job.time\n"
OTHER = "def rule(job):\n    return -job.left\n"
WHOLE = "Shortest first, by weight.\n\n```python\ndef rule(job):\n    return job.time / job.weight\n```\n"
BLOCK = "<<<<<<< SEARCH\n    return job.time\n=======\n    return job.time * 2\n>>>>>>> REPLACE\n"
PRICED = {"usd_per_million_input": 1.0, "usd_per_million_output": 10.0}

NOTHING = blob_of(b"")
TASK = TaskRegistered(
    name="shop",
    description="Rank the operations of a job shop.",
    direction="minimize",
    interface=NOTHING,
    harness=NOTHING,
    evaluator=NOTHING,
    splits=(),
)


def brief(
    operator: Operator = "improve",
    parents: tuple[str, ...] = (PARENT,),
    *,
    samples: int = 1,
    usd: float = 0.0,
    **more: Any,
) -> Brief:
    request = ProposalRequested(
        task="shop",
        operator=operator,
        model="litellm:openai/a-local-model",
        seed=77,
        samples=samples,
        temperature=0.25,
        limits=Limits(seconds=60.0, tokens=64, usd=usd),
        parents=tuple(
            Parent(candidate=f"c-{i}", program=blob_of(p.encode()), score=10.0 + i) for i, p in enumerate(parents)
        ),
    )
    fields = {"interface": "def rule(job): ...", "feedback": "", "attempt": "a-1", **more}
    return Brief(run="r1", place="3.1", request=request, task=TASK, parents=parents, **fields)


def settings(url: str, **changes: Any) -> ModelSettings:
    quick = {"backoff_seconds": 0.0, "timeout_seconds": 30.0, "tries": 2}
    return ModelSettings(**{"model": "litellm:openai/a-local-model", "api_base": url, **quick, **changes})


def propose(setup: ModelSettings, asked: Brief, notes: Notebook) -> ProposalMade:
    return asyncio.run(LiteLLMProposer("test", setup).propose(asked, record=notes.record, store=notes.store))


def test_a_whole_file_becomes_a_program() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text=WHOLE)]) as server:
        made = propose(settings(server.url, **PRICED), brief(), notes)
    [sample] = made.samples
    assert sample.program is not None
    source = notes.blobs[sample.program.sha256].decode()
    assert source == "def rule(job):\n    return job.time / job.weight\n"
    assert sample.normal == normal_digest(source)
    assert (sample.problem, sample.diagnostics) == (None, ())
    assert made.prompt is not None
    # The stored prompt is what the server was shown, and the stored reply what it said.
    [arrived] = server.requests
    assert msgspec.json.decode(notes.blobs[made.prompt.sha256]) == arrived.body["messages"]
    assert [notes.blobs[reply.sha256].decode() for reply in made.replies] == [WHOLE]
    assert (arrived.body["temperature"], arrived.body["max_tokens"]) == (0.25, 64)
    assert arrived.body["seed"] == sample_seed(77, 0) < 2**31
    assert made.usd == pytest.approx(11e-6 + 70e-6)
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (11, 7)


def test_a_patch_is_applied_to_the_first_parent() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text=BLOCK)]) as server:
        made = propose(settings(server.url, format="diff"), brief("crossover", (PARENT, OTHER)), notes)
    [sample] = made.samples
    assert sample.program is not None
    assert notes.blobs[sample.program.sha256] == b"def rule(job):\n    return job.time * 2\n"
    assert "<<<<<<< SEARCH" in server.requests[0].body["messages"][-1]["content"]


def test_a_patch_that_does_not_fit_is_refused_with_the_reason() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text=BLOCK)]) as server:
        made = propose(settings(server.url, format="diff"), brief("improve", (OTHER,)), notes)
    [sample] = made.samples
    assert (sample.program, sample.normal, sample.problem) == (None, None, "patch")
    assert "do not occur" in sample.diagnostics[0]


def test_a_draft_has_nothing_to_patch() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text=WHOLE)]) as server:
        made = propose(settings(server.url, format="diff"), brief("draft", ()), notes)
    assert made.samples[0].program is not None
    assert "SEARCH" not in str(server.requests[0].body)


@pytest.mark.parametrize(
    ("reply", "problem", "said"),
    [
        (Says(text=""), "empty", "empty"),
        (Says(text="I would rather not."), "empty", "no fenced block"),
        (Says(text="```python\ndef f(:\n```"), "unparsable", "not Python"),
        (Says(text="```python\ndef f():\n    return 1\n", finish="length"), "unparsable", "proposer.tokens"),
        (Says(text=None, finish="content_filter"), "empty", "content filter"),
    ],
)
def test_a_reply_without_a_program_says_why(reply: Reply, problem: str, said: str) -> None:
    notes = Notebook()
    with OpenAIServer([reply]) as server:
        made = propose(settings(server.url, **PRICED), brief(), notes)
    [sample] = made.samples
    assert (sample.program, sample.problem) == (None, problem)
    assert said in " ".join(sample.diagnostics)
    assert made.usd > 0.0
    assert len(made.replies) == 1


def test_a_program_too_deep_to_be_normalised_is_unparsable() -> None:
    deep = "x = " + "+".join(["1"] * 3000)
    notes = Notebook()
    with OpenAIServer([Says(text=f"```python\n{deep}\n```")]) as server:
        made = propose(settings(server.url), brief(), notes)
    assert made.samples[0].problem == "unparsable"


def test_failed_tries_count_in_what_a_proposal_cost() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text="x" * 300, drop_after=50), Says(text=WHOLE)]) as server:
        made = propose(settings(server.url, **PRICED), brief(usd=1.0), notes)
    worst = notes.started[0].worst_usd
    assert made.usd == pytest.approx(worst + 11e-6 + 70e-6)
    assert made.usd == pytest.approx(sum(fact.usd for fact in notes.ended))


def test_an_attempt_that_died_is_charged_to_the_next() -> None:
    died = Notebook(dies_after="call.started")
    with OpenAIServer([Says(text=WHOLE)]) as server:
        setup = settings(server.url, **PRICED)
        with pytest.raises(ProcessDiedError):
            propose(setup, brief(usd=1.0), died)
        worst = died.started[0].worst_usd
        assert not died.ended
        notes = Notebook()
        again = brief(usd=1.0, attempt="a-2", attempt_number=2, spent_usd=worst)
        made = propose(setup, again, notes)
        assert made.usd == pytest.approx(worst + 11e-6 + 70e-6)
        with pytest.raises(RequestFailedError) as caught:
            propose(setup, brief(usd=worst * 1.5, attempt="a-3", spent_usd=worst), Notebook())
    assert (caught.value.reason, caught.value.usd) == ("over-budget", worst)
    assert len(server.requests) == 1


def test_a_dead_endpoint_fails_the_request_and_says_where() -> None:
    url = dead_url()
    with pytest.raises(RequestFailedError) as caught:
        propose(settings(url), brief(samples=2), Notebook())
    assert (caught.value.reason, caught.value.place) == ("unreachable", "3.1")
    assert url in caught.value.detail


def test_each_sample_is_a_call_with_a_seed_of_its_own() -> None:
    def reply(_: int, body: Mapping[str, Any]) -> Reply:
        return Says(text=f"```python\nanswer = {body['seed']}\n```")

    notes = Notebook()
    with OpenAIServer(reply) as server:
        made = propose(settings(server.url), brief(samples=3), notes)
    programs = [notes.blobs[sample.program.sha256].decode() for sample in made.samples if sample.program is not None]
    assert programs == [f"answer = {sample_seed(77, index)}\n" for index in range(3)]
    assert len(set(programs)) == len(made.replies) == len(server.requests) == 3
    assert {fact.call for fact in notes.started} == {f"a-1/call-{index}-1" for index in range(3)}


def test_a_sample_without_an_answer_does_not_spoil_the_others() -> None:
    def reply(_: int, body: Mapping[str, Any]) -> Reply:
        return Says(text=WHOLE) if body["seed"] == sample_seed(77, 1) else Status(code=400, message="no")

    notes = Notebook()
    with OpenAIServer(reply) as server:
        made = propose(settings(server.url), brief(samples=2), notes)
    refused, good = made.samples
    assert (refused.program, refused.problem) == (None, "empty")
    assert "HTTP 400" in refused.diagnostics[0]
    assert good.program is not None
    assert len(made.replies) == 1


def test_samples_past_the_money_are_over_budget() -> None:
    notes = Notebook()
    with OpenAIServer([Says(text=WHOLE)]) as server:
        setup = settings(server.url, **PRICED, concurrent=1)
        probe = Notebook()
        propose(setup, brief(), probe)
        worst = probe.started[0].worst_usd
        made = propose(setup, brief(samples=2, usd=worst * 1.001), notes)
    assert [sample.problem for sample in made.samples] == [None, "over-budget"]
    assert made.usd < worst


def test_equal_briefs_make_equal_prompts() -> None:
    prompts = set()
    for _ in range(2):
        with OpenAIServer([Says(text=WHOLE)]) as server:
            prompts.add(propose(settings(server.url), brief(), Notebook()).prompt)
    assert len(prompts) == 1
