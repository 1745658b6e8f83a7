"""GEPA with an instant proposer and an evaluator that hashes a line; run by benchmarks.peers in the peers' venv.

Arguments: number of candidates, a file to which one byte is appended for each candidate, and ``hash`` or ``all``:
whether scores are hashes, or rise so that every candidate is accepted.
"""

import hashlib
import itertools
import sys
import tempfile

import gepa
from gepa.core.adapter import EvaluationBatch


class Adapter:
    def __init__(self, candidates, counter, accepted):
        self.candidates = candidates
        self.counter = open(counter, "ab", buffering=0)  # noqa: PTH123, SIM115
        self.accepted = accepted
        self.numbers = itertools.count()

    def evaluate(self, batch, candidate, capture_traces=False):
        source = candidate["program"]
        digest = hashlib.sha256(source.encode()).hexdigest()
        score = float(source.partition("= ")[2]) if self.accepted == "all" else int(digest[:8], 16) / 2**32
        scores = [score for _ in batch]
        return EvaluationBatch(outputs=scores, scores=scores, trajectories=scores if capture_traces else None)

    def make_reflective_dataset(self, candidate, eval_batch, components_to_update):
        return {name: [{"score": score} for score in eval_batch.scores] for name in components_to_update}

    def propose_new_texts(self, candidate, reflective_dataset, components_to_update):
        self.counter.write(b".")
        return {name: f"x = {next(self.numbers) + 1}" for name in components_to_update}


class Silent:
    def log(self, message):
        pass


def main():
    candidates, counter, accepted = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    adapter = Adapter(candidates, counter, accepted)
    with tempfile.TemporaryDirectory() as folder:
        gepa.optimize(
            {"program": "x = 0"},
            trainset=[0],
            valset=[0],
            adapter=adapter,
            reflection_minibatch_size=1,
            skip_perfect_score=False,
            candidate_selection_strategy="current_best",
            stop_callbacks=lambda state: state.i + 1 >= candidates,
            run_dir=folder,
            logger=Silent(),
        )


if __name__ == "__main__":
    main()
