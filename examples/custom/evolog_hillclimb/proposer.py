"""A proposer: polynomials with random coefficients, and neighbours of a polynomial."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from evolog.consumers.proposing import Brief, Record, Store, normal_digest
from evolog.events.kinds import ProposalMade, Sample
from evolog.replay import Draw

TEMPLATE = "def f(x: float) -> float:\n    return {terms}\n"


class PolynomialProposer:
    """``polynomial:<degree>``. What it makes is a function of the request alone, so an audit can make it again."""

    def __init__(self, argument: str, settings: Mapping[str, Any]) -> None:
        self.degree = int(argument or 3)

    async def propose(self, brief: Brief, *, record: Record, store: Store) -> ProposalMade:
        draw = Draw(f"polynomial/{brief.request.seed}")
        if brief.parents:
            coefficients = coefficients_of(brief.parents[0])
            index = draw.below(len(coefficients))
            coefficients[index] = round(coefficients[index] + 0.3 * draw.normal(), 4)
        else:
            coefficients = [round(2.0 * draw.uniform() - 1.0, 4) for _ in range(self.degree + 1)]
        source = TEMPLATE.format(terms=" + ".join(f"{c!r} * x ** {k}" for k, c in enumerate(coefficients)))
        (program,) = await store(source.encode())
        return ProposalMade(samples=(Sample(program=program, normal=normal_digest(source)),))


def coefficients_of(source: str) -> list[float]:
    """The numbers that multiply a power of x, from the lowest power up."""
    found: dict[int, float] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.right, ast.BinOp):
            found[ast.literal_eval(node.right.right)] = float(ast.literal_eval(node.left))
    return [found[power] for power in sorted(found)]
