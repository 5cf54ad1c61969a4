from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tasks.agent.trajectory import CallRecord, Segment, Trajectory


@pytest.fixture(scope="session")
def trajectories() -> Callable[..., pd.DataFrame]:
    """Trajectories as the stage records them; each model succeeds with its own rate."""

    def make(rates: dict[str, float], questions: int = 40, passage: str = "Town is nice.") -> pd.DataFrame:
        rows = []
        shown = "\n<information> Doc 1 (Title: Person) {}\n</information>\n"
        for model, rate in rates.items():
            rng = np.random.default_rng(len(model))
            for n in range(questions):
                em = float(rng.random() < rate)
                answer = "Town" if em else "Hut"
                trajectory = Trajectory(
                    question_id=f"q{n}",
                    environment="search",
                    data_source=("nq", "hotpotqa")[n % 2],
                    question=f"Where was Person{n} born?",
                    golden_answers=["Town", "the town"],
                    hops=1 + n % 2,
                    prompt_ids=[1],
                    segments=[
                        Segment("generated", f"<think> hm </think>\n<search> Person{n} </search>", [1, 2]),
                        Segment("observation", shown.format(passage), [3]),
                        Segment("generated", f"<answer> {answer} </answer>", [4]),
                    ],
                    queries=[f"Person{n}"],
                    passage_ids=[["p"]],
                    calls=[CallRecord("search", f"Person{n}", 0.1)],
                    turns=2,
                    answer=answer,
                    stop_reason="answer",
                    success=em,
                    em=em,
                    f1=em,
                    format_valid=True,
                    reward=em or 0.1,
                )  # fmt: skip
                of_question = {
                    "type": ("bridge", None)[n % 2],
                    "supporting_titles": ["Person"],
                    "gold_passage_ids": ["p"],
                }
                rows.append({"model": model, **trajectory.record(), **of_question})
        return pd.DataFrame(rows)

    return make
