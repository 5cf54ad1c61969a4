"""The report of synthetic verdicts: where, who said what, and the cause that each pattern points at."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tasks.training.sanity import SanityCheck
from tasks.training.sanity_report import report


@pytest.fixture
def check(tmp_path: Path) -> SanityCheck:
    (tmp_path / "config.json").write_text(json.dumps({"dtype": "float32"}))
    return SanityCheck(str(tmp_path), "", 2, 1e-3)


def first(**more: Any) -> dict[str, Any]:
    values = {
        "question": "Where was Kashi born?", "position": 31, "turn": 2, "position_in_turn": 4, "context": "<search> Ka",
        "token": {"id": 7, "text": "shi"}, "engine_logprob": -0.25, "transformers_logprob": -4.5,
        "choice": {"id": 8, "text": "li"}, "choice_logprob": -0.125, "vocabulary": 512,
    }  # fmt: skip
    return values | more


def bad(difference: float = 4.25, disagreements: int = 3, **more: Any) -> dict[str, Any]:
    verdict = {"tokens": 20, "max_logprob_diff": difference, "disagreements": disagreements}
    return {**verdict, "passed": False, "first": first(**more)}


GOOD = {"tokens": 12, "max_logprob_diff": 2e-6, "disagreements": 0, "passed": True, "first": None}


def test_episodes_that_agree_are_a_line_each(check: SanityCheck) -> None:
    lines = report([GOOD, GOOD], check).splitlines()
    assert "2 episodes, 24 generated tokens, tolerance 0.001 nats" in lines[0]
    assert "float32" in lines[1]
    assert [line.split() for line in lines[4:6]] == [
        ["0", "12", "2.00e-06", "nats", "0", "agrees"],
        ["1", "12", "2.00e-06", "nats", "0", "agrees"],
    ]
    assert lines[-1] == "They agree."


def test_the_first_disagreement_is_shown_with_both_choices(check: SanityCheck) -> None:
    text = report([GOOD, bad(), bad(question="Later?")], check)
    assert [line.split()[-1] for line in text.splitlines()[4:7]] == ["agrees", "DIFFERS", "DIFFERS"]
    assert "episode 1 ('Where was Kashi born?'), token 31 of the response: the policy's turn 2, its token 4" in text
    assert "after         '<search> Ka'" in text
    assert "vLLM          'shi' (id 7), log-prob -0.2500; transformers gives it -4.5000, 4.2 nats apart" in text
    assert "transformers  'li' (id 8), log-prob -0.1250\n" in text
    assert "Later?" not in text
    assert "python -m tasks.rl --check-engine --model data/policy/model" in text


@pytest.mark.parametrize(
    ("verdict", "cause"),
    [
        (bad(math.nan), "NaN: an overflow"),
        (bad(token={"id": 512, "text": ""}), "an id that the tokenizer has not"),
        (bad(0.05, 0, choice={"id": 7, "text": "shi"}), "float noise"),
        (bad(turn=1, position=0, position_in_turn=0), "from the very first token"),
        (bad(), "later ones do not: what stands between turns"),
        (bad(0.05, 1), "later ones do not: what stands between turns"),
        (bad(turn=1, position=5, position_in_turn=5), "agrees for some tokens and then parts"),
    ],
)
def test_what_a_pattern_looks_like(check: SanityCheck, verdict: dict[str, Any], cause: str) -> None:
    (line,) = [line for line in report([GOOD, verdict], check).splitlines() if line.startswith("What it looks like")]
    assert cause in line


def test_a_pattern_must_hold_for_every_bad_episode(check: SanityCheck) -> None:
    text = report([bad(turn=1, position=0, position_in_turn=0), bad()], check)
    assert "agrees for some tokens and then parts" in text


def test_the_same_choice_is_said_to_be_the_same(check: SanityCheck) -> None:
    assert "the same choice" in report([bad(0.05, 0, choice={"id": 7, "text": "shi"})], check)
