"""The job-shop example at the seeds named in advance: the evolved rule beside the best classic one.

python -m benchmarks.jobshop [--seeds 11 12 13 14 15]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "jobshop" / "run.toml"
SHIPPED_SEED = 1
SEEDS = (11, 12, 13, 14, 15)


class Row(NamedTuple):
    """Mean gaps to the best known makespans, in percent, and the wall seconds of the run."""

    seed: int
    search: float
    holdout: float
    classic: str
    classic_search: float
    classic_holdout: float
    seconds: float


def evolog(home: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", "evolog.infra.cli", "--home", str(home), *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def run_at(home: Path, seed: int) -> Row:
    begin = time.perf_counter()
    run = evolog(home, "run", str(EXAMPLE), "--set", f"run.seed={seed}", "--quiet")
    seconds = time.perf_counter() - begin
    boards = {board["purpose"]: board for board in evolog(home, "show", run["run"], "best")["boards"]}
    holdout, floor = boards["holdout"], boards["floor"]
    classics = {name: measured["score"] for name, measured in holdout["baselines"].items()}
    # The best on the holdout itself: the hardest to beat.
    classic = min(classics, key=lambda name: classics[name])
    return Row(
        seed,
        run["score"],
        holdout["named"][run["best"]]["score"],
        classic,
        floor["baselines"][classic]["score"],
        classics[classic],
        seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    args = parser.parse_args()
    print("mean gap in percent; smaller is better")
    print("seed            evolved: search  holdout    best classic: search  holdout    seconds")
    rows = []
    with tempfile.TemporaryDirectory(prefix="evolog-bench-") as name:
        for seed in (SHIPPED_SEED, *args.seeds):
            row = run_at(Path(name) / "home", seed)
            rows.append(row)
            shipped = " (shipped)" if seed == SHIPPED_SEED else ""
            print(
                f"{f'{seed}{shipped}':<15} {row.search:>15.2f} {row.holdout:>8.2f}    {row.classic:>12} "
                f"{row.classic_search:>7.2f} {row.classic_holdout:>8.2f} {row.seconds:>10.0f}",
                flush=True,
            )
    declared = rows[1:]
    evolved = statistics.median(row.holdout for row in declared)
    classic = statistics.median(row.classic_holdout for row in declared)
    seeds = ", ".join(str(row.seed) for row in declared)
    print(f"median holdout over seeds {seeds}: {evolved:.2f} against {classic:.2f}")
    wins = rows[0].holdout < rows[0].classic_holdout and evolved < classic
    print("the evolved rule wins at the shipped seed and in the median" if wins else "the evolved rule does NOT win")
    sys.exit(0 if wins else 1)


if __name__ == "__main__":
    main()
