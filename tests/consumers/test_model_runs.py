"""Whole runs whose proposer is a model: a real endpoint on loopback, in all its moods."""

from __future__ import annotations

import collections
import json
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from evolog.events import Event
from evolog.events.kinds import (
    CallStarted,
    CompletionRecorded,
    ProposalMade,
    ProposalRefused,
    RequestFailed,
    RunCompleted,
)
from openai_server import Hangs, OpenAIServer, Raw, Reply, Says, Status, dead_url
from runs import assert_nothing_left, decisions_of, events_of, evolog, finish, start, write_task

DIES_AT = (sys.executable, str(Path(__file__).parent.parent / "support" / "dies_at.py"))

_PROPOSER = """\
[proposer]
model = "litellm:openai/test-model"
api_base = "{url}"
seconds = 30.0
attempts = 2
tokens = 500
usd = 0.05
usd_per_million_input = 1.0
usd_per_million_output = 2.0
timeout_seconds = 2.0
tries = 2
backoff_seconds = 0.05
requests_per_minute = 1000
"""


def model_task(folder: Path, url: str, *, candidates: int = 6, usd: float = 1.0) -> Path:
    file = write_task(folder, candidates=candidates, generation=3)
    text = file.read_text().replace('[proposer]\nmodel = "builtin:mutate"\n', _PROPOSER.format(url=url))
    text = text.replace(f"candidates = {candidates}", f"candidates = {candidates}\nusd = {usd}")
    file.write_text(text)
    return file


def programs(number: int, body: Mapping[str, Any]) -> Reply:
    """Another program for each seed: the reply follows from the request, as a deterministic model's would."""
    return Says(text=f"```python\ndef f(x, y, up):\n    return x + {body['seed'] % 1000}\n```")


def status_of(events: list[Event]) -> str:
    [completed] = [event.data for event in events if isinstance(event.data, RunCompleted)]
    return completed.status


def calls_of(events: list[Event]) -> tuple[list[CallStarted], list[CompletionRecorded]]:
    started = [event.data for event in events if isinstance(event.data, CallStarted)]
    return started, [event.data for event in events if isinstance(event.data, CompletionRecorded)]


def test_a_run_with_a_model_records_each_call_and_what_it_cost(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with OpenAIServer(programs) as server:
        out = evolog(home, "run", str(model_task(tmp_path / "task", server.url)), "--quiet")
        asked = len(server.requests)
    events = events_of(home)
    started, ended = calls_of(events)
    assert asked == len(started) == len(ended) == 6
    assert {call.call for call in started} == {call.call for call in ended}
    each = 11 * 1e-6 + 7 * 2e-6
    assert all(abs(call.usd - each) < 1e-12 for call in ended)
    made = [event.data for event in events if isinstance(event.data, ProposalMade)]
    assert all(proposal.prompt is not None and proposal.replies for proposal in made)
    charged = json.loads(evolog(home, "show", "latest", "budget", "--json").stdout)["charged_usd"]
    assert abs(charged - 6 * each) < 1e-12
    assert "are equal" in out.stdout
    assert_nothing_left(home)


def test_two_runs_with_the_same_model_decide_the_same(tmp_path: Path) -> None:
    with OpenAIServer(programs) as server:
        task = model_task(tmp_path / "task", server.url)
        for name in ("one", "other"):
            evolog(tmp_path / name, "run", str(task), "--quiet")
    assert decisions_of(events_of(tmp_path / "one")) == decisions_of(events_of(tmp_path / "other"))


def test_rate_limits_and_garbage_are_waited_out_and_recorded(tmp_path: Path) -> None:
    moods: dict[int, Reply] = {0: Status(code=429), 2: Raw(body=b"<html>"), 4: Status(code=500)}

    def moody(number: int, body: Mapping[str, Any]) -> Reply:
        return moods.get(number) or programs(number, body)

    home = tmp_path / "home"
    with OpenAIServer(moody) as server:
        task = model_task(tmp_path / "task", server.url)
        evolog(home, "run", str(task), "--set", "proposer.tries=4", "--quiet")
    _, ended = calls_of(events_of(home))
    assert len(ended) == 9
    assert collections.Counter(call.outcome for call in ended)["ok"] == 6
    assert "rate-limited" in {call.outcome for call in ended}


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Status(code=401, message="wrong key"), "wrong key"),
        (Hangs(), "timeout: 2 of 2 tries failed"),
        (Raw(body=b"not json"), ""),
        (None, "cannot connect"),
    ],
    ids=["refuses", "hangs", "garbage", "dead"],
)
def test_a_run_whose_endpoint_fails_ends_non_zero_and_says_why(
    tmp_path: Path, reply: Reply | None, said: str
) -> None:
    home = tmp_path / "home"
    with OpenAIServer([reply or Hangs()]) as server:
        url = server.url if reply is not None else dead_url()
        out = evolog(home, "run", str(model_task(tmp_path / "task", url)), expect=1)
    assert "failed, " in out.stdout
    assert said in out.stdout
    events = events_of(home)
    assert status_of(events) == "failed"
    assert all(isinstance(e.data, RequestFailed) for e in events if e.kind in ("proposal.made", "request.failed"))
    assert "are equal" in out.stdout


def test_replies_without_a_program_are_refused_and_the_run_fails(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with OpenAIServer([Says(text="I cannot help with that."), Says(text="```python\ndef f(x:\n```")]) as server:
        out = evolog(home, "run", str(model_task(tmp_path / "task", server.url)), expect=1)
    assert "6 refused" in out.stdout
    reasons = {event.data.reason for event in events_of(home) if isinstance(event.data, ProposalRefused)}
    assert reasons == {"empty", "unparsable"}


def test_money_runs_out_with_exit_2_and_the_cap_is_never_passed(tmp_path: Path) -> None:
    def dear(number: int, body: Mapping[str, Any]) -> Reply:
        reply = programs(number, body)
        assert isinstance(reply, Says)
        return Says(text=reply.text, prompt_tokens=20_000, completion_tokens=500)

    home = tmp_path / "home"
    with OpenAIServer(dear) as server:
        task = model_task(tmp_path / "task", server.url, candidates=100, usd=0.2)
        out = evolog(home, "run", str(task), "--quiet", expect=2)
    assert "budget.usd = 0.2" in out.stdout
    events = events_of(home)
    assert status_of(events) == "budget_exhausted"
    _, ended = calls_of(events)
    assert 0.1 < sum(call.usd for call in ended) <= 0.2


def test_killed_while_a_call_is_under_way_it_is_charged_at_its_worst_and_asked_again(tmp_path: Path) -> None:
    home, release = tmp_path / "home", threading.Event()

    def slow(number: int, body: Mapping[str, Any]) -> Reply:
        if number >= 2:
            release.wait(1.0)
        return programs(number, body)

    with OpenAIServer(slow) as server:
        task = model_task(tmp_path / "task", server.url)
        killed = start(home, "call-started", "3", "run", str(task), command=DIES_AT)
        assert killed.stderr is not None
        run = killed.stderr.readline().split()[1].rstrip(":")
        assert finish(killed)[0] == -signal.SIGKILL
        release.set()
        evolog(home, "resume", run, "--quiet")
        evolog(tmp_path / "other", "run", str(task), "--quiet")
    events = events_of(home, run)
    started, ended = calls_of(events)
    lost = {call.call: call.worst_usd for call in started} | {call.call: 0.0 for call in ended}
    assert sum(worst > 0.0 for worst in lost.values()) >= 1
    # What the dead attempt may have cost is in the bill.
    shown = evolog(home, "show", run, "budget").stdout
    assert f"unsettled  ${sum(lost.values()):.4f}" in shown
    assert len([event for event in events if event.kind == "proposal.made"]) == 6
    # The answers cost more, but what was decided from them is the same, apart from the money.
    assert decisions_of(events).keys() == decisions_of(events_of(tmp_path / "other")).keys()
    evolog(home, "replay", run)
    assert_nothing_left(home)
