import pytest
from scipy.stats import binomtest

from tasks.release.comparison import compare, sign_test


def test_hand_computed():
    # 8 worse, 1 better, 3 ties: P(X >= 8 | 9, 1/2) = (9 + 1) / 512
    champion = {f"q{i}": 1.0 for i in range(8)} | {"b": 0.0, "t1": 1.0, "t2": 0.0, "t3": 1.0, "only": 1.0}
    candidate = {f"q{i}": 0.0 for i in range(8)} | {"b": 1.0, "t1": 1.0, "t2": 0.0, "t3": 1.0, "new": 1.0}
    found = compare(candidate, champion)
    assert (found.n, found.better, found.worse) == (12, 1, 8)
    assert found.p == pytest.approx(10 / 512)
    assert found.difference == pytest.approx(-7 / 12)
    assert found.significantly_worse
    assert not compare(champion, candidate).significantly_worse


@pytest.mark.parametrize(("count", "n"), [(0, 0), (0, 5), (5, 5), (3, 7), (60, 100), (400, 750)])
def test_sign_test_is_the_exact_binomial_test(count, n):
    expected = binomtest(count, n, 0.5, alternative="greater").pvalue if n else 1.0
    assert sign_test(count, n) == pytest.approx(expected)


def test_nothing_shared_refuses_nothing():
    assert not compare({"a": 0.0}, {"b": 1.0}).significantly_worse
