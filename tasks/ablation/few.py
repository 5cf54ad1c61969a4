"""The few questions of the arm `few`: drawn from RL's own by seed, as many as make four epochs of the run.

    python -m tasks.ablation.few FILE.jsonl

Learning-impact selection needs several visits to each question, which a short run on all questions has not. Parameters
are those in force. Exit codes: 0; 2: wrong input.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tasks import params
from tasks.errors import InputError, exit_on_input_error
from tasks.files import output_file, write_text_aside

ROWS = Path("data/demos/left.parquet")
EPOCHS = 4


def draw(ids: Sequence[str], *, steps: int, prompts: int, seed: int) -> list[str]:
    """The questions that a run visits `EPOCHS` times, in the order of their rows.

    Args:
        ids: of all of RL's questions.
        steps: of the run.
        prompts: questions a step.
        seed: of the draw.

    Raises:
        InputError: there are fewer questions, or these would be fewer than a step needs.
    """
    wanted = steps * prompts // EPOCHS
    if wanted < prompts:
        raise InputError(f"{steps} steps are fewer than {EPOCHS} epochs of one step each", where="rl.steps")
    if wanted > len(ids):
        raise InputError(f"RL has {len(ids)} questions and {wanted} are to be drawn", where=str(ROWS))
    taken = set(Random(seed).sample(range(len(ids)), wanted))
    return [one for number, one in enumerate(ids) if number in taken]


def main(arguments: Sequence[str]) -> int:
    """Write the questions that the arm `few` trains on."""
    parser = argparse.ArgumentParser(prog="python -m tasks.ablation.few", description=main.__doc__)
    parser.add_argument("out", type=output_file, help="JSONL, a question's id a line")
    out = parser.parse_args(arguments).out
    with exit_on_input_error("few"):
        import pyarrow.parquet as pq

        if not ROWS.is_file():
            raise InputError("no questions for RL yet", where=str(ROWS), mend="run `dvc repro demos`")
        settings = params.typed(params.resolve_in_force(), where="params")
        ids = [row["id"] for row in pq.read_table(ROWS, columns=["extra_info"])["extra_info"].to_pylist()]
        few = draw(ids, steps=settings.rl.steps, prompts=settings.rl.prompts, seed=settings.seed)
        write_text_aside(out, "".join(f"{json.dumps({'id': one}, ensure_ascii=False)}\n" for one in few))
    print(f"few: {len(few)} of {len(ids)} questions, {EPOCHS} epochs: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
