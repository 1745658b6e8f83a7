"""From a model's reply to a program, or to the reason why there is none.

Pure, and total: any text gives an answer. What a model wrote stays in its blob; diagnostics say
where and why, in words of evolog's own.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from typing import Literal

import msgspec

from ...events.kinds import Refusal
from .patch import PatchError, apply_patch, is_patch

#: ``finish`` of a reply that was cut off at the token limit.
CUT_OFF = "length"

_THINK_OPEN = re.compile(r"\s*<(think|thinking|reasoning)>", re.IGNORECASE)
_THINK_CLOSE = re.compile(r"</(think|thinking|reasoning)>[ \t]*(?=\n|$)", re.IGNORECASE)
_FENCE = re.compile(r"([ \t]*(?:>[ \t]?)?)(`{3,}|~{3,})(.*)$")
_PYTHON = frozenset({"python", "py", "python3", "py3", "python2", "pycon", "cython"})
_PROGRAM = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Assign,
    ast.AnnAssign,
)


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply holds.

    Attributes
    ----------
    program
        Source of the program, None where `problem` says why.
    problem
        ``empty``: no code. ``unparsable``: code that is no Python. ``patch``: a patch that does not
        apply exactly.
    diagnostics
        What was found on the way, also for a program that is used.
    """

    program: str | None
    problem: Refusal | None = None
    diagnostics: tuple[str, ...] = ()


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A fenced block: its language (lower case), its content, the line of its fence, and whether it was closed."""

    language: str
    content: str
    line: int
    closed: bool = True


def parse_reply(
    text: str, *, finish: str = "", style: Literal["whole", "diff"] = "whole", base: str = "", file_name: str
) -> Parsed:
    """Find the program in a reply.

    Parameters
    ----------
    finish
        Why the model stopped, as the provider says.
    style
        ``whole``: the reply should be a whole file; ``diff``: a patch of `base`. A whole file is
        taken for a patch's result as well.
    base
        The program that a patch refers to.
    file_name
        Its name, the only one that a patch may give.
    """
    notes: list[str] = []
    if finish == CUT_OFF:
        notes.append("the reply was cut off at the token limit (proposer.tokens)")
    elif finish == "content_filter":
        notes.append("the provider's content filter ended the reply")
    answer = without_thinking(text.replace("\r\n", "\n"), notes)
    if not answer.strip():
        what = "nothing follows the model's thinking" if text.strip() else "the reply is empty"
        return Parsed(program=None, problem="empty", diagnostics=(*notes, what))
    if style == "diff" and is_patch(answer):
        return _patched(answer, base, file_name, finish, notes)
    if style == "diff":
        notes.append("a patch was asked for and the reply has none")
    return _whole(answer, finish, notes)


def _patched(answer: str, base: str, file_name: str, finish: str, notes: list[str]) -> Parsed:
    if finish == CUT_OFF:
        # The parts that arrived may apply and still be half of a change.
        return Parsed(program=None, problem="patch", diagnostics=(*notes, "a patch that is cut off is not applied"))
    try:
        program = apply_patch(answer, base, file_name)
    except PatchError as error:
        return Parsed(program=None, problem="patch", diagnostics=(*notes, str(error)))
    if program == base:
        return Parsed(program=None, problem="patch", diagnostics=(*notes, "the patch changes nothing"))
    fault = syntax_fault(program)
    if fault is not None:
        return Parsed(program=None, problem="unparsable", diagnostics=(*notes, f"after the patch: {fault}"))
    return Parsed(program=program, diagnostics=tuple(notes))


def _whole(answer: str, finish: str, notes: list[str]) -> Parsed:
    blocks = fenced_blocks(answer)
    if not blocks:
        if syntax_fault(answer) is None and _is_program(answer):
            if finish == CUT_OFF:
                return Parsed(program=None, problem="unparsable", diagnostics=tuple(notes))
            notes.append("no fenced block; the whole reply is a program")
            return Parsed(program=_with_newline(answer), diagnostics=tuple(notes))
        return Parsed(program=None, problem="empty", diagnostics=(*notes, "the reply has no fenced block of Python"))
    python = [block for block in blocks if block.language in _PYTHON] or [b for b in blocks if not b.language]
    if not python:
        languages = ", ".join(sorted({repr(block.language[:20]) for block in blocks}))
        return Parsed(
            program=None,
            problem="empty",
            diagnostics=(*notes, f"none of the {len(blocks)} fenced blocks is Python (they are {languages})"),
        )
    return _choose(python, finish, notes)


def _choose(blocks: Sequence[Block], finish: str, notes: list[str]) -> Parsed:
    usable = []
    faults = []
    for block in blocks:
        if not block.content.strip():
            faults.append(f"the block at line {block.line} is empty")
            continue
        if not block.closed:
            faults.append(f"the fence at line {block.line} is never closed")
            if finish == CUT_OFF:
                # What arrived may well be Python, but it is not the program that was meant.
                continue
        fault = syntax_fault(block.content)
        if fault is None:
            usable.append(block)
        else:
            faults.append(f"the block at line {block.line}: {fault}")
    if not usable:
        empty = all(not block.content.strip() for block in blocks)
        return Parsed(program=None, problem="empty" if empty else "unparsable", diagnostics=(*notes, *faults))
    # A model that shows fragments first gives the whole file as the longest block, the last of equals.
    best = max(usable, key=lambda block: (block.content.count("\n"), block.line))
    if len(usable) > 1:
        notes.append(f"{len(usable)} blocks are Python; the longest, at line {best.line}, is taken")
    return Parsed(program=_with_newline(best.content), diagnostics=(*notes, *faults))


def without_thinking(text: str, notes: list[str]) -> str:
    """`text` without the reasoning that some models put in front of their answer.

    Only a leading block counts, or all up to a lone closing tag (some servers open the tag in the
    prompt), so that a program that has such a tag in a string is left alone.
    """
    opened = _THINK_OPEN.match(text)
    closed = _THINK_CLOSE.search(text)
    if opened is not None:
        if closed is None:
            notes.append(f"the tag <{opened[1].lower()}> is never closed")
            return ""
        return text[closed.end() :]
    if closed is not None and not text[: closed.start()].count("```") % 2:
        return text[closed.end() :]
    return text


def fenced_blocks(text: str) -> list[Block]:
    """The fenced blocks of a Markdown text, in order.

    A program may itself contain fences, in a docstring or a string. So a block of Python ends at the
    first closing fence after which it parses, and at the first of all if none does.
    """
    lines = text.split("\n")
    blocks = []
    index = 0
    while index < len(lines):
        opening = _FENCE.match(lines[index])
        # CommonMark 0.31, 4.5: the info string of a backtick fence has no backtick.
        if opening is None or (opening[2][0] == "`" and "`" in opening[3]):
            index += 1
            continue
        margin, fence, info = opening.groups()
        words = info.strip().strip("{}.").split()
        language = words[0].lower().rstrip(":,") if words else ""
        ends = [i for i in range(index + 1, len(lines)) if _closes(lines[i], fence)]
        if not ends:
            content = _without_margin(lines[index + 1 :], margin)
            blocks.append(Block(language=language, content=content, line=index + 1, closed=False))
            break
        end = ends[0]
        if language in _PYTHON or not language:
            for candidate in ends:
                content = _without_margin(lines[index + 1 : candidate], margin)
                if content.strip() and syntax_fault(content) is None:
                    end = candidate
                    break
        content = _without_margin(lines[index + 1 : end], margin)
        blocks.append(Block(language=language, content=content, line=index + 1))
        index = end + 1
    return blocks


def _closes(line: str, fence: str) -> bool:
    bare = line.strip(" \t>")
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _without_margin(lines: Sequence[str], margin: str) -> str:
    """Fences inside a list or a quotation are indented; their content is too."""
    if margin:
        lines = [line.removeprefix(margin) for line in lines]
    return "".join(f"{line}\n" for line in lines)


def syntax_fault(source: str) -> str | None:
    """Why `source` is no Python, or None if it is."""
    try:
        with warnings.catch_warnings():
            # A doubtful escape in generated code is no business of this process's warning filters.
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as error:
        place = f" at line {error.lineno}" if error.lineno else ""
        return f"not Python: {str(error.msg)[:120]}{place}"
    except ValueError:
        return "not Python: it contains null bytes"
    except (RecursionError, MemoryError):
        return "not Python: it is nested too deeply to be parsed"
    return None


def _is_program(source: str) -> bool:
    """Whether parsable text is meant as code; a word or a number is an expression too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return any(isinstance(node, _PROGRAM) for node in ast.parse(source).body)


def _with_newline(source: str) -> str:
    return source.strip("\n") + "\n"
