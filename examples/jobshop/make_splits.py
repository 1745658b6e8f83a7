"""Write search.json and holdout.json from instances.json: python make_splits.py

The split is by name and was fixed before any rule was evolved: the search reads ft06 to ft20, la01 to
la20 and orb01 to orb10, up to 20 jobs on 5 machines and 10 on 10; held out are the larger la21 to la40 (up
to 30 on 10 and 15 on 15) and all of abz, which the search has nothing of.
"""

import json
from pathlib import Path

HERE = Path(__file__).parent


def split_of(name: str) -> str:
    if name.startswith(("ft", "orb")) or (name.startswith("la") and int(name[2:]) <= 20):
        return "search"
    return "holdout"


def main() -> None:
    instances = json.loads((HERE / "instances.json").read_text())
    for split in ("search", "holdout"):
        chosen = {name: instances[name] for name in sorted(instances) if split_of(name) == split}
        content = {
            "given": {n: {"machines": i["machines"], "durations": i["durations"]} for n, i in chosen.items()},
            "answers": {n: i["best_known"] for n, i in chosen.items()},
        }
        (HERE / f"{split}.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
        print(f"{split}: {len(chosen)} instances: {' '.join(chosen)}")


if __name__ == "__main__":
    main()
