import base64
import gzip
import json
from random import Random

import pandas as pd
import pytest

from tasks.evaluation.report import trajectories as room

NAMES = {"sft": "SFT", "rl": "RL"}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def unpacked(packed: str) -> dict:
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def outcomes(shown: pd.DataFrame) -> dict[str, tuple]:
    """Which models were right, by question."""
    return {key: tuple(part.sort_values("model")["success"]) for key, part in shown.groupby("question_id")}


def test_every_outcome_is_there_and_all_models_of_a_question(trajectories) -> None:
    frame = trajectories({"base": 0.05, "sft": 0.4, "rl": 0.9}, questions=100)
    shown = room.choose(frame, 50, seed=0)
    assert len(shown) == 48 and set(shown["question_id"].value_counts()) == {3}
    assert set(outcomes(shown).values()) == set(outcomes(frame).values())
    assert list(shown["model"][:3]) == ["rl", "sft", "base"]


def test_rare_outcomes_are_taken_as_far_as_they_go(trajectories) -> None:
    frame = trajectories({"rl": 1.0}, questions=100)
    wrong = frame["question_id"].isin(["q7", "q70", "q93"])
    frame.loc[wrong, "success"] = 0.0
    shown = room.choose(frame, 10, seed=0)
    assert len(shown) == 10 and set(shown[shown["success"] == 0]["question_id"]) == {"q7", "q70", "q93"}


def test_the_choice_is_the_seeds_and_not_that_of_the_rows(trajectories) -> None:
    frame = trajectories({"sft": 0.4, "rl": 0.8})
    shuffled = pd.concat([part.sample(frac=1, random_state=1) for _, part in frame.groupby("model", sort=False)])
    first, again, other = (
        list(room.choose(one, 20, seed)["question_id"]) for one, seed in ((frame, 0), (shuffled, 0), (frame, 1))
    )
    assert first == again != other


def test_all_are_shown_where_there_is_room_and_one_question_at_least(trajectories) -> None:
    frame = trajectories({"sft": 0.4, "rl": 0.8})
    assert len(room.choose(frame, 500, 0)) == 80
    assert len(room.choose(frame, 1, 0)) == 2


def test_a_page_gets_what_was_recorded(trajectories) -> None:
    frame = trajectories({"sft": 0.0, "rl": 1.0}, questions=2)
    frame["answer"] = frame["answer"].astype(object)
    frame.loc[0, "answer"] = None
    content = unpacked(room.pack(frame, NAMES, extra=1))
    assert content["models"] == NAMES and content["extra"] == 1
    assert content["questions"][1] == {
        "id": "q1", "text": "Where was Person1 born?", "golden": ["Town", "the town"], "source": "hotpotqa", "hops": 2,
        "type": None, "gold": ["p"],
    }  # fmt: skip
    run = content["runs"][3]
    assert (run["question"], run["model"], run["right"], run["reward"], run["found"]) == (1, "rl", True, 1.0, 1)
    assert run["calls"] == [["search", "Person1", None, ["p"]]]
    said = ["".join(text for _, text in pieces) for _, _, pieces in run["segments"]]
    assert said == [
        "<think> hm </think>\n<search> Person1 </search>",
        "<information> Doc 1 (Title: Person) Town is nice.\n</information>",
        "<answer> Town </answer>",
    ]
    assert content["runs"][0]["answer"] is None


def test_nothing_can_end_the_script_element(trajectories) -> None:
    frame = trajectories({"rl": 1.0}, questions=1, passage="</script><!-- ")
    packed = room.pack(frame, NAMES)
    assert "<" not in packed and "</script>" in json.dumps(unpacked(packed))


def test_no_gold_passage_known_is_no_miss(trajectories) -> None:
    frame = trajectories({"rl": 1.0}, questions=1)
    frame["gold_passage_ids"] = [[]]
    assert unpacked(room.pack(frame, NAMES))["runs"][0]["found"] is None


@pytest.mark.parametrize("words", [100, 3000])
def test_five_hundred_trajectories_have_room(trajectories, words: int) -> None:
    frame = trajectories({"sft": 0.4, "rl": 0.8}, questions=250)
    random = Random(0)
    vocabulary = ["".join(random.choices(LETTERS, k=random.randint(2, 10))) for _ in range(5000)]

    def long(text: str) -> str:
        segments = json.loads(text)
        segments[1]["text"] = f"<information> {' '.join(random.choices(vocabulary, k=words))} </information>"
        return json.dumps(segments)

    frame["segments"] = frame["segments"].map(long)
    packed = room.pack(frame, NAMES)
    assert len(packed) <= room.ROOM * 500
    cut = [text for _, _, pieces in unpacked(packed)["runs"][0]["segments"] for part, text in pieces if part == "cut"]
    assert len(cut) == (words == 3000) and all("characters left out" in text for text in cut)


def test_what_is_asked_and_answered_is_short_beside_the_segments(trajectories) -> None:
    frame = trajectories({"rl": 1.0}, questions=1).assign(answer="x" * 1000)
    answer = unpacked(room.pack(frame, NAMES))["runs"][0]["answer"]
    assert len(answer) < 500 and answer.endswith("…")
