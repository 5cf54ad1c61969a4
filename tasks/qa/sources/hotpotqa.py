"""HotpotQA, as its authors publish it and as it is on the hub."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from tasks.qa.corpus import Corpus
from tasks.qa.reading import RowError, fields, nested
from tasks.qa.records import Passage, Question
from tasks.qa.sources import paragraphs


class Source(paragraphs.ParagraphSource):
    """Rows `{_id, question, answer, type?, supporting_facts[[title, sentence]], context[[title, sentences[]]]}`.

    The hub has `id`, and columns instead of pairs: `{title[], sent_id[]}`, `{title[], sentences[][]}`. Gold passages
    are found by title; among several passages of a title it is the one that holds a supporting sentence.
    """

    reader = "hotpotqa"
    licence = "CC BY-SA 4.0"
    upstream = 'Yang et al., "HotpotQA" (EMNLP 2018), https://hotpotqa.github.io'
    required = ("question", "answer", "supporting_facts", "context")
    optional = ("_id", "id", "type")

    def parse(self, row: dict[str, Any], number: int, origin: str) -> Iterable[Question | Passage]:
        question = fields.question(fields.required(row, "question"), "question")
        answers = fields.answers([fields.required(row, "answer")], "answer")
        context = [(title, _sentences(value, key)) for title, value, key in _pairs(row, "context", "sentences")]
        own = [paragraphs.paragraph(title, "".join(sentences)) for title, sentences in context]
        supporting: dict[str, list[str]] = {}
        for title, place, key in _pairs(row, "supporting_facts", "sent_id"):
            at = fields.whole(place, key)
            found = (sentences[at : at + 1] for other, sentences in context if other == title)
            supporting.setdefault(title, []).extend(itertools.chain.from_iterable(found))
        gold = self._gold(supporting, self.context.corpus or Corpus(own))
        identity, kind = paragraphs.row_id(row), fields.label(row.get("type"), "type")
        return [
            *self.brought(own),
            self.asked(identity, question, answers, max(1, len(supporting)), gold, origin, kind),
        ]

    def _gold(self, supporting: dict[str, list[str]], corpus: Corpus) -> list[Passage]:
        gold = []
        for title, sentences in supporting.items():
            passage = corpus.supporting(title, sentences)
            if passage is None:
                raise paragraphs.no_gold(title)
            gold.append(passage)
        return gold


def _pairs(row: dict[str, Any], key: str, column: str) -> list[tuple[str, Any, str]]:
    """Title, value and place of each element, whether the elements are pairs or two columns."""
    value = nested.decoded(fields.required(row, key), key)
    if type(value) is dict:
        first = fields.items(fields.required(value, "title"), f"{key}.title")
        second = fields.items(fields.required(value, column), f"{key}.{column}")
        if len(first) != len(second):
            raise RowError("wrong_type", f"{key}: {len(first)} titles, but {len(second)} in {column}")
        pairs: list[Any] = [list(pair) for pair in zip(first, second, strict=True)]
    else:
        pairs = fields.items(value, key)
    found = []
    for number, pair in enumerate(pairs):
        place = f"{key}.{number}"
        if type(pair) not in (list, tuple) or len(pair) != 2:
            raise RowError("wrong_type", f"{place}: must be a pair of a title and {column}")
        found.append((fields.text(pair[0], f"{place}.0"), pair[1], f"{place}.1"))
    return found


def _sentences(value: Any, key: str) -> list[str]:
    return [fields.plain(one, f"{key}.{number}") for number, one in enumerate(fields.items(value, key))]
