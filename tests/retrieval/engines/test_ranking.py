import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tasks.retrieval.engines.ranking import best


def test_equal_scores_keep_the_order_of_the_corpus() -> None:
    assert best(np.array([1.0, 2.0, 2.0, 0.0, 2.0, -1.0]), 3) == [(1, 2.0), (2, 2.0), (4, 2.0)]


@given(st.lists(st.integers(-2, 4), max_size=40), st.integers(1, 12))
def test_it_is_the_head_of_a_full_stable_sort(values: list[int], topk: int) -> None:
    pairs = sorted(((row, float(v)) for row, v in enumerate(values) if v > 0), key=lambda pair: -pair[1])
    assert best(np.array(values, dtype=np.float32), topk) == pairs[:topk]
