"""The evaluator ``sandbox``: what a candidate does is never the judge's word (design rule 8)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from evolog.consumers.evaluation import Assignment, SandboxEvaluator
from evolog.events import Limits, blob_of
from evolog.events.kinds import ExecutionRequested, Split, TaskRegistered, TraceRecorded
from evolog.infra.sandbox import open_sandbox
from facts import Notebook

INTERFACE = b"def f(x: float) -> float: ...\n"
HARNESS = b"""\
import json
from program import f
given = json.load(open("data.json"))
print(json.dumps([f(x) for x in given]))
"""
EVALUATOR = b"""\
seen = []
def evaluate(given, answers, output):
    seen.append(output)
    if not isinstance(output, list) or len(output) != len(answers):
        raise ValueError("expected a list of numbers")
    error = sum(abs(a - b) for a, b in zip(answers, output))
    return {"score": error, "metrics": {"seen": len(seen)}}
"""
DATA = json.dumps({"given": [1.0, 2.0, 3.0], "answers": [2.0, 4.0, 6.0]}).encode()
GOOD = b"def f(x): return 2 * x\n"


def assignment(
    program: bytes, *, evaluator: bytes = EVALUATOR, harness: bytes = HARNESS, **limits: Any
) -> Assignment:
    task = TaskRegistered(
        name="double",
        description="",
        direction="minimize",
        interface=blob_of(INTERFACE),
        harness=blob_of(harness),
        evaluator=blob_of(evaluator),
        splits=(Split(name="search", data=blob_of(DATA)),),
    )
    request = ExecutionRequested(
        candidate="3.1",
        program=blob_of(program),
        task="double",
        split="search",
        purpose="search",
        seed=7,
        limits=Limits(**{"seconds": 5.0, **limits}),
    )
    return Assignment(
        run="r1",
        place="4.1",
        request=request,
        task=task,
        program=program,
        harness=harness,
        evaluator=evaluator,
        data=DATA,
    )


def evaluate(*assignments: Assignment) -> tuple[list[TraceRecorded], Notebook]:
    notebook = Notebook()

    async def run() -> list[TraceRecorded]:
        sandbox = open_sandbox("auto")
        evaluator = SandboxEvaluator({}, lambda: sandbox)
        try:
            return [await evaluator.evaluate(one, store=notebook.store) for one in assignments]
        finally:
            await evaluator.close()
            await sandbox.close()

    return asyncio.run(run()), notebook


def reading_of(program: bytes, **options: Any) -> tuple[str, float | None, str]:
    [trace], _ = evaluate(assignment(program, **options))
    return trace.reading.status, trace.reading.score, trace.reading.reason or ""


def test_a_program_is_scored_with_its_metrics_output_and_attestation() -> None:
    [trace], notebook = evaluate(assignment(b"def f(x): return 2 * x + 1\n"))
    assert (trace.reading.status, trace.reading.score, trace.reading.metrics) == ("scored", 3.0, {"seen": 1.0})
    assert (trace.outcome, trace.exit_code, trace.feedback) == ("exited", 0, None)
    assert trace.output is not None
    assert notebook.blobs[trace.output.sha256] == b"[3.0, 5.0, 7.0]\n"
    assert trace.attestation.evaluator == blob_of(EVALUATOR).sha256
    assert trace.attestation.backend == open_sandbox("auto").name


def test_each_program_is_judged_in_a_process_of_its_own() -> None:
    """`seen` would count up if anything of one candidate reached the next one's judge."""
    traces, _ = evaluate(*[assignment(GOOD)] * 3)
    assert [trace.reading.metrics["seen"] for trace in traces] == [1.0, 1.0, 1.0]


def test_a_failing_program_is_invalid_and_its_error_is_feedback() -> None:
    [trace], notebook = evaluate(assignment(b"def f(x): return 1 / 0\n"))
    assert trace.reading.status == "invalid"
    assert "ZeroDivisionError" in (trace.reading.reason or "")
    assert trace.feedback is not None
    feedback = notebook.blobs[trace.feedback.sha256].decode()
    assert "program.py" in feedback
    assert "ZeroDivisionError" in feedback
    assert "/tmp/" not in feedback, "the job's directory differs from run to run"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (b"import os, json\nprint(json.dumps([2, 4, 6]), flush=True)\nos._exit(1)\n", "exit code 1"),
        (b"import os\nos._exit(0)\n", "not one JSON document"),
        (b"print('{\"score\": 0.0}')\ndef f(x): return 0\n", "not one JSON document"),
        (b"import os\nprint('{\"score\": 0.0}', flush=True)\nos._exit(0)\n", "expected a list of numbers"),
        (b"def f(x): return 'two'\n", "TypeError"),
        (b"def f(x): return float('nan')\n", "JSON"),
        (b"def f(x): return 1e308 * x\n", ""),
        (b"def f(x):\n    while True: pass\n", "timeout"),
        (b"def f(x) return 1\n", "SyntaxError"),
        (b"g = 1\n", "ImportError"),
        (b"\xff\xfe", "SyntaxError"),
        (b"", "ImportError"),
        (b"def f(x): print('x' * 10_000_000); return 1\n", "output"),
    ],
)
def test_what_a_program_may_try_is_invalid_and_never_a_score(program: bytes, why: str) -> None:
    status, score, reason = reading_of(program, seconds=1.5)
    assert (status, score) == ("invalid", None)
    assert why in reason


def test_the_candidate_never_has_the_answers() -> None:
    program = b"""\
import os
def f(x):
    found = [name for name in os.listdir(".") if "6" + ".0" in open(name, errors="replace").read()]
    return float(len(found))
"""
    harness = HARNESS.replace(b"[f(x) for x in given]", b"[2 * x if f(x) == 0 else -1 for x in given]")
    assert reading_of(program, harness=harness) == ("scored", 0.0, "")


@pytest.mark.parametrize(
    ("evaluator", "status", "why"),
    [
        (b"def evaluate(given, answers, output): return float('nan')\n", "invalid", "score is nan"),
        (b"def evaluate(given, answers, output): return True\n", "invalid", "bool"),
        (b"def evaluate(given, answers, output): raise ValueError('too long')\n", "invalid", "too long"),
        (b"def evaluate(given, answers, output): return 1 // 0\n", "invalid", "evaluator.py:1"),
        (b"def evaluate(given, answers, output):\n    while True: pass\n", "invalid", "without a verdict"),
        (b"import os\ndef evaluate(given, answers, output): os._exit(0)\n", "invalid", "without a verdict"),
        (b"def evaluate(:\n", "not_run", "cannot be loaded"),
        (b"x = 1\n", "not_run", "cannot be loaded"),
    ],
)
def test_an_evaluator_that_fails_gives_no_score_and_says_why(evaluator: bytes, status: str, why: str) -> None:
    found, score, reason = reading_of(GOOD, evaluator=evaluator, seconds=1.0)
    assert (found, score) == (status, None)
    assert why in reason


def test_what_the_evaluator_prints_is_no_verdict() -> None:
    evaluator = b"def evaluate(given, answers, output):\n    print('{\"score\": 99}')\n    return 1.5\n"
    assert reading_of(GOOD, evaluator=evaluator) == ("scored", 1.5, "")


def test_a_judge_that_died_is_started_again() -> None:
    killer = b"""\
import os
def evaluate(given, answers, output):
    os.kill(os.getppid(), 9)
    return 1.0
"""
    traces, _ = evaluate(assignment(GOOD, evaluator=killer), assignment(GOOD))
    assert traces[0].reading.status in ("not_run", "invalid")
    assert traces[1].reading.score == 0.0
