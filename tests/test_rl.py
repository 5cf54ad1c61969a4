"""Stage rl around its run: what it says of a step, and what it refuses."""

from pathlib import Path

import pandas as pd
import pytest

from tasks.errors import InputError
from tasks.params.algorithm import DynamicSampling
from tasks.rl import _require_a_step, _shown


def test_a_step_that_trains_the_critic_alone_has_no_figures_of_the_policys_update() -> None:
    assert _shown({"actor/grad_norm": 0.126}, "actor/grad_norm", 2) == "0.13"
    assert _shown({}, "actor/grad_norm", 2) == "-"


FILTER = DynamicSampling(max_batches=3)


@pytest.mark.parametrize(
    ("enough", "too_many", "words"),
    [
        ({"prompts": 12}, {"prompts": 13}, r"12 questions do not make a step of rl\.prompts: 13.*lower rl\.prompts"),
        (
            {"prompts": 4, "dynamic_sampling": FILTER},
            {"prompts": 5, "dynamic_sampling": FILTER},
            r"12 questions are fewer than the 15 that a step may play by rl\.dynamic_sampling\.max_batches.*lower",
        ),
        (
            {"prompts": 6, "keep_groups": 0.5},
            {"prompts": 6, "keep_groups": 0.45},
            r"12 questions are fewer than the 14 that a step may play by rl\.keep_groups.*raise rl\.keep_groups",
        ),
    ],
)
def test_fewer_rows_than_a_step_may_play_are_refused(tmp_path: Path, defaults, enough, too_many, words: str) -> None:
    rows = tmp_path / "rows.parquet"
    pd.DataFrame({"n": range(12)}).to_parquet(rows)
    _require_a_step(rows, defaults.rl.model_copy(update=enough))
    with pytest.raises(InputError, match=words):
        _require_a_step(rows, defaults.rl.model_copy(update=too_many))
