"""The normalised form of a program, by which duplicates are known."""

from __future__ import annotations

import ast
import hashlib
import warnings


def normal_digest(source: str) -> str:
    """sha256 (hex) of `source` without comments, docstrings and layout.

    Raises
    ------
    SyntaxError
        If it is not Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body[0] = ast.Pass()
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()
