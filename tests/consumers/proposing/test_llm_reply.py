"""Replies: any text gives an answer, and a program is only ever what the model meant."""

from __future__ import annotations

import ast
import difflib

import pytest
from evolog.consumers.proposing.patch import Edit, PatchError, apply_edits, apply_patch, is_patch
from evolog.consumers.proposing.reply import Parsed, fenced_blocks, parse_reply, syntax_fault
from hypothesis import given, settings
from hypothesis import strategies as st

FILE = "program.py"
BASE = """\
import math


def rule(job):
    return job.time


def weight(job):
    return 1.0
"""


def whole(text: str, finish: str = "stop") -> Parsed:
    return parse_reply(text, finish=finish, file_name=FILE)


def patched(text: str, base: str = BASE, finish: str = "stop") -> Parsed:
    return parse_reply(text, finish=finish, style="diff", base=base, file_name=FILE)


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\n"


# Whole files.


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Idea.\n\n```py\nx = 1\n```\nDone.", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("~~~python\nx = 1\n~~~", "x = 1\n"),
        ("````python\nx = 1\n````", "x = 1\n"),
        ("``` {.python}\nx = 1\n```", "x = 1\n"),
        ("```python title=program.py\nx = 1\n```", "x = 1\n"),
        ("1. Like this:\n   ```python\n   def f():\n       return 1\n   ```", "def f():\n    return 1\n"),
        ("> ```python\n> x = 1\n> ```", "x = 1\n"),
        ("```python\r\nx = 1\r\n```\r\n", "x = 1\n"),
        ("Run `pip install x`, ```not a fence```.\n```python\nx = 1\n```", "x = 1\n"),
        ("```bash\nls\n```\n```json\n{}\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("import math\n\nx = math.pi\n", "import math\n\nx = math.pi\n"),
        ("<think>\nlet me see\n```python\ny = 2\n```\n</think>\n```python\nx = 1\n```", "x = 1\n"),
        ("let me see\n</think>\n\n```python\nx = 1\n```", "x = 1\n"),
        ("<THINKING>hm</THINKING>\n```python\nx = 1\n```", "x = 1\n"),
        ("```python\nx = '<think>'\ny = '</think>'\n```", "x = '<think>'\ny = '</think>'\n"),
        ("```python\nx = 1\n", "x = 1\n"),
    ],
)
def test_a_program_is_found(text: str, program: str) -> None:
    parsed = whole(text)
    assert (parsed.program, parsed.problem) == (program, None)


def test_fences_inside_a_program_do_not_end_it() -> None:
    program = 'def f():\n    """Use it so:\n\n```python\nf()\n```\n"""\n    return 1\n'
    assert whole(f"Here.\n```python\n{program}```\nThat is all.").program == program
    also = f"First a bit:\n```python\nx = 1\n```\nNow all:\n```python\n{program}```\n"
    parsed = whole(also)
    assert parsed.program == program
    assert "2 blocks" in parsed.diagnostics[0]


@pytest.mark.parametrize(
    ("text", "finish", "problem", "said"),
    [
        ("", "stop", "empty", "the reply is empty"),
        (" \n\n ", "stop", "empty", "the reply is empty"),
        ("I cannot.", "stop", "empty", "no fenced block"),
        ("hello", "stop", "empty", "no fenced block"),
        ("```bash\nls\n```", "stop", "empty", "'bash'"),
        ("```python\n\n```", "stop", "empty", "is empty"),
        ("<think>on and on", "length", "empty", "never closed"),
        ("<think>done</think>", "stop", "empty", "nothing follows"),
        ("```python\ndef f(:\n```", "stop", "unparsable", "at line 1"),
        ("```python\nx = 1\x00\n```", "stop", "unparsable", "null bytes"),
        ("```python\ndef f():\n    return (", "stop", "unparsable", "never closed"),
        ("```python\ndef f():\n    return 1\n", "length", "unparsable", "cut off"),
        ("def f():\n    return 1\n", "length", "unparsable", "cut off"),
        ("```python\n" + "(" * 500 + "\n```", "stop", "unparsable", "not Python"),
    ],
)
def test_no_program_is_a_problem_with_a_reason(text: str, finish: str, problem: str, said: str) -> None:
    parsed = whole(text, finish)
    assert (parsed.program, parsed.problem) == (None, problem)
    assert said in " ".join(parsed.diagnostics)


def test_a_reply_cut_off_after_its_block_is_used_and_says_so() -> None:
    parsed = whole("```python\nx = 1\n```\nThis work", "length")
    assert parsed.program == "x = 1\n"
    assert "cut off" in parsed.diagnostics[0]


# Patches.


def test_blocks_replace_lines_and_leave_the_rest() -> None:
    first = block("    return job.time\n", "    return -job.time\n")
    second = block("import math\n", "")
    expected = BASE.replace("return job", "return -job").replace("import math\n", "")
    assert patched(f"Two changes.\n{first}and\n{second}").program == expected


def test_blocks_in_a_fence_and_under_a_file_name_are_read() -> None:
    change = block("    return 1.0\n", "    return 2.0\n")
    assert patched(f"program.py\n```python\n{change}```\n").program == BASE.replace("1.0", "2.0")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (block("    return job.tim\n", "    return 0\n"), "do not occur"),
        (block("return job.time\n", "return 0\n"), "do not occur"),
        (block("    return job.time \n", "    return 0\n"), "do not occur"),
        (block("\n", "x = 1\n"), "ambiguous"),
        (block("", "x = 1\n"), "where to insert"),
        (block("import math\n\n\ndef rule(job):\n", "") + block("def rule(job):\n", "def rule(j):\n"), "overlap"),
        (block("import math\n", "") + block("import math\n", "import re\n"), "overlap"),
        ("<<<<<<< SEARCH\nimport math\n=======\nimport re\n", "no REPLACE"),
        ("<<<<<<< SEARCH\nimport math\n>>>>>>> REPLACE\n", "0 divider"),
        ("<<<<<<< SEARCH\nimport math\n=======\nx\n=======\n>>>>>>> REPLACE\n", "2 divider"),
        ("<<<<<<< SEARCH\nimport math\n=======\n" + block("import math\n", "import re\n"), "another SEARCH"),
        ("other.py\n" + block("import math\n", ""), "'other.py'"),
        ("### `src/program.py`\n```\n" + block("import math\n", ""), "'src/program.py'"),
        (block("import math\n", "import math\n"), "changes nothing"),
    ],
)
def test_a_block_that_does_not_fit_exactly_is_refused(text: str, said: str) -> None:
    parsed = patched(text)
    assert (parsed.program, parsed.problem) == (None, "patch")
    assert said in parsed.diagnostics[-1]


def unified(old: str, new: str, context: int = 3, names: tuple[str, str] = ("a/program.py", "b/program.py")) -> str:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), *names, n=context)
    return "".join(lines)


@pytest.mark.parametrize("context", [0, 1, 3])
def test_a_unified_diff_applies(context: int) -> None:
    new = BASE.replace("job.time", "job.left").replace("import math\n", "").replace("1.0", "0.5")
    assert patched(f"So:\n```diff\n{unified(BASE, new, context)}```\n").program == new


def test_a_hunk_without_numbers_goes_where_its_lines_stand_once() -> None:
    assert patched("@@ @@\n-    return 1.0\n+    return 2.0\n").program == BASE.replace("1.0", "2.0")
    parsed = patched("@@\n-\n+x = 1\n")
    assert "ambiguous" in parsed.diagnostics[-1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("@@ -4,2 +4,2 @@\n def rule(job):\n-    return job.tim\n+    return 0\n", "line 5"),
        ("@@ -3,2 +3,2 @@\n def rule(job):\n-    return job.time\n+    return 0\n", "they stand at line 4"),
        ("@@ -99,1 +99,1 @@\n-x\n+y\n", "no place"),
        ("@@ -0,1 +0,1 @@\n-import math\n+y\n", "no place"),
        ("@@ -4,4 +4,4 @@\n def rule(job):\n-    return job.time\n+    return 0\n", "its header says"),
        ("@@ -4,1 +4,1 @@\n def rule(job):\n-    return job.time\n+    return 0\n", "goes on"),
        ("--- a/other.py\n+++ b/other.py\n@@ -1 +1 @@\n-import math\n+import re\n", "'a/other.py'"),
        ("--- /dev/null\n+++ b/program.py\n@@ -0,0 +1 @@\n+import re\n", "'/dev/null'"),
        (
            "--- a/program.py\n+++ b/program.py\n@@ -1 +1 @@\n-import math\n+import re\n"
            "--- a/test.py\n+++ b/test.py\n@@ -1 +1 @@\n-a\n+b\n",
            "'a/test.py'",
        ),
        ("@@ -1 +1 @@\n-import math\n+import re\n@@ -1 +1 @@\n-import math\n+import os\n", "overlap"),
    ],
)
def test_a_hunk_that_does_not_fit_exactly_is_refused(text: str, said: str) -> None:
    parsed = patched(text)
    assert (parsed.program, parsed.problem) == (None, "patch")
    assert said in parsed.diagnostics[-1]


def test_a_cut_off_patch_is_not_applied_even_where_its_parts_would_fit() -> None:
    parsed = patched(block("import math\n", "import re\n"), finish="length")
    assert (parsed.program, parsed.problem) == (None, "patch")


def test_a_patch_that_breaks_the_program_is_unparsable() -> None:
    parsed = patched(block("    return job.time\n", "    return job.time(\n"))
    assert (parsed.program, parsed.problem) == (None, "unparsable")
    assert "after the patch" in parsed.diagnostics[-1]


def test_a_whole_file_in_place_of_a_patch_is_taken_and_noted() -> None:
    parsed = patched("```python\nx = 1\n```")
    assert parsed.program == "x = 1\n"
    assert "a patch was asked for" in parsed.diagnostics[0]


# Properties.

line = st.sampled_from(["", "a = 1", "b = 2", "    c", "def f():", "    return 1", "=", "-- x", "++ y", "@@ z"])
program = st.lists(line, max_size=12).map(lambda lines: "".join(f"{text}\n" for text in lines))
fragment = st.sampled_from(
    [
        "```python\n",
        "```\n",
        "~~~\n",
        "<think>",
        "</think>\n",
        "<<<<<<< SEARCH\n",
        "=======\n",
        ">>>>>>> REPLACE\n",
        "--- a/program.py\n+++ b/program.py\n",
        "@@ -1,2 +1,2 @@\n",
        "@@ @@\n",
        " a = 1\n",
        "-a = 1\n",
        "+b = 2\n",
        "a = 1\n",
        "\\ No newline at end of file\n",
        "\n",
        "program.py\n",
    ]
)


@given(
    text=st.one_of(st.text(), st.lists(st.one_of(fragment, st.text(max_size=8)), max_size=25).map("".join)),
    base=program,
    style=st.sampled_from(["whole", "diff"]),
    finish=st.sampled_from(["stop", "length", "content_filter", ""]),
)
@settings(max_examples=400, deadline=None)
def test_any_text_gives_a_program_or_a_problem(text: str, base: str, style: str, finish: str) -> None:
    parsed = parse_reply(text, finish=finish, style=style, base=base, file_name=FILE)  # type: ignore[arg-type]
    if parsed.program is None:
        assert parsed.problem in ("empty", "unparsable", "patch")
        assert parsed.diagnostics
    else:
        assert parsed.problem is None
        ast.parse(parsed.program)


@given(old=program, new=program, context=st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_a_true_diff_gives_exactly_its_target(old: str, new: str, context: int) -> None:
    text = unified(old, new, context)
    if text:
        assert apply_patch(text, old, FILE) == new


@given(old=program, new=program, other=program, context=st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_a_diff_of_another_program_applies_only_where_every_line_it_names_stands(
    old: str, new: str, other: str, context: int
) -> None:
    text = unified(old, new, context)
    if not text:
        return
    groups = list(difflib.SequenceMatcher(None, old.splitlines(), new.splitlines()).get_grouped_opcodes(context))
    fits = all(
        old.splitlines()[group[0][1] : group[-1][2]] == other.splitlines()[group[0][1] : group[-1][2]]
        and group[0][1] <= len(other.splitlines())
        for group in groups
    )
    try:
        result = apply_patch(text, other, FILE)
    except PatchError:
        assert not fits
    else:
        assert fits
        expected: list[str] = []
        done = 0
        for group in groups:
            expected += other.splitlines()[done : group[0][1]] + new.splitlines()[group[0][3] : group[-1][4]]
            done = group[-1][2]
        expected += other.splitlines()[done:]
        assert result.splitlines() == expected


@given(base=program, start=st.integers(0, 12), size=st.integers(1, 4), new=st.lists(line, max_size=3))
@settings(max_examples=300, deadline=None)
def test_searched_lines_are_replaced_where_they_stand_once_and_nowhere_else(
    base: str, start: int, size: int, new: list[str]
) -> None:
    lines = base.splitlines()
    old = lines[start : start + size]
    if not old:
        return
    places = [i for i in range(len(lines)) if lines[i : i + len(old)] == old]
    edit = Edit("edit", tuple(old), tuple(new))
    if len(places) == 1:
        assert apply_edits([edit], base).splitlines() == [*lines[:start], *new, *lines[start + len(old) :]]
    else:
        with pytest.raises(PatchError, match="ambiguous"):
            apply_edits([edit], base)


def test_the_last_line_keeps_its_missing_end() -> None:
    assert apply_patch(block("a = 1\n", "a = 2\n"), "a = 1\nb = 2", FILE) == "a = 2\nb = 2"


def test_prose_is_no_patch() -> None:
    assert not is_patch("Use a - b and --- or +++.\n\n---\n")
    assert is_patch("@@ -1 +1 @@")


def test_a_form_feed_does_not_end_a_line() -> None:
    base = "a = 1\f\nb = 2\n"
    assert apply_patch(block("a = 1\f\n", "a = 3\n"), base, FILE) == "a = 3\nb = 2\n"


def test_faults_do_not_raise_warnings() -> None:
    assert syntax_fault("x = '\\d'\ny = 1 is 1\n") is None


def test_blocks_carry_their_language_and_line() -> None:
    found = fenced_blocks("a\n```Python\nx\n```\n~~~ json\n{}\n~~~")
    assert [(b.language, b.line, b.content, b.closed) for b in found] == [
        ("python", 2, "x\n", True),
        ("json", 5, "{}\n", True),
    ]
