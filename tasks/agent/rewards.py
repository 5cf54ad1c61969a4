"""Answer scores and the outcome reward, as pure functions."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Whatever is neither punctuation, nor space, nor a letter of an article survives the normalisation.
_SURVIVES = re.compile(r"""[^\s!-/:-@\[-`{-~antheANTHE]""")
YES_NO = frozenset({"yes", "no"})  # normalised answers that no passage says


def normalise(text: str) -> str:
    """Lower case, no punctuation, no articles, single spaces: SQuAD's `normalize_answer` ("U.S." becomes "us").

    Source: the official SQuAD v1.1 evaluation script (Rajpurkar et al., 2016).
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def matchable(golden: Sequence[str]) -> bool:
    """Whether a prediction can be an exact match: a word is left of one golden answer at least, once normalised."""
    return any(_SURVIVES.search(one) or normalise(one) for one in golden)


def exact_match(answer: str | None, golden: Sequence[str]) -> float:
    """1.0 when the normalised answer equals any normalised golden answer, else 0.0.

    A golden answer of which no word is left ("*", "The") matches nothing: SQuAD's script and Search-R1 give 1.0 to
    an empty answer there, which would teach to answer nothing.
    """
    predicted = "" if answer is None else normalise(answer)
    return float(bool(predicted) and predicted in {normalise(one) for one in golden})


def f1(answer: str | None, golden: Sequence[str]) -> float:
    """Best token F1 of the normalised answer against the golden answers, in [0, 1] (SQuAD v1.1).

    0.0 where no word is left of the answer or of all golden answers, as in `exact_match`.
    """
    if answer is None:
        return 0.0
    predicted, best = normalise(answer).split(), 0.0
    for gold in golden:
        expected = normalise(gold).split()
        common = sum((Counter(predicted) & Counter(expected)).values())
        if common:
            best = max(best, 2 * common / (len(predicted) + len(expected)))
    return best


def holds_answer(text: str, answer: str) -> bool:
    """Whether a text, normalised already, holds an answer as whole words; never one of which no word is left."""
    wanted = normalise(answer)
    return bool(wanted) and f" {wanted} " in f" {text} "


def outcome_reward(em: float, answer_blocks: int, *, em_score: float, format_score: float) -> dict[str, float]:
    """Outcome reward of Search-R1 with a format score, divided by the number of answer blocks.

    reward = em_score * em + format_score * (1 - em), divided by `answer_blocks`; 0 without an answer.
    The division takes the profit out of answering many times (hack surface: several answers, the last right).

    Source: Jin et al. 2025, equation 4, and Search-R1's `compute_score_em(format_score=...)`.
    """
    if answer_blocks == 0:
        return {"em": 0.0, "format": 0.0}
    return {"em": em_score * em / answer_blocks, "format": format_score * (1.0 - em) / answer_blocks}
