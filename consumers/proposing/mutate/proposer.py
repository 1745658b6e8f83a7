"""`MutateProposer`: what it makes is a function of the request alone, so an audit can make it again."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ....events.errors import RequestFailedError, SettingsError
from ....events.kinds import ProposalMade, Sample
from ....replay import Draw
from ..normal import normal_digest
from ..port import Brief, Record, Store
from .grow import Grower
from .target import Target, read_program, read_target, single_expression, write_expression, write_program
from .vary import Variator

_NAME = "mutate"
#: Tries to make something else than the parents before a new draft is made.
_TRIES = 20


class MutateProposer:
    """Implements `Proposer` without a model: draft, improve, crossover and debug by syntax.

    Parameters
    ----------
    argument
        What follows ``builtin:`` in ``proposer.model``.
    settings
        The table ``[proposer]``; nothing in it matters here.

    Raises
    ------
    SettingsError
        If `argument` is no operator of evolog.
    """

    def __init__(self, argument: str, settings: Mapping[str, Any]) -> None:
        del settings
        if argument != _NAME:
            raise SettingsError(f"proposer.model = 'builtin:{argument}': there is only 'builtin:{_NAME}'")

    async def propose(self, brief: Brief, *, record: Record, store: Store) -> ProposalMade:
        """Make the programs that were asked for. The same request makes the same programs.

        Raises
        ------
        RequestFailedError
            If the task's interface is not a Python function of numbers.
        """
        del record  # no call is made, so there is nothing to record before the answer
        try:
            target = _target(brief.interface)
        except RequestFailedError as error:
            raise RequestFailedError(brief.place, error.reason, error.detail) from None
        made = [make(brief, target, index) for index in range(brief.request.samples)]
        blobs = await store(*(source.encode() for source, _ in made))
        return ProposalMade(
            samples=tuple(
                Sample(program=blob, normal=normal_digest(source), note=note)
                for blob, (source, note) in zip(blobs, made, strict=True)
            )
        )


@lru_cache(maxsize=16)
def _target(interface: str) -> Target:
    return read_target(interface)


def make(brief: Brief, target: Target, index: int) -> tuple[str, str]:
    """One program and a word on how it was made."""
    request = brief.request
    draw = Draw(f"mutate/{request.seed}/{index}")
    variator = Variator(target, draw)
    parents = [read_program(parent, target) for parent in brief.parents]
    readable = [parent for parent in parents if parent is not None]
    forbidden = {ast.unparse(tree) for tree, _ in readable}
    unread = f" ({len(parents) - len(readable)} parents cannot be read)" if len(readable) < len(parents) else ""
    if request.operator != "draft" and readable:
        for _ in range(_TRIES):
            tree, note = _varied(variator, draw, request.operator, readable)
            function = next(
                node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == target.name
            )
            source = write_program(tree, function, target)
            if note and ast.unparse(ast.parse(source)) not in forbidden:
                return source, f"{note}{unread}"
    return write_expression(_drafted(target, draw), target), f"draft{unread}"


def _drafted(target: Target, draw: Draw) -> ast.expr:
    function = ast.parse(f"def {target.name}(): return 0").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [ast.Return(value=Grower(target, draw).draft())]
    Variator(target, draw).tidy(function)
    expression = single_expression(function)
    assert expression is not None
    return expression


def _varied(
    variator: Variator, draw: Draw, operator: str, parents: list[tuple[ast.Module, ast.FunctionDef]]
) -> tuple[ast.Module, str]:
    first = copy.deepcopy(parents[0])
    tree, function = first
    if operator == "crossover" and len(parents) > 1:
        note = variator.cross(function, parents[1][1])
        # A child that is one of its parents with a part of the other is often a step too small: change it too.
        if note and draw.uniform() < 0.3:
            note += "+" + "+".join(variator.mutate(function))
        return tree, f"crossover {note}" if note else ""
    done = variator.mutate(function)
    return tree, f"{operator} {'+'.join(done)}" if done else ""
