"""How long ``evolog --help`` takes beside ``python -c "import msgspec"``, and what it imports.

python -m benchmarks.startup [--rounds 20]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

HEAVY = ("litellm", "torch", "transformers", "docker", "nats", "faststream", "sandlock", "rich")
MSGSPEC = [sys.executable, "-c", "import msgspec"]
HELP = [sys.executable, "-c", "from evolog.infra.cli import main; main(['--help'])"]
LOADED = [
    sys.executable,
    "-c",
    "import sys\nfrom evolog.infra.cli import main\ntry: main(['--help'])\n"
    f"except SystemExit: pass\nprint('heavy:', *[name for name in {HEAVY!r} if name in sys.modules])",
]


def seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    # Alternating, so that whatever else the machine does meets both alike.
    pairs = [(seconds(MSGSPEC), seconds(HELP)) for _ in range(args.rounds)]
    plain, started = (statistics.median(column) for column in zip(*pairs, strict=True))
    loaded = subprocess.run(LOADED, check=True, capture_output=True, text=True).stdout.rpartition("heavy:")[2]
    print(f'python -c "import msgspec"   {1000 * plain:6.1f} ms (median of {args.rounds})')
    print(f"evolog --help                {1000 * started:6.1f} ms")
    print(f"ratio                        {started / plain:6.2f} (at most 3 is wanted)")
    print(f"heavy packages imported:     {loaded.strip() or 'none'}")


if __name__ == "__main__":
    main()
