import hashlib
import json

import pandas as pd

from tasks.evaluation.repeats import answers_sha256, batch_figures, repeat_figures


def frame(**changed) -> pd.DataFrame:
    rows = [
        {"model": "rl", "question_id": f"q{n}", "segments": json.dumps([{"text": f"s{n}"}]),
         "answer": "x" if n else None, "response_ids": [n, n],
         "sampling": json.dumps({"temperature": 0.0, "max_num_seqs": 8})}
        for n in range(3)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(**changed)


def test_the_hash_by_hand() -> None:
    lines = [json.dumps([f"q{n}", json.dumps([{"text": f"s{n}"}]), "x" if n else None]) + "\n" for n in range(3)]
    assert answers_sha256(frame()) == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_the_hash_is_of_answers_and_segments_and_not_of_the_order() -> None:
    whole = answers_sha256(frame())
    assert answers_sha256(frame().sample(frac=1, random_state=1)) == whole
    assert answers_sha256(frame(answer=["", "x", "x"])) != whole  # no answer is another than an empty one
    assert answers_sha256(frame(segments="[]")) != whole
    assert answers_sha256(frame(question_id=["q0", "q1", "q3"])) != whole
    assert answers_sha256(frame(sampling="{}")) == whole


def test_figures_of_each_model_name_the_engines_settings() -> None:
    both = pd.concat([frame(), frame(model="sft", answer="y")])
    figures = repeat_figures(both)
    assert list(figures) == ["rl", "sft"] and figures["rl"]["answers_sha256"] != figures["sft"]["answers_sha256"]
    assert figures["rl"] == {"answers_sha256": answers_sha256(frame()), "temperature": 0.0, "max_num_seqs": 8}


def test_changes_with_the_batch_by_hand() -> None:
    smaller = frame(answer=[None, "y", "x"], response_ids=[[0, 0], [1], [2, 5]]).iloc[[2, 1]]
    assert batch_figures(frame(), smaller) == {"questions": 2, "answers_changed": 1, "trajectories_changed": 2}
    empty = frame(answer=["", "x", "x"])
    assert batch_figures(frame(), empty)["answers_changed"] == 1  # an empty one is another than none
    assert batch_figures(frame(), frame()) == {"questions": 3, "answers_changed": 0, "trajectories_changed": 0}
