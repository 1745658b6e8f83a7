"""``builtin:mutate``: what it makes fits the interface, is small, and follows from the request alone."""

from __future__ import annotations

import ast
import asyncio
import json
import math
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from evolog.consumers.proposing import Brief, normal_digest
from evolog.consumers.proposing.mutate import MutateProposer
from evolog.consumers.proposing.mutate.grow import Grower
from evolog.consumers.proposing.mutate.simplify import simplify
from evolog.consumers.proposing.mutate.target import read_target
from evolog.events import Limits, blob_of
from evolog.events.errors import RequestFailedError, SettingsError
from evolog.events.kinds import Operator, Parent, ProposalMade, ProposalRequested, TaskRegistered
from evolog.replay import Draw
from facts import Notebook
from hypothesis import given, settings
from hypothesis import strategies as st

INTERFACE = 'def f(x: float, y: float, up: bool) -> float:\n    """Anything."""\n'
ROOT = Path(__file__).parents[3]


def brief(
    operator: Operator = "draft", *parents: str, seed: int = 1, interface: str = INTERFACE, samples: int = 1
) -> Brief:
    task = TaskRegistered(
        name="t",
        description="",
        direction="maximize",
        interface=blob_of(interface.encode()),
        harness=blob_of(b""),
        evaluator=blob_of(b""),
        splits=(),
    )
    request = ProposalRequested(
        task="t",
        operator=operator,
        model="builtin:mutate",
        seed=seed,
        limits=Limits(seconds=10.0),
        samples=samples,
        parents=tuple(
            Parent(candidate=str(i), program=blob_of(source.encode()), score=0.5) for i, source in enumerate(parents)
        ),
    )
    return Brief(
        run="r1",
        place="3.1",
        request=request,
        task=task,
        interface=interface,
        parents=parents,
        feedback="",
        attempt="a",
    )


def propose(one: Brief) -> tuple[ProposalMade, list[str]]:
    notebook = Notebook()
    made = asyncio.run(MutateProposer("mutate", {}).propose(one, record=notebook.record, store=notebook.store))
    sources = [notebook.blobs[sample.program.sha256].decode() for sample in made.samples if sample.program]
    return made, sources


def source_of(one: Brief) -> str:
    return propose(one)[1][0]


def call(source: str, *arguments: Any) -> float:
    space: dict[str, Any] = {}
    exec(compile(source, "program", "exec"), space)
    return float(space["f"](*arguments))


seeds = st.integers(0, (1 << 48) - 1)


@given(seeds)
@settings(max_examples=100, deadline=None)
def test_a_draft_is_a_function_of_the_interface_that_gives_a_number(seed: int) -> None:
    source = source_of(brief(seed=seed))
    for x, y in ((0.0, 0.0), (1.5, -2.0), (1e6, 1e-6)):
        for up in (True, False):
            assert math.isfinite(call(source, x, y, up))


@given(seeds, st.integers(1, 12))
@settings(max_examples=50, deadline=None)
def test_a_line_of_descent_stays_valid_small_and_never_stands_still(seed: int, length: int) -> None:
    draw = Draw(f"test/{seed}")
    parents = [source_of(brief(seed=draw.below(1 << 48))) for _ in range(2)]
    for _ in range(length):
        operator = draw.choice(("improve", "crossover", "debug"))
        used = parents if operator == "crossover" else parents[:1]
        child = source_of(brief(operator, *used, seed=draw.below(1 << 48)))
        assert normal_digest(child) not in {normal_digest(parent) for parent in used}
        nodes = [node for node in ast.walk(ast.parse(child)) if isinstance(node, ast.expr)]
        assert len(nodes) < 150
        # A divisor may have become zero on the way: such a program fails when it runs, and is rejected there.
        with suppress(ZeroDivisionError, OverflowError):
            call(child, 1.0, 2.0, True)
        parents = [child, parents[0]]


def test_the_same_request_makes_the_same_programs_and_another_seed_others() -> None:
    parents = (source_of(brief(seed=1)), source_of(brief(seed=2)))
    one, again = (propose(brief("crossover", *parents, seed=9, samples=4)) for _ in range(2))
    assert one == again
    assert len(set(one[1])) > 1
    assert propose(brief("crossover", *parents, seed=10, samples=4))[1] != one[1]


SCRIPT = """\
import json, sys
sys.path.insert(0, {tests!r})
sys.path.insert(0, {support!r})
from test_mutate import brief, source_of
parents = [source_of(brief(seed=1)), source_of(brief(seed=2))]
for seed in range(30):
    parents = [source_of(brief(("improve", "crossover")[seed % 2], *parents, seed=seed)), parents[0]]
print(json.dumps(parents))
"""


def test_another_hash_seed_makes_the_same_programs() -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parent), support=str(ROOT / "tests" / "support"))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())) == 2


@given(seeds, st.floats(-100, 100), st.floats(-100, 100), st.booleans())
@settings(max_examples=300, deadline=None)
def test_simplifying_keeps_the_value(seed: int, x: float, y: float, up: bool) -> None:
    target = read_target(INTERFACE)
    grown = Grower(target, Draw(f"simplify/{seed}")).expression(depth=4)
    before = ast.unparse(grown)
    after = ast.unparse(simplify(ast.parse(before, mode="eval").body))
    assert len(after) <= len(before) + 8, "a folded constant may be a little longer than its parts"
    values = [eval(text, {"x": x, "y": y, "up": up}) for text in (before, after)]
    # Folded constants keep four significant digits; near a comparison's border that may tell.
    if "if" not in before and "/" not in before:
        assert math.isclose(*values, rel_tol=0.02, abs_tol=0.5)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x + 0.0", "x"),
        ("0.0 + x", "x"),
        ("x - x", "0.0"),
        ("x * 1.0", "x"),
        ("x * 0.0", "0.0"),
        ("x / 1.0", "x"),
        ("2.0 * 3.0 + y", "6.0 + y"),
        ("--x", "x"),
        ("abs(abs(x))", "abs(x)"),
        ("max(x, x)", "x"),
        ("min(1.0, 2.0)", "1.0"),
        ("x if 1.0 < 2.0 else y", "x"),
        ("x if up else x", "x"),
        ("x / 0.0", "x / 0.0"),
        ("x - y", "x - y"),
    ],
)
def test_what_is_simplified(before: str, after: str) -> None:
    assert ast.unparse(simplify(ast.parse(before, mode="eval").body)) == after


@pytest.mark.parametrize(
    "parent",
    [
        "def f(x y)",
        "",
        "x = 1",
        "\0",
        "def g(x): return 1",
        "def f(x, y, up):\n    return " + "(" * 200 + "x" + ")" * 200,
    ],
)
def test_a_parent_that_cannot_be_read_is_replaced_by_a_draft(parent: str) -> None:
    made, [source] = propose(brief("improve", parent))
    assert made.samples[0].note
    call(source, 1.0, 2.0, True)


def test_a_program_of_several_statements_is_changed_inside() -> None:
    parent = """\
import math

LIMIT = 3.0

def f(x, y, up):
    if up:
        x = x + 1.0
    for _ in range(2):
        y = y * 0.5 + math.sqrt(abs(x))
    return x - y
"""
    children = {source_of(brief("improve", parent, seed=seed)) for seed in range(20)}
    assert len(children) > 10
    running = 0
    for child in children:
        assert "import math" in child
        with suppress(TypeError, ZeroDivisionError, ValueError):  # range(2) became range(2.5): it fails when it runs
            call(child, 1.0, 2.0, True)
            running += 1
    assert running > len(children) // 2


@pytest.mark.parametrize(
    "interface", ["", "no python", "x = 1", "def f(names: list) -> float: ...", "def f() -> str: ..."]
)
def test_an_interface_without_numbers_is_refused_and_says_why(interface: str) -> None:
    with pytest.raises(RequestFailedError, match=r"3\.1"):
        propose(brief(interface=interface))


def test_an_unknown_operator_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"builtin:mutat.*builtin:mutate"):
        MutateProposer("mutat", {})
