"""The judge: a program that runs in a sandbox of its own, holds the answers, and judges what candidates returned.

It is started next to ``evaluator.py`` with no other file, and knows nothing of evolog. Each question
is judged in a fork, so that nothing of one candidate reaches the next. Frames are 8 bytes of length
and JSON.
"""

import importlib.util
import json
import math
import os
import select
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

Evaluate = Callable[[Any, Any, Any], Any]


def read_exactly(descriptor: int, count: int) -> bytes:
    content = b""
    while len(content) < count:
        chunk = os.read(descriptor, count - len(content))
        if not chunk:
            sys.exit(0)
        content += chunk
    return content


def write_all(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


def load(path: str) -> tuple[Evaluate | None, str | None]:
    """The evaluator's `evaluate`, or the reason why there is none."""
    try:
        spec = importlib.util.spec_from_file_location("evaluator", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.evaluate, None
    except BaseException as error:
        return None, f"{type(error).__name__}: {error}"


def verdict_of(result: Any) -> dict[str, Any]:
    """A score and metrics from what `evaluate` returned."""
    metrics = {}
    if isinstance(result, dict):
        metrics = {
            str(name): float(value)
            for name, value in result.get("metrics", {}).items()
            if isinstance(value, (int, float)) and math.isfinite(value)
        }
        result = result.get("score")
    if isinstance(result, bool) or not isinstance(result, (int, float)):
        return {"invalid": f"the evaluator returned {type(result).__name__}, not a number"}
    if not math.isfinite(result):
        return {"invalid": f"the score is {result}"}
    return {"score": float(result), "metrics": metrics}


def judged(evaluate: Evaluate, data: dict[str, Any], output: Any) -> dict[str, Any]:
    try:
        return verdict_of(evaluate(data["given"], data["answers"], output))
    except ValueError as error:
        return {"invalid": str(error) or "ValueError"}
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return {"invalid": f"the evaluator failed: {type(error).__name__}: {error} ({where})"}


def judge_in_fork(evaluate: Evaluate, data: dict[str, Any], output: Any, seconds: float) -> dict[str, Any]:
    """Judge in a child, which is killed after `seconds`."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        write_all(write_end, json.dumps(judged(evaluate, data, output), allow_nan=False).encode())
        os._exit(0)
    os.close(write_end)
    content = b""
    while select.select([read_end], [], [], seconds)[0]:
        chunk = os.read(read_end, 65536)
        if not chunk:
            break
        content += chunk
    else:
        os.kill(child, 9)
        content = b""
    os.close(read_end)
    os.waitpid(child, 0)
    try:
        verdict: dict[str, Any] = json.loads(content)
        return verdict
    except ValueError:
        return {"invalid": f"the evaluator ended without a verdict (it has {seconds:g} s)"}


def main() -> None:
    seconds = float(sys.argv[1])
    questions, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what the evaluator prints is no verdict
    evaluate, why = load("evaluator.py")
    splits: dict[str, dict[str, Any]] = {}
    while True:
        (size,) = struct.unpack("!Q", read_exactly(questions, 8))
        question = json.loads(read_exactly(questions, size))
        name = question["split"]
        if question["data"] is not None:
            splits[name] = question["data"]
        if name not in splits:
            verdict = {"wanted": name}
        elif evaluate is None:
            verdict = {"broken": why}
        else:
            verdict = judge_in_fork(evaluate, splits[name], question["output"], seconds)
        answer = json.dumps({"nonce": question["nonce"], **verdict}).encode()
        write_all(answers, struct.pack("!Q", len(answer)) + answer)


if __name__ == "__main__":
    main()
