"""What a program must look like: read from the task's interface, and written that way."""

from __future__ import annotations

import ast
import warnings

import msgspec

from ....events.errors import RequestFailedError

_NUMBERS = {"float", "int"}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The function that a task wants.

    Attributes
    ----------
    name
        Of the function.
    header
        Its text from ``def`` to the colon.
    prelude
        Imports that the interface has, as text (empty: none).
    numbers, booleans
        Parameters by type. One without an annotation counts as a number.
    returns
        ``number`` or ``boolean``.
    """

    name: str
    header: str
    prelude: str
    numbers: tuple[str, ...]
    booleans: tuple[str, ...]
    returns: str = "number"


def read_target(interface: str) -> Target:
    """Read the interface: Python source whose first function is the one wanted.

    Raises
    ------
    RequestFailedError
        If there is none, or it has no parameter that an expression could use.
    """

    def refused(why: str) -> RequestFailedError:
        return RequestFailedError(
            "", "refused", f"builtin:mutate cannot use task.interface: {why}; it needs a Python function of numbers"
        )

    try:
        tree = parse(interface)
    except SyntaxError as error:
        raise refused(f"it is not Python (line {error.lineno}: {error.msg})") from None
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise refused("it has no function")
    numbers, booleans = [], []
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        annotation = ast.unparse(argument.annotation) if argument.annotation is not None else "float"
        if annotation in _NUMBERS:
            numbers.append(argument.arg)
        elif annotation == "bool":
            booleans.append(argument.arg)
    if not numbers and not booleans:
        raise refused(f"function {function.name!r} has no parameter that is a number or a bool")
    returns = ast.unparse(function.returns) if function.returns is not None else "float"
    if returns not in (*_NUMBERS, "bool"):
        raise refused(f"function {function.name!r} returns {returns}")
    prelude = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return Target(
        name=function.name,
        header=_header(interface, function),
        prelude="\n".join(prelude),
        numbers=tuple(numbers),
        booleans=tuple(booleans),
        returns="boolean" if returns == "bool" else "number",
    )


def _header(interface: str, function: ast.FunctionDef) -> str:
    """The signature as the interface writes it, else on one line."""
    first = function.body[0]
    lines = interface.splitlines()[function.lineno - 1 : first.lineno - 1]
    text = "\n".join(lines).rstrip()
    if text.endswith(":"):
        return text
    bare = ast.FunctionDef(
        name=function.name, args=function.args, body=[ast.Pass()], decorator_list=[], returns=function.returns
    )
    return ast.unparse(ast.fix_missing_locations(bare)).rsplit("\n", 1)[0]


def parse(source: str) -> ast.Module:
    """`ast.parse` without warnings about what the source says."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def read_program(source: str, target: Target) -> tuple[ast.Module, ast.FunctionDef] | None:
    """A program and its function of the wanted name; None if it has none or is not Python."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == target.name:
            return tree, node
    return None


def single_expression(function: ast.FunctionDef) -> ast.expr | None:
    """What the function returns, if it does nothing else."""
    body = function.body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    if len(body) == 1 and isinstance(body[0], ast.Return):
        return body[0].value
    return None


def write_program(tree: ast.Module, function: ast.FunctionDef, target: Target) -> str:
    """The program's text. A function of one expression is written with the interface's own signature."""
    expression = single_expression(function)
    if expression is not None and all(
        node is function or isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body
    ):
        return write_expression(expression, target)
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def write_expression(expression: ast.expr, target: Target) -> str:
    """A whole program that returns `expression`."""
    prelude = f"{target.prelude}\n\n\n" if target.prelude else ""
    return f"{prelude}{target.header}\n    return {ast.unparse(expression)}\n"
