"""Patches that apply exactly or not at all.

Two forms are read: SEARCH/REPLACE blocks, and unified diffs (POSIX ``diff -u``). No line is ever
looked for near where it should be, and no whitespace is forgiven: a patch that went elsewhere would
be a program that nobody proposed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*$")
_DIVIDER = re.compile(r"={5,9}\s*$")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*$")
_HUNK = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?(?!\d)")
_BARE_HUNK = re.compile(r"@@(\s|$)")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_PLACES_SHOWN = 5


class PatchError(ValueError):
    """A patch that does not apply exactly; the text says which part and why."""


class Edit(msgspec.Struct, frozen=True):
    """Replace `old`, a run of whole lines, by `new`.

    Attributes
    ----------
    name
        What to call this part in errors.
    old, new
        Lines without their ends.
    line
        Where `old` must stand, counted from 1; None: wherever it stands exactly once.
    """

    name: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    line: int | None = None


def is_patch(text: str) -> bool:
    """Whether `text` has a SEARCH/REPLACE block or a hunk of a unified diff in it."""
    return any(_SEARCH.match(line) or _hunk_starts(line) for line in text.split("\n"))


def apply_patch(text: str, base: str, file_name: str) -> str:
    """`base` after the patch in `text`.

    All parts refer to `base` as it is; lines outside of them stay as they are to the byte.

    Parameters
    ----------
    text
        A reply; what is neither block nor diff in it is passed over.
    file_name
        The only file that may be patched.

    Raises
    ------
    PatchError
        If there is no patch in `text`, or one that does not apply exactly.
    """
    # Not splitlines(): a form feed inside a Python line does not end it.
    lines = text.split("\n")
    if any(_SEARCH.match(line) for line in lines):
        edits = _search_blocks(lines, file_name)
    else:
        edits = _unified_hunks(lines, file_name)
    if not edits:
        raise PatchError("the reply has neither a SEARCH/REPLACE block nor a hunk of a unified diff")
    return apply_edits(edits, base)


def apply_edits(edits: Sequence[Edit], base: str) -> str:
    """`base` after all `edits`, each of which refers to `base`.

    Raises
    ------
    PatchError
        If one has no place, more than one, or a place that another claims.
    """
    lines = base.split("\n")
    ends_open = lines[-1] != ""
    if not ends_open:
        lines.pop()
    placed = sorted(((_place(edit, lines), edit) for edit in edits), key=lambda pair: pair[0])
    result: list[str] = []
    done, began, name = 0, -1, ""
    for start, edit in placed:
        # Two that begin at one line have no order, even if one of them only inserts.
        if start < done or start == began:
            raise PatchError(f"{name} and {edit.name} overlap at line {start + 1}")
        result += lines[done:start]
        result += edit.new
        done, began, name = start + len(edit.old), start, edit.name
    result += lines[done:]
    text = "\n".join(result)
    return text if ends_open or not result else text + "\n"


def _place(edit: Edit, lines: Sequence[str]) -> int:
    """Index of the first line that `edit` replaces."""
    size = len(edit.old)
    if edit.line is not None:
        start = edit.line - 1
        if start < 0 or start > len(lines):
            raise PatchError(f"{edit.name}: a program of {len(lines)} lines has no place for it at line {edit.line}")
        for offset, wanted in enumerate(edit.old):
            if start + offset >= len(lines) or lines[start + offset] != wanted:
                raise PatchError(
                    f"{edit.name}: line {start + offset + 1} of the program is not the line that the patch expects "
                    f"there{_elsewhere(edit, lines)}"
                )
        return start
    found = _occurrences(edit.old, lines)
    if len(found) == 1:
        return found[0]
    if not size:
        raise PatchError(f"{edit.name}: it names no line to change, so where to insert is unknown")
    if not found:
        raise PatchError(f"{edit.name}: its {size} searched lines do not occur in the program")
    places = ", ".join(str(start + 1) for start in found[:_PLACES_SHOWN])
    raise PatchError(f"{edit.name}: ambiguous, its searched lines occur {len(found)} times (at lines {places})")


def _occurrences(old: Sequence[str], lines: Sequence[str]) -> list[int]:
    if not old:
        return [] if lines else [0]
    size = len(old)
    return [
        i for i in range(len(lines) - size + 1) if lines[i] == old[0] and tuple(lines[i : i + size]) == tuple(old)
    ]


def _elsewhere(edit: Edit, lines: Sequence[str]) -> str:
    found = _occurrences(edit.old, lines)
    return f" (they stand at line {found[0] + 1}; a patch is not moved)" if found else ""


# SEARCH/REPLACE blocks.


def _search_blocks(lines: Sequence[str], file_name: str) -> list[Edit]:
    edits: list[Edit] = []
    index = 0
    while index < len(lines):
        if not _SEARCH.match(lines[index]):
            index += 1
            continue
        name = f"block {len(edits) + 1}"
        _check_file_above(lines, index, name, file_name)
        end = next((i for i in range(index + 1, len(lines)) if _REPLACE.match(lines[i])), None)
        if end is None:
            raise PatchError(f"{name}: it has no REPLACE line that ends it")
        body = lines[index + 1 : end]
        if any(_SEARCH.match(line) for line in body):
            raise PatchError(f"{name}: another SEARCH line comes before its REPLACE line")
        dividers = [i for i, line in enumerate(body) if _DIVIDER.match(line)]
        if len(dividers) != 1:
            raise PatchError(f"{name}: it has {len(dividers)} divider lines (=======); it must have exactly one")
        edits.append(Edit(name, tuple(body[: dividers[0]]), tuple(body[dividers[0] + 1 :])))
        index = end + 1
    return edits


def _check_file_above(lines: Sequence[str], index: int, name: str, file_name: str) -> None:
    """Some models name the file in the line above a block, or above the fence around it."""
    for line in reversed(lines[max(0, index - 2) : index]):
        if _FENCE.match(line):
            continue
        words = line.strip("`*#: \t").split()
        if len(words) == 1 and words[0].endswith(".py"):
            _check_file(words[0], name, file_name)
        return


# Unified diffs.


def _hunk_starts(line: str) -> bool:
    return _BARE_HUNK.match(line) is not None


def _unified_hunks(lines: Sequence[str], file_name: str) -> list[Edit]:
    edits: list[Edit] = []
    index = 0
    while index < len(lines):
        line = lines[index]
        if line.startswith("--- ") and index + 1 < len(lines) and lines[index + 1].startswith("+++ "):
            for header in (line, lines[index + 1]):
                _check_file(header[4:].split("\t")[0].strip(), f"file {header[:3]}", file_name)
            index += 2
        elif _hunk_starts(line):
            edit, index = _hunk(lines, index, f"hunk {len(edits) + 1}")
            edits.append(edit)
        else:
            index += 1
    return edits


def _check_file(said: str, name: str, file_name: str) -> None:
    base = said.removeprefix("./").removeprefix("a/").removeprefix("b/")
    if base != file_name:
        raise PatchError(f"{name}: it is for {said[:80]!r}, and the only file is {file_name!r}")


def _hunk(lines: Sequence[str], index: int, name: str) -> tuple[Edit, int]:
    """The hunk whose header stands at `index`, and the index after it."""
    header = _HUNK.match(lines[index])
    index += 1
    old: list[str] = []
    new: list[str] = []
    if header is None:
        while index < len(lines) and lines[index][:1] in (" ", "+", "-", "\\") and not _file_header(lines, index):
            _take(lines[index], old, new)
            index += 1
        return Edit(name, tuple(old), tuple(new)), index
    start = int(header[1])
    sizes = int(header[2] or 1), int(header[4] or 1)
    while (len(old), len(new)) != sizes:
        whole = index < len(lines) and (lines[index] == "" or lines[index][0] in " +-\\")
        if not whole or len(old) > sizes[0] or len(new) > sizes[1]:
            raise PatchError(
                f"{name}: its header says {sizes[0]} old and {sizes[1]} new lines, its body has "
                f"{len(old)} and {len(new)}"
            )
        _take(lines[index], old, new)
        index += 1
    while index < len(lines) and lines[index].startswith("\\"):
        index += 1
    if index < len(lines) and lines[index][:1] in ("+", "-", " ") and not _file_header(lines, index):
        raise PatchError(f"{name}: its body goes on after the {sizes[0]} old and {sizes[1]} new lines of its header")
    # POSIX: where a hunk has no old lines, its number is that of the line before.
    return Edit(name, tuple(old), tuple(new), start + 1 if sizes[0] == 0 else start), index


def _file_header(lines: Sequence[str], index: int) -> bool:
    return lines[index].startswith("--- ") and index + 1 < len(lines) and lines[index + 1].startswith("+++ ")


def _take(line: str, old: list[str], new: list[str]) -> None:
    # An editor or a model may have stripped the space of an empty context line.
    mark, content = (line[0], line[1:]) if line else (" ", "")
    if mark in " -":
        old.append(content)
    if mark in " +":
        new.append(content)
