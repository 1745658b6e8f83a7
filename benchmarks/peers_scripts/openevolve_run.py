"""OpenEvolve with an instant model and an evaluator that hashes a line; run by benchmarks.peers in the peers' venv.

Arguments: number of candidates, a file to which one byte is appended for each candidate evaluated.
"""

import itertools
import logging
import os
import sys
import tempfile
from pathlib import Path

from openevolve import run_evolution
from openevolve.config import Config, LLMModelConfig
from openevolve.llm.base import LLMInterface

_numbers = itertools.count()


class InstantModel(LLMInterface):
    async def generate(self, prompt, **kwargs):
        return await self.generate_with_context("", [], **kwargs)

    async def generate_with_context(self, system_message, messages, **kwargs):
        return f"```python\nx = {os.getpid()}{next(_numbers)}\n```"


def make_model(_):
    return InstantModel()


EVALUATOR = """\
import hashlib
from pathlib import Path

def evaluate(program_path):
    digest = hashlib.sha256(Path(program_path).read_bytes()).hexdigest()
    with open({counter!r}, "ab") as file:
        file.write(b".")
    return {{"combined_score": int(digest[:8], 16) / 2**32}}
"""


def main():
    candidates, counter = int(sys.argv[1]), sys.argv[2]
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        evaluator = Path(name) / "evaluator.py"
        evaluator.write_text(EVALUATOR.format(counter=counter))
        config = Config(max_iterations=candidates, diff_based_evolution=False, checkpoint_interval=candidates)
        model = LLMModelConfig(name="instant", api_key="none", init_client=make_model)
        config.llm.models = [model]
        config.llm.evaluator_models = [model]
        config.evaluator.parallel_evaluations = 2
        config.evaluator.cascade_evaluation = False
        run_evolution("x = 0\n", str(evaluator), config, output_dir=str(Path(name) / "out"))


if __name__ == "__main__":
    main()
