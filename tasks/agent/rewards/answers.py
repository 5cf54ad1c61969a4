"""How right an answer is: pure functions of the answer and the golden answers."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

Judge = Callable[[str | None, Sequence[str]], float]  # how right an answer is, given the golden answers

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Whatever is neither punctuation, nor space, nor a letter of an article survives the normalisation.
_SURVIVES = re.compile(r"""[^\s!-/:-@\[-`{-~antheANTHE]""")
YES_NO = frozenset({"yes", "no"})  # normalised answers that no passage says
_WHOLE = YES_NO | {"noanswer"}  # HotpotQA's script gives no part of a score for these


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
    """Best token F1 of the normalised answer against the golden answers, in [0, 1].

    HotpotQA's, from `f1_score` of its hotpot_evaluate_v1.py (Yang et al. 2018): that of the SQuAD v1.1 script, but that
    yes, no and noanswer are right or wrong as a whole, so "yes, no" earns nothing where SQuAD's gives it 2/3 for "yes".
    Of all other pairs both scripts say the same, and so does this. 0.0 where no word is left of the answer or of all
    golden answers, as in both.
    """
    if answer is None:
        return 0.0
    predicted, best = normalise(answer), 0.0
    for gold in golden:
        expected = normalise(gold)
        if predicted != expected and (predicted in _WHOLE or expected in _WHOLE):
            continue
        words, wanted = predicted.split(), expected.split()
        common = sum((Counter(words) & Counter(wanted)).values())
        if common:
            best = max(best, 2 * common / (len(words) + len(wanted)))
    return best


def holds_answer(text: str, answer: str) -> bool:
    """Whether a text, normalised already, holds an answer as whole words; never one of which no word is left."""
    wanted = normalise(answer)
    return bool(wanted) and f" {wanted} " in f" {text} "


def cover_em(answer: str | None, golden: Sequence[str]) -> float:
    """1.0 when the normalised answer holds any normalised golden answer as whole words, else 0.0.

    Source: cover exact match (Song et al. 2025, R1-Searcher). Search-R1's `subem_check`, which verl ships
    (utils/reward_score/search_r1_like_qa_em.py:53), looks for any substring: there "us" is in "a bus house".
    """
    if answer is None:
        return 0.0
    said = normalise(answer)
    return float(any(holds_answer(said, one) for one in golden))
