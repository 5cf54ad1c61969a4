"""Exact match and F1 against the official scripts, whose functions stand here as they are published."""

import re
import string
from collections import Counter
from random import Random

import pytest

from tasks.agent.rewards import exact_match, f1, normalise


def squad_normalize_answer(s):
    """SQuAD's evaluate-v1.1.py (Rajpurkar et al. 2016); HotpotQA's hotpot_evaluate_v1.py has the same."""

    def remove_articles(text):
        return re.sub(r"\b(a|an|the)\b", " ", text)

    def white_space_fix(text):
        return " ".join(text.split())

    def remove_punc(text):
        exclude = set(string.punctuation)
        return "".join(ch for ch in text if ch not in exclude)

    def lower(text):
        return text.lower()

    return white_space_fix(remove_articles(remove_punc(lower(s))))


def squad_f1_score(prediction, ground_truth):
    """SQuAD's evaluate-v1.1.py."""
    prediction_tokens = squad_normalize_answer(prediction).split()
    ground_truth_tokens = squad_normalize_answer(ground_truth).split()
    common = Counter(prediction_tokens) & Counter(ground_truth_tokens)
    num_same = sum(common.values())
    if num_same == 0:
        return 0
    precision = 1.0 * num_same / len(prediction_tokens)
    recall = 1.0 * num_same / len(ground_truth_tokens)
    return (2 * precision * recall) / (precision + recall)


def squad_exact_match_score(prediction, ground_truth):
    """SQuAD's evaluate-v1.1.py; HotpotQA's is the same."""
    return squad_normalize_answer(prediction) == squad_normalize_answer(ground_truth)


def squad_max_over_ground_truths(metric_fn, prediction, ground_truths):
    """SQuAD's evaluate-v1.1.py, `metric_max_over_ground_truths`."""
    return max(metric_fn(prediction, ground_truth) for ground_truth in ground_truths)


def hotpot_f1_score(prediction, ground_truth):
    """HotpotQA's hotpot_evaluate_v1.py (Yang et al. 2018); the first of the three numbers that it returns."""
    normalized_prediction = squad_normalize_answer(prediction)
    normalized_ground_truth = squad_normalize_answer(ground_truth)
    if normalized_prediction in ["yes", "no", "noanswer"] and normalized_prediction != normalized_ground_truth:
        return 0
    if normalized_ground_truth in ["yes", "no", "noanswer"] and normalized_prediction != normalized_ground_truth:
        return 0
    prediction_tokens = normalized_prediction.split()
    ground_truth_tokens = normalized_ground_truth.split()
    common = Counter(prediction_tokens) & Counter(ground_truth_tokens)
    num_same = sum(common.values())
    if num_same == 0:
        return 0
    precision = 1.0 * num_same / len(prediction_tokens)
    recall = 1.0 * num_same / len(ground_truth_tokens)
    return (2 * precision * recall) / (precision + recall)


WHOLE = {"yes", "no", "noanswer"}
WORDS = [
    "the", "a", "An", "The", "Theatre", "anna", "U.S.", "us", "Beyoncé", "beyonce", "1,000", "1000", "№5", "O'Neill",
    "ONeill", "state-of-the-art", "New", "York", "York,", "(York)", "city", "yes", "no", "Yes.", "NO", "noanswer",
    "no answer", "*", "?!", "–", "İstanbul", "ß", "東京", "\u00a0", "  ",
]  # fmt: skip


def random_pairs(count: int) -> list[tuple[str, list[str]]]:
    """Answers with golden answers, of words that overlap, differ in what is normalised away, or are yes and no."""
    random = Random(7)

    def text() -> str:
        if random.random() < 0.25:
            return random.choice(["yes", "no", "Yes!", "the no", "noanswer", "no answer"])
        return random.choice([" ", "  ", "-"]).join(random.choices(WORDS, k=random.randint(0, 6)))

    return [(text(), [text() for _ in range(random.randint(1, 3))]) for _ in range(count)]


PAIRS = random_pairs(2000)


def of_nothing(golden: list[str]) -> bool:
    return any(not squad_normalize_answer(one) for one in golden)


def test_pairs_are_of_every_kind() -> None:
    equal = [exact_match(answer, golden) for answer, golden in PAIRS]
    scores = [f1(answer, golden) for answer, golden in PAIRS]
    ruled = [squad_f1_score(a, g[0]) > 0 and hotpot_f1_score(a, g[0]) == 0 for a, g in PAIRS]
    assert (
        min(sum(equal), sum(0 < score < 1 for score in scores), sum(ruled), sum(of_nothing(g) for _, g in PAIRS)) > 50
    )


def test_normalisation_is_the_scripts() -> None:
    for text in {text for answer, golden in PAIRS for text in (answer, *golden)}:
        assert normalise(text) == squad_normalize_answer(text)


def test_exact_match_is_the_scripts_but_for_golden_answers_of_which_no_word_is_left() -> None:
    for answer, golden in PAIRS:
        official = squad_max_over_ground_truths(squad_exact_match_score, answer, golden)
        if squad_normalize_answer(answer):
            assert exact_match(answer, golden) == official, (answer, golden)
        else:  # on purpose: the scripts call an empty answer right where a golden one normalises to nothing
            assert official == of_nothing(golden)
            assert exact_match(answer, golden) == 0.0


def test_f1_is_hotpotqas() -> None:
    for answer, golden in PAIRS:
        assert f1(answer, golden) == pytest.approx(max(hotpot_f1_score(answer, one) for one in golden)), (
            answer,
            golden,
        )


def test_f1_is_squads_but_for_yes_and_no() -> None:
    compared = 0
    for answer, golden in PAIRS:
        for one in golden:
            said, wanted = squad_normalize_answer(answer), squad_normalize_answer(one)
            if said == wanted or not {said, wanted} & WHOLE:
                compared += 1
                assert f1(answer, [one]) == pytest.approx(squad_f1_score(answer, one)), (answer, one)
            else:
                assert f1(answer, [one]) == 0.0
    assert compared > 1000


@pytest.mark.parametrize(
    ("answer", "gold", "hotpotqa", "squad"),
    [
        ("yes", "Yes", 1.0, 1.0),
        ("yes, no", "yes", 0.0, 2 / 3),
        ("no", "No Country for Old Men", 0.0, 1 / 3),
        ("no country", "No Country for Old Men", 4 / 7, 4 / 7),
        ("noanswer", "noanswer at all", 0.0, 1 / 2),
        ("no answer", "noanswer", 0.0, 0.0),
        ("the yes men", "Yes Men", 1.0, 1.0),
        ("1,000 people", "1000", 2 / 3, 2 / 3),
    ],
)
def test_by_hand(answer: str, gold: str, hotpotqa: float, squad: float) -> None:
    assert f1(answer, [gold]) == pytest.approx(hotpotqa) == pytest.approx(hotpot_f1_score(answer, gold))
    assert squad_f1_score(answer, gold) == pytest.approx(squad)
