"""evolog beside OpenEvolve and GEPA: CPU per candidate with an instant proposer and an evaluator that hashes a line.

The peers are watched from outside: a file grows by one byte for each candidate, and /proc tells the CPU seconds
of all their processes. They keep their state in memory and write it out at checkpoints; evolog acknowledges
every event.

    python -m benchmarks.peers --install      # into .venv-peers, then measure (make bench-peers)
    python -m benchmarks.peers                # measure what is installed there (part of make bench)
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import tempfile
import time
import venv
from pathlib import Path
from typing import NamedTuple

from .throughput import WINDOW, measured_run, window_ending_at, write_run_file

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-peers"
SCRIPTS = ROOT / "benchmarks" / "peers_scripts"
PACKAGES = ("openevolve==0.4.1", "gepa==0.1.4")
PEERS = {
    "OpenEvolve": ("openevolve_run.py", ()),
    "GEPA (scores are hashes, few accepted)": ("gepa_run.py", ("hash",)),
    "GEPA (scores rise, all accepted)": ("gepa_run.py", ("all",)),
}
_TICKS = os.sysconf("SC_CLK_TCK")


class Mark(NamedTuple):
    """Wall and CPU seconds when so many candidates were evaluated."""

    candidates: int
    wall: float
    cpu: float


def cpu_of_session(session: int) -> float:
    """CPU seconds of a session's processes, children that have ended included."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICKS


def watch(name: str, candidates: int, wanted: tuple[int, ...]) -> dict[int, Mark]:
    """Run a peer and mark when each wanted number of candidates was there."""
    script, arguments = PEERS[name]
    with tempfile.NamedTemporaryFile() as counter:
        command = [str(VENV / "bin" / "python"), str(SCRIPTS / script), str(candidates), counter.name, *arguments]
        process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
        )
        marks: dict[int, Mark] = {}
        while process.poll() is None and len(marks) < len(wanted):
            count = Path(counter.name).stat().st_size
            due = next(number for number in wanted if number not in marks)
            if count >= due:
                marks[due] = Mark(count, time.perf_counter(), cpu_of_session(process.pid))
            time.sleep(0.002)
        process.kill()
        process.wait()
        subprocess.run(["pkill", "-9", "-s", str(process.pid)], check=False)
    return marks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true", help="install the peers into .venv-peers first")
    parser.add_argument("--candidates", type=int, default=1_000)
    args = parser.parse_args()
    if args.install:
        venv.create(VENV, with_pip=True, clear=True)
        subprocess.run([str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    if not VENV.exists():
        print("OpenEvolve and GEPA are not installed: 'make bench-peers' installs them into .venv-peers")
        return
    ends = tuple(sorted({WINDOW, args.candidates}))
    wanted = tuple(sorted({1, *ends, *(end - WINDOW for end in ends if end > WINDOW)}))
    print(f"CPU ms per candidate, all processes, in windows of {WINDOW} candidates")
    print(f"{'':<42}" + "".join(f"{f'at {end}':>12}" for end in ends) + "   ratio to evolog at the last")
    with tempfile.TemporaryDirectory(prefix="evolog-bench-") as folder:
        file = write_run_file(Path(folder), candidates=args.candidates)
        _, own = asyncio.run(measured_run(Path(folder) / "home", file))
    evolog = [sum(window_ending_at(own, end)[1:]) for end in ends]
    print(f"{'evolog (every event acknowledged)':<42}" + "".join(f"{cpu:>12.1f}" for cpu in evolog) + f"{1.0:>10.1f}")
    for name in PEERS:
        marks = watch(name, args.candidates + 2 * WINDOW, wanted)
        cells = []
        for end in ends:
            begin = end - WINDOW if end > WINDOW else 1
            if begin not in marks or end not in marks:
                cells.append(None)
                continue
            first, last = marks[begin], marks[end]
            cells.append(1000 * (last.cpu - first.cpu) / (last.candidates - first.candidates))
        told = "".join(f"{'-' if cpu is None else f'{cpu:.1f}':>12}" for cpu in cells)
        ratio = "-" if cells[-1] is None else f"{cells[-1] / evolog[-1]:.1f}"
        print(f"{name:<42}{told}{ratio:>10}", flush=True)


if __name__ == "__main__":
    main()
