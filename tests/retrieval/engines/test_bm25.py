import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.retrieval.engines import bm25
from tasks.retrieval.engines.words import Words

WORDS = Words(None)
TEXTS = ["red green blue", "red red yellow black white", "green tea", "Straße nach München"]


def lucene(query: str, k1: float, b: float) -> list[float]:
    """Lucene's BM25 as in Kamphuis et al. (2020), table 1, with each query word counted as often as it is said."""
    documents = [WORDS(text) for text in TEXTS]
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for document in documents:
        counts, score = Counter(document), 0.0
        for word in WORDS(query):
            frequency = sum(word in other for other in documents)
            idf = math.log(1 + (len(documents) - frequency + 0.5) / (frequency + 0.5))
            tf = counts[word]
            score += idf * tf / (tf + k1 * (1 - b + b * len(document) / mean))
        scores.append(score)
    return scores


@pytest.fixture
def engine(tmp_path: Path) -> bm25.Bm25:
    bm25.build(TEXTS, tmp_path, k1=1.2, b=0.75, stemmer=None)
    return bm25.Bm25(tmp_path, None)


@pytest.mark.parametrize("query", ["red", "green tea", "red red blue", "munchen"])
def test_scores_follow_the_formula(engine: bm25.Bm25, query: str) -> None:
    expected = {row: score for row, score in enumerate(lucene(query, 1.2, 0.75)) if score > 0}
    found = dict(engine.search([query], 10)[0])
    assert found == pytest.approx(expected, rel=1e-5)
    assert list(found) == sorted(expected, key=lambda row: -expected[row])


def test_a_score_worked_out_by_hand(engine: bm25.Bm25) -> None:
    # "tea": in 1 of 4 texts, idf = ln(1 + 3.5 / 1.5) = 1.203973; text of 2 words, mean 13 / 4 = 3.25,
    # tf part = 1 / (1 + 1.2 (0.25 + 0.75 * 2 / 3.25)) = 0.539419.
    assert engine.search(["tea"], 1)[0] == [(2, pytest.approx(1.203973 * 0.539419, abs=1e-5))]


@pytest.mark.parametrize("query", ["", "   ", "?!", "unheard", "the of and"])
def test_a_query_without_a_known_word_finds_nothing(engine: bm25.Bm25, query: str) -> None:
    assert engine.search([query], 3) == [[]]


def test_texts_without_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no words"):
        bm25.build(["...", "the"], tmp_path, k1=1.2, b=0.75, stemmer=None)


def test_building_leaves_jax_alone(tmp_path: Path) -> None:
    package = tmp_path / "jax"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('JAX was started')")
    code = (
        "from tasks.retrieval.engines import bm25; from pathlib import Path;"
        f"bm25.build(['some words'], Path({str(tmp_path)!r}), k1=1.2, b=0.75, stemmer=None);"
        "assert 'bm25s' in sys.modules and 'jax' not in sys.modules and 'jax.lax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"], check=True)


def test_a_search_of_few_passages_brings_in_nothing_heavy(index: Path, retrieval) -> None:
    code = (
        "import sys; from pathlib import Path; from tasks.params import Retrieval;"
        "from tasks.retrieval import open_retriever;"
        "found = open_retriever(Path(sys.argv[1]), Retrieval.model_validate_json(sys.argv[2])).search(['Rome'], 1);"
        "assert found[0][0].passage.id == 'p0';"
        "heavy = {'bm25s', 'numba', 'scipy', 'sklearn', 'faiss', 'torch', 'sentence_transformers', 'qdrant_client'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(index), retrieval().model_dump_json()], check=True)


def test_stems_find_each_other(tmp_path: Path) -> None:
    bm25.build(["He ran a marathon", "Runners' running shoes"], tmp_path, k1=1.2, b=0.75, stemmer="english")
    assert [row for row, _ in bm25.Bm25(tmp_path, "english").search(["the runner runs"], 2)[0]] == [1]
