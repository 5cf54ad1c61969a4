from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval import open_retriever
from tasks.retrieval.engines.hybrid import DEPTH, Hybrid, fuse


class Ranked:
    """An engine whose ranking is known; it notes how deep it was asked to go."""

    def __init__(self, *rows: int) -> None:
        self.rows, self.asked = rows, 0

    def search(self, queries: Sequence[str], topk: int) -> list[list[tuple[int, float]]]:
        self.asked = topk
        return [[(row, 9.0) for row in self.rows[:topk]] for _ in queries]


def test_ranks_are_fused_by_hand() -> None:
    # Row 7: 1/11 + .5/12 = .132576; row 3: 1/12 + .5/13 = .121795; row 1: 1/13 = .076923; row 5: .5/11 = .045455.
    fused = fuse([[(7, 30.0), (3, 20.0), (1, 10.0)], [(5, 0.9), (7, 0.8), (3, 0.1)]], (1.0, 0.5), 10, 4)
    assert fused == [
        (7, pytest.approx(0.132576, abs=1e-6)),
        (3, pytest.approx(0.121795, abs=1e-6)),
        (1, pytest.approx(0.076923, abs=1e-6)),
        (5, pytest.approx(0.045455, abs=1e-6)),
    ]


def test_equal_sums_keep_the_order_of_the_corpus() -> None:
    fused = fuse([[(9, 1.0), (2, 0.5)], [(2, 7.0), (9, 6.0)], [(4, 1.0)]], (1, 1, 1), 10, 3)
    assert [row for row, _ in fused] == [2, 9, 4]


@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=20), min_size=1, max_size=3), st.integers(1, 25))
def test_who_is_before_another_everywhere_is_before_it_fused(rankings: list[list[int]], topk: int) -> None:
    scored = [[(row, 1.0) for row in ranking] for ranking in rankings]
    fused = [row for row, _ in fuse(scored, [0.7] * len(rankings), 10, topk)]
    assert len(set(fused)) == len(fused) == min(topk, len(set().union(*rankings)))
    place = {row: number for number, row in enumerate(fused)}
    for first in fused:
        for second in fused:
            if all(
                first in ranking and (second not in ranking or ranking.index(first) < ranking.index(second))
                for ranking in rankings
            ):
                assert place[first] < place[second] or first == second


@pytest.mark.parametrize(("topk", "deep"), [(1, DEPTH), (DEPTH + 50, DEPTH + 50)])
def test_engines_are_asked_deeper_than_what_is_wanted(topk: int, deep: int) -> None:
    one, other = Ranked(1, 2), Ranked()
    assert [row for row, _ in Hybrid(one, other, k=10, dense_weight=1.0).search(["q"], topk)[0]] == [1, 2][:topk]
    assert one.asked == other.asked == deep


def test_a_hybrid_of_the_index_finds_what_either_finds(index: Path, retrieval) -> None:
    found = open_retriever(index, retrieval("hybrid")).search(["Zürichs", "word7", ""], 4)
    # An inflected form is unknown to BM25 and near to the n-grams; both agree about word7.
    assert found[0][0].passage.id == "p1" and found[1][0].passage.id == "p3" and found[2] == []
    assert found[1][0].score == pytest.approx(1.7 / 11)
