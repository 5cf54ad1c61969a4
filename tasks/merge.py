"""Stage `merge`: the selected checkpoint as safetensors, in the dtype it was trained in, with proof.

Two comparisons on real rollouts: the merged model against the training checkpoint (must agree within
`merge.max_logit_diff`), and against the SFT model RL started from (must differ, or nothing was trained).
"""

from __future__ import annotations

import pandas as pd

from tasks.contract import Figures, Stage, main
from tasks.files import read_json


def run(stage: Stage) -> Figures:
    from tasks.training import merging

    settings = stage.params.merge
    selected = read_json(stage.input("rl", "selected.json"))
    checkpoint = stage.input("rl", selected["checkpoint"])
    stage.say(f"merging step {selected['step']}")
    dtype = merging.merge(checkpoint, stage.out / "model")
    latest = sorted(stage.input("rl", "rollouts").glob("validation_*.parquet"))[-1]
    rollouts = pd.read_parquet(latest).head(settings.prompts)
    inputs = [[*row.prompt_ids, *row.response_ids] for row in rollouts.itertuples()]
    merged = merging.saved_model(stage.out / "model")
    difference = merging.max_logit_diff(merging.trained_model(checkpoint), merged, inputs)
    change = merging.max_logit_diff(merging.saved_model(stage.input("sft", "model")), merged, inputs)
    if difference > settings.max_logit_diff:
        raise RuntimeError(
            f"merged model and training checkpoint differ by {difference:.2e} in the logits, "
            f"more than merge.max_logit_diff = {settings.max_logit_diff:.2e}"
        )
    if change == 0:
        raise RuntimeError("the merged model equals the SFT model: RL has not changed a weight")
    stage.say(f"{dtype}, logits agree within {difference:.1e}; RL moved them by up to {change:.2f}")
    return {
        "max_logit_diff": difference,
        "max_logit_change": change,
        "dtype": dtype,
        "step": selected["step"],
    }


if __name__ == "__main__":
    main("merge", run)
