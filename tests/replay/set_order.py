"""A program of the tests: writes or replays the log of a strategy that iterates over a set.

``set_order.py record FILE`` runs the strategy and writes its log; ``set_order.py replay FILE`` exits
with 3 and names the field where the decisions differ. ``sorted`` as third argument repairs the
strategy.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from evolog.events import decode, encode
from evolog.events.errors import DivergenceError
from evolog.replay import Context, Replayer

sys.path.insert(0, str(Path(__file__).parent))
from strategies import Loop, NoSettings, World, note, proposal

NAMES = {"ox", "hen", "cow", "bee", "cat", "dog", "ant", "bat"}


class Herd:
    NAME = "herd"
    Settings = NoSettings
    State = Loop

    def __init__(self, tidy: bool) -> None:
        self.tidy = tidy

    async def run(self, ctx: Context, state: Loop | None) -> None:
        await ctx.request(proposal(ctx.draw("seed").below(1 << 48)))
        for name in sorted(NAMES) if self.tidy else NAMES:
            ctx.decide(note(name, ctx.draw("score").uniform()))
        await ctx.complete("completed", "counted", best=None, attempts={})


def main() -> int:
    verb, path, tidy = sys.argv[1], Path(sys.argv[2]), "sorted" in sys.argv
    if verb == "record":
        world = World(Herd(tidy)).play()
        path.write_bytes(b"\n".join(encode(event) for event in world.log))
        return 0
    events = [decode(line) for line in path.read_bytes().splitlines()]
    try:
        replayed = Replayer(lambda _: Herd(tidy)).decisions(events)
    except DivergenceError as error:
        print(msgspec.json.encode(error.difference).decode())
        return error.exit_code
    print(f"{replayed.equal} equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
