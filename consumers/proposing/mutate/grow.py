"""Typed random expressions: numbers and booleans over a function's parameters."""

from __future__ import annotations

import ast

from ....replay import Draw
from .target import Target

Kind = str
NUMBER, BOOLEAN = "number", "boolean"
OPERATORS: tuple[type[ast.operator], ...] = (ast.Add, ast.Sub, ast.Mult, ast.Div)
COMPARISONS: tuple[type[ast.cmpop], ...] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SIGNIFICANT = 4


def constant(value: float) -> ast.expr:
    """A number with four significant digits; a negative one is a minus and a number, as Python reads it."""
    short = float(f"{value:.{_SIGNIFICANT - 1}e}")
    if short < 0:
        return ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=-short))
    return ast.Constant(value=short + 0.0)


class Grower:
    """Makes expressions.

    Parameters
    ----------
    target
        Whose parameters may be used.
    draw
        Where all chance comes from.
    """

    def __init__(self, target: Target, draw: Draw) -> None:
        self.target = target
        self.draw = draw

    def name(self, kind: Kind = NUMBER) -> ast.expr | None:
        names = self.target.numbers if kind == NUMBER else self.target.booleans
        return ast.Name(id=self.draw.choice(names), ctx=ast.Load()) if names else None

    def number(self) -> ast.expr:
        """A constant: small and round more often than not."""
        if self.draw.uniform() < 0.5:
            return constant(float(self.draw.choice((0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0))))
        return constant(4.0 * self.draw.uniform() - 2.0)

    def leaf(self, kind: Kind = NUMBER) -> ast.expr:
        """A parameter, or a constant."""
        name = self.name(kind)
        if kind == BOOLEAN:
            return name if name is not None else self.comparison(0)
        if name is None or self.draw.uniform() < 0.2:
            return self.number()
        return name

    def expression(self, kind: Kind = NUMBER, depth: int = 3) -> ast.expr:
        """An expression of at most `depth` levels below its root."""
        if kind == BOOLEAN:
            return self.boolean(depth)
        if depth <= 0 or self.draw.uniform() < 0.15:
            return self.leaf()
        chance = self.draw.uniform()
        if chance < 0.68:
            return self.arithmetic(depth)
        if chance < 0.84:
            function = self.draw.choice(("min", "max"))
            return call(function, self.expression(NUMBER, depth - 1), self.expression(NUMBER, depth - 1))
        if chance < 0.9:
            return call("abs", self.expression(NUMBER, depth - 1))
        return ast.IfExp(
            test=self.boolean(depth - 1),
            body=self.expression(NUMBER, depth - 1),
            orelse=self.expression(NUMBER, depth - 1),
        )

    def arithmetic(self, depth: int) -> ast.expr:
        operator = self.draw.choice(OPERATORS)
        return combine(operator, self.expression(NUMBER, depth - 1), self.expression(NUMBER, depth - 1))

    def comparison(self, depth: int) -> ast.expr:
        return ast.Compare(
            left=self.expression(NUMBER, depth),
            ops=[self.draw.choice(COMPARISONS)()],
            comparators=[self.expression(NUMBER, depth)],
        )

    def boolean(self, depth: int) -> ast.expr:
        chance = self.draw.uniform()
        if self.target.booleans and chance < 0.3:
            return self.leaf(BOOLEAN)
        if depth > 1 and chance < 0.45:
            operator = self.draw.choice((ast.And, ast.Or))
            return ast.BoolOp(op=operator(), values=[self.boolean(depth - 1), self.boolean(depth - 1)])
        if depth > 1 and chance < 0.5:
            return ast.UnaryOp(op=ast.Not(), operand=self.boolean(depth - 1))
        return self.comparison(min(depth - 1, 1))

    def weighted_sum(self, terms: int) -> ast.expr:
        """``w1 * a + w2 * b + ...`` over different parameters."""
        names = self.draw.sample(self.target.numbers, min(terms, len(self.target.numbers)))
        total: ast.expr | None = None
        for name in names:
            weight = constant(4.0 * self.draw.uniform() - 2.0)
            term = ast.BinOp(left=weight, op=ast.Mult(), right=ast.Name(id=name, ctx=ast.Load()))
            total = term if total is None else ast.BinOp(left=total, op=ast.Add(), right=term)
        return total if total is not None else self.number()

    def draft(self) -> ast.expr:
        """A first program: half of them weighted sums, half grown, of ramped depth (Koza's ramped half and half)."""
        if self.target.returns == BOOLEAN:
            return self.boolean(2 + self.draw.below(3))
        if len(self.target.numbers) > 1 and self.draw.uniform() < 0.5:
            return self.weighted_sum(2 + self.draw.below(3))
        return self.expression(NUMBER, 1 + self.draw.below(4))


def call(function: str, *arguments: ast.expr) -> ast.expr:
    return ast.Call(func=ast.Name(id=function, ctx=ast.Load()), args=list(arguments), keywords=[])


def combine(operator: type[ast.operator], left: ast.expr, right: ast.expr) -> ast.expr:
    """An arithmetic operation that cannot divide by zero: a divisor that may be 0 becomes ``1 + abs(divisor)``."""
    constant_divisor = isinstance(right, ast.Constant) and right.value
    if operator is ast.Div and not constant_divisor and not _safe_divisor(right):
        right = ast.BinOp(left=ast.Constant(value=1.0), op=ast.Add(), right=call("abs", right))
    return ast.BinOp(left=left, op=operator(), right=right)


def _safe_divisor(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and isinstance(node.left, ast.Constant)
        and isinstance(node.left.value, float)
        and node.left.value > 0
        and isinstance(node.right, ast.Call)
        and isinstance(node.right.func, ast.Name)
        and node.right.func.id == "abs"
    )
