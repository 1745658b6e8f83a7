"""Mutation and crossover of the expressions in a function, typed: a number stays a number, a boolean a boolean."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ....replay import Draw
from .grow import BOOLEAN, COMPARISONS, NUMBER, OPERATORS, Grower, Kind, call, combine, constant
from .simplify import simplify, value_of
from .target import Target, single_expression

#: Most nodes of a function's expressions together; larger ones are cut back.
MAX_NODES = 60
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_FUNCTIONS = {"abs", "min", "max"}


class Site(NamedTuple):
    """A place in a function where an expression stands: its kind, the expression, and how to put another there."""

    kind: Kind
    node: ast.expr
    put: Callable[[ast.expr], None]


def sites(function: ast.FunctionDef, target: Target) -> list[Site]:
    """All places of known type, in the order of the text. Only parameters count as numbers, not local names."""
    return [site for statement in function.body for site in _in_statement(statement, target)]


def _in_statement(node: ast.AST, target: Target) -> Iterator[Site]:
    for field, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        for index, child in enumerate(children):
            if not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.expr):
                kind = kind_of(child, target)
                if kind is not None:
                    yield Site(kind, child, _putter(node, field, index if isinstance(value, list) else None))
            yield from _in_statement(child, target)


def _putter(node: ast.AST, field: str, index: int | None) -> Callable[[ast.expr], None]:
    def put(expression: ast.expr) -> None:
        if index is None:
            setattr(node, field, expression)
        else:
            getattr(node, field)[index] = expression

    return put


def kind_of(node: ast.expr, target: Target) -> Kind | None:
    """The type of an expression, as far as its form tells."""
    if isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Load):
            return None
        return NUMBER if node.id in target.numbers else BOOLEAN if node.id in target.booleans else None
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            return BOOLEAN
        return NUMBER if isinstance(node.value, int | float) else None
    if isinstance(node, ast.BinOp):
        return NUMBER if isinstance(node.op, _ARITHMETIC) else None
    if isinstance(node, ast.UnaryOp):
        return BOOLEAN if isinstance(node.op, ast.Not) else NUMBER if isinstance(node.op, ast.USub) else None
    if isinstance(node, ast.Compare | ast.BoolOp):
        return BOOLEAN
    if isinstance(node, ast.Call):
        return NUMBER if isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS else None
    if isinstance(node, ast.IfExp):
        return kind_of(node.body, target)
    return None


def uses_only_parameters(node: ast.expr, target: Target) -> bool:
    """Whether an expression can stand in any function with the target's parameters."""
    known = {*target.numbers, *target.booleans, *_FUNCTIONS}
    return all(child.id in known for child in ast.walk(node) if isinstance(child, ast.Name))


def size(function: ast.FunctionDef) -> int:
    return sum(isinstance(node, ast.expr) for statement in function.body for node in ast.walk(statement))


class Variator:
    """Changes functions.

    Parameters
    ----------
    target
        The function that the task wants.
    draw
        Where all chance comes from.
    """

    def __init__(self, target: Target, draw: Draw) -> None:
        self.target = target
        self.draw = draw
        self.grower = Grower(target, draw)
        self._mutations: tuple[tuple[float, str, Callable[[ast.FunctionDef], bool]], ...] = (
            (0.28, "constant", self.perturb_constant),
            (0.20, "subtree", self.replace_subtree),
            (0.16, "insert", self.insert),
            (0.12, "operator", self.change_operator),
            (0.12, "parameter", self.change_parameter),
            (0.12, "hoist", self.hoist),
        )

    def mutate(self, function: ast.FunctionDef) -> list[str]:
        """Change a function in place, once or a few times; the names of what was done."""
        done: list[str] = []
        for _ in range(8):
            chance = self.draw.uniform()
            for weight, name, mutation in self._mutations:
                chance -= weight
                if chance < 0.0:
                    if mutation(function):
                        done.append(name)
                    break
            if done and self.draw.uniform() < 0.6:
                break
        self.tidy(function)
        return done

    def tidy(self, function: ast.FunctionDef) -> None:
        """Simplify, and cut back what has grown too large."""
        expression = single_expression(function)
        if expression is not None:
            function.body[-1] = ast.Return(value=simplify(expression))
        for _ in range(50):
            if size(function) <= MAX_NODES or not self.hoist(function):
                break

    def perturb_constant(self, function: ast.FunctionDef) -> bool:
        """Scale a number, or shift it, or take its negative."""
        found = [site for site in sites(function, self.target) if value_of(site.node) is not None]
        # The number in a negated number is the same place twice: the outer one comes first and holds it.
        if not found:
            return False
        site = self.draw.choice(found)
        value = value_of(site.node)
        assert value is not None
        chance = self.draw.uniform()
        if chance < 0.6:
            changed = value * (0.5 + 1.5 * self.draw.uniform())
        elif chance < 0.9:
            changed = value + (2.0 * self.draw.uniform() - 1.0)
        else:
            changed = -value
        site.put(constant(changed))
        return True

    def replace_subtree(self, function: ast.FunctionDef) -> bool:
        """Put a new expression of the same type somewhere."""
        site = self._site(function)
        if site is None:
            return False
        site.put(self.grower.expression(site.kind, self.draw.below(3)))
        return True

    def insert(self, function: ast.FunctionDef) -> bool:
        """Make an expression an operand of a new operation."""
        site = self._site(function, NUMBER)
        if site is None:
            return False
        other = self.grower.expression(NUMBER, self.draw.below(2))
        chance = self.draw.uniform()
        new: ast.expr
        if chance < 0.75:
            operator = self.draw.choice(OPERATORS)
            left, right = (site.node, other) if self.draw.uniform() < 0.7 else (other, site.node)
            new = combine(operator, left, right)
        elif chance < 0.9:
            new = call(self.draw.choice(("min", "max")), site.node, other)
        else:
            new = ast.IfExp(test=self.grower.boolean(1), body=site.node, orelse=other)
        site.put(new)
        return True

    def change_operator(self, function: ast.FunctionDef) -> bool:
        """Another operator, comparison or function with the same operands."""
        found = [
            site.node
            for site in sites(function, self.target)
            if isinstance(site.node, ast.BinOp | ast.Compare)
            or (isinstance(site.node, ast.Call) and len(site.node.args) == 2)
        ]
        if not found:
            return False
        node = self.draw.choice(found)
        if isinstance(node, ast.BinOp):
            new = combine(self.draw.choice(OPERATORS), node.left, node.right)
            assert isinstance(new, ast.BinOp)
            node.op, node.right = new.op, new.right
        elif isinstance(node, ast.Compare):
            node.ops = [self.draw.choice(COMPARISONS)() for _ in node.ops]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            node.func = ast.Name(id="max" if node.func.id == "min" else "min", ctx=ast.Load())
        return True

    def change_parameter(self, function: ast.FunctionDef) -> bool:
        """Another parameter of the same type."""
        found = [site for site in sites(function, self.target) if isinstance(site.node, ast.Name)]
        if not found:
            return False
        site = self.draw.choice(found)
        name = self.grower.name(site.kind)
        if name is None:
            return False
        site.put(name)
        return True

    def hoist(self, function: ast.FunctionDef) -> bool:
        """Put a part of an expression in its place."""
        found = [site for site in sites(function, self.target) if not isinstance(site.node, ast.Name | ast.Constant)]
        if not found:
            return False
        site = self.draw.choice(found)
        inner = [
            child
            for child in ast.walk(site.node)
            if child is not site.node and isinstance(child, ast.expr) and kind_of(child, self.target) == site.kind
        ]
        if not inner:
            return False
        site.put(self.draw.choice(inner))
        return True

    def cross(self, function: ast.FunctionDef, other: ast.FunctionDef) -> str:
        """Put an expression of `other` into `function`, in place; the name of what was done."""
        mine, theirs = single_expression(function), single_expression(other)
        numbers = self.target.returns == NUMBER
        if mine is not None and theirs is not None and numbers and self.draw.uniform() < 0.25:
            share = 0.1 + 0.8 * self.draw.uniform()
            blended = ast.BinOp(
                left=ast.BinOp(left=constant(share), op=ast.Mult(), right=mine),
                op=ast.Add(),
                right=ast.BinOp(left=constant(1.0 - share), op=ast.Mult(), right=copy.deepcopy(theirs)),
            )
            function.body[-1] = ast.Return(value=blended)
            self.tidy(function)
            return "blend"
        given = [site for site in sites(other, self.target) if uses_only_parameters(site.node, self.target)]
        for _ in range(5):
            site = self._site(function)
            if site is None:
                break
            fitting = [one.node for one in given if one.kind == site.kind]
            if fitting:
                site.put(copy.deepcopy(self.draw.choice(fitting)))
                self.tidy(function)
                return "subtree"
        return ""

    def _site(self, function: ast.FunctionDef, kind: Kind | None = None) -> Site | None:
        found = [site for site in sites(function, self.target) if kind in (None, site.kind)]
        # The function's name in a call and a number within a negated one are no places of their own.
        return self.draw.choice(found) if found else None
