"""Query policies: what a demonstration searches for.

- `titles`: each gold title in its order, as an ideal searcher would who knows the chain;
- `answer`: the answer itself, in one search;
- `keywords`: the question's words without question words and stop words, in one search.
"""

from __future__ import annotations

import string
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal

from tasks.agent.demonstrations.form import Drop, is_yes_no

Policy = Literal["titles", "answer", "keywords"]
NO_QUERY: frozenset[Drop] = frozenset({"no_titles", "no_keywords", "yes_no_answer"})
_QUOTES = "“”‘’„«»¿¡…"
_AROUND = string.punctuation.replace("$", "").replace("#", "") + _QUOTES


# scikit-learn's list has all question words, but not these forms, and it has words that say what is asked for.
_MISSING = frozenset({"did", "does", "doing", "shall", "whats", "whos"})
_TELLING = frozenset({"first", "third", "last", "next", "top", "bottom", "bill", "fire", "interest", "mill", "system"})


@cache
def _stop_words() -> frozenset[str]:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS) - _TELLING | _MISSING


def keywords(question: str) -> list[str]:
    """The words of a question that say what it is about, in their order.

    Punctuation around a word and a possessive ending go. A word with a capital letter is taken for a name and
    stays even where it is a stop word ("The Who"), unless it opens the question.
    """
    kept = []
    for place, raw in enumerate(question.split()):
        word = raw.strip(_AROUND).removesuffix("'s").removesuffix("’s")
        plain = word.lower().replace("'", "").replace("’", "")
        if plain and (plain not in _stop_words() or (place > 0 and word[0].isupper())):
            kept.append(word)
    return kept


def queries(policy: Policy, info: Mapping[str, Any]) -> list[str] | Drop:
    """The queries of a question, or why the policy has none for it.

    One search shows nothing for an answer of yes or no, which no passage says; only the titles do.

    Args:
        policy: what is searched.
        info: `extra_info` of a row of the data contract.
    """
    if policy == "titles":
        return list(info["supporting_titles"]) or "no_titles"
    if is_yes_no(info["golden_answers"]):
        return "yes_no_answer"
    if policy == "answer":
        return [info["golden_answers"][0]]
    words = keywords(info["question"])
    return [" ".join(words)] if words else "no_keywords"
