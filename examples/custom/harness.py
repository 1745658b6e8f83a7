"""Runs in the sandbox with the candidate: calls its `f` at the given points and prints what it returned."""

import json
import sys
from pathlib import Path

here = Path(__file__).parent
given = json.loads((here / "data.json").read_text())
saved, sys.stdout = sys.stdout, sys.stderr  # what the candidate prints is not the answer
space: dict = {}
exec(compile((here / "program.py").read_text(), "program.py", "exec"), space)
json.dump([float(space["f"](x)) for x in given["points"]], saved)
