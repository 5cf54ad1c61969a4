import threading
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.engines.bm25 import Bm25, _import_bm25s, build
from tasks.retrieval.engines.bm25_kernel import LEAST, Kernel
from tasks.retrieval.engines.ranking import best

WORDS = [f"w{n}" for n in range(30)]


def texts(count: int, seed: int) -> list[str]:
    random = Random(seed)
    # Few words and short texts: many scores are equal.
    return [" ".join(random.choices(WORDS, weights=range(30, 0, -1), k=random.randint(1, 8))) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernel")
    build(texts(700, seed=1), folder, k1=1.2, b=0.75, stemmer=None)
    return folder


@given(
    st.integers(1, 200),
    st.lists(st.lists(st.integers(0, 5), max_size=6), min_size=1, max_size=4),
    st.integers(1, 12),
    st.integers(0, 1_000),
)
def test_it_is_the_plain_sum_and_the_plain_order(count: int, queries: list[list[int]], topk: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    postings = [np.sort(random.choice(count, random.integers(0, count + 1), replace=False)) for _ in range(6)]
    starts = np.cumsum([0, *map(len, postings)])
    rows = np.concatenate(postings).astype(np.int32)
    # Of few values, so that sums tie; and of thirds, so that the order of a sum matters.
    scores = (random.integers(1, 4, len(rows)) / 3).astype(np.float32)
    expected = []
    for query in queries:
        sums = np.zeros(count, dtype=np.float32)
        for word in query:
            np.add.at(sums, postings[word], scores[starts[word] : starts[word + 1]])
        expected.append(best(sums, topk))
    kernel = Kernel(starts, rows, scores, count)
    assert kernel.rank(queries, topk) == expected
    assert kernel.rank(queries, topk) == expected  # it left its sums empty


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("topk", [1, 10, 5000])
def test_scores_are_those_of_bm25s_to_the_bit(folder: Path, compiled: bool, topk: int) -> None:
    model = _import_bm25s().BM25.load(folder / "bm25", mmap=True)
    engine = Bm25(folder, None, compiled=compiled)
    queries = [*texts(50, seed=2), "w1 w1 w1 w2", "unheard", ""]
    expected = [
        best(model.get_scores_from_ids(ids), topk) if (ids := model.get_tokens_ids(query.split())) else []
        for query in queries
    ]
    assert engine.search(queries, topk) == expected


def test_many_threads_get_their_own_answers(folder: Path) -> None:
    engine = Bm25(folder, None, compiled=True)
    batches = [texts(1 if n % 2 else 3 * LEAST, seed=n) for n in range(16)]
    expected = [engine.search(batch, 5) for batch in batches]
    found: dict[int, list] = {}

    def search(number: int) -> None:
        for _ in range(20):
            found[number] = engine.search(batches[number], 5)
            if found[number] != expected[number]:
                return

    threads = [threading.Thread(target=search, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(len(batches))] == expected


def test_a_small_index_does_without_numba(folder: Path) -> None:
    assert Bm25(folder, None)._kernel is None
