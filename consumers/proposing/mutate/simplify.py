"""Simplification: the same value from less text."""

from __future__ import annotations

import ast
import math

from .grow import constant


def simplify(expression: ast.expr) -> ast.expr:
    """An expression with the same value wherever the parameters are finite and nothing overflows."""
    return _Simplifier().visit(expression)  # type: ignore[no-any-return]


def value_of(node: ast.expr) -> float | None:
    """The number that a constant or a negated constant stands for."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = value_of(node.operand)
        return None if inner is None else -inner
    return None


def same(a: ast.expr, b: ast.expr) -> bool:
    return ast.dump(a) == ast.dump(b)


class _Simplifier(ast.NodeTransformer):
    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        inner = node.operand
        if isinstance(node.op, ast.UAdd):
            return inner
        if (
            isinstance(node.op, ast.USub | ast.Not)
            and isinstance(inner, ast.UnaryOp)
            and type(inner.op) is type(node.op)
        ):
            return inner.operand
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        left, right = value_of(node.left), value_of(node.right)
        if left is not None and right is not None:
            folded = _fold(node.op, left, right)
            if folded is not None:
                return constant(folded)
        if isinstance(node.op, ast.Add):
            if left == 0.0:
                return node.right
            if right == 0.0:
                return node.left
        elif isinstance(node.op, ast.Sub):
            if right == 0.0:
                return node.left
            if same(node.left, node.right):
                return constant(0.0)
        elif isinstance(node.op, ast.Mult):
            if left == 0.0 or right == 0.0:
                return constant(0.0)
            if left == 1.0:
                return node.right
            if right == 1.0:
                return node.left
        elif isinstance(node.op, ast.Div):
            if right == 1.0:
                return node.left
            if left == 0.0:
                return constant(0.0)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.keywords:
            return node
        name, arguments = node.func.id, node.args
        values = [value_of(argument) for argument in arguments]
        if name == "abs" and len(arguments) == 1:
            if values[0] is not None:
                return constant(abs(values[0]))
            inner = arguments[0]
            if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name) and inner.func.id == "abs":
                return inner
        if name in ("min", "max") and len(arguments) == 2:
            if values[0] is not None and values[1] is not None:
                return constant(min(values[0], values[1]) if name == "min" else max(values[0], values[1]))
            if same(arguments[0], arguments[1]):
                return arguments[0]
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        if same(node.body, node.orelse):
            return node.body
        known = _known(node.test)
        if known is not None:
            return node.body if known else node.orelse
        return node


def _fold(operator: ast.operator, left: float, right: float) -> float | None:
    if isinstance(operator, ast.Add):
        value = left + right
    elif isinstance(operator, ast.Sub):
        value = left - right
    elif isinstance(operator, ast.Mult):
        value = left * right
    elif isinstance(operator, ast.Div) and right:
        value = left / right
    else:
        return None
    return value if math.isfinite(value) else None


def _known(test: ast.expr) -> bool | None:
    """Whether a comparison of two constants, or of something with itself, holds."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right, operator = value_of(test.left), value_of(test.comparators[0]), test.ops[0]
    if left is None or right is None:
        if not same(test.left, test.comparators[0]):
            return None
        left = right = 0.0
    if isinstance(operator, ast.Lt):
        return left < right
    if isinstance(operator, ast.LtE):
        return left <= right
    if isinstance(operator, ast.Gt):
        return left > right
    if isinstance(operator, ast.GtE):
        return left >= right
    return None
