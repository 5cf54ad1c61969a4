import itertools
import random

import pytest

from tasks.qa.shuffling import longest_allowed_run, worst_run, worst_window


def test_bound_by_hand():
    # n = 10, m = 5: q(1) = 5/10, q(2) = 20/90, q(3) = 60/720, q(4) = 120/5040, q(5) = 1/252; times n-m+1 = 6:
    # 3, 4/3, 1/2, 1/7, 1/42.
    assert longest_allowed_run(10, 5, 0.5) == 2
    assert longest_allowed_run(10, 5, 0.49) == 3
    assert longest_allowed_run(10, 5, 0.03) == 4
    assert longest_allowed_run(10, 5, 0.02) == 5  # even all five together are no rarer than that


def test_bound_nears_its_form_for_many_rows():
    # n (1-p) p^r with n = 1,000,000 and p = 1/2 is below 1e-6 from r = 39 on: 5e5 * 2^-39 = 9.1e-7.
    assert longest_allowed_run(1_000_000, 500_000, 1e-6) == 38


@pytest.mark.parametrize(("rows", "of_source"), [(8, 3), (8, 5), (9, 2), (7, 6)])
def test_bound_holds_in_all_orders(rows, of_source):
    """The share of orders with a longer run than allowed is at most the probability, for any probability."""
    orders = list(itertools.combinations(range(rows), of_source))
    for probability in (0.5, 0.3, 0.1, 0.05, 0.01):
        allowed = longest_allowed_run(rows, of_source, probability)
        longer = 0
        for places in orders:
            line = "".join("a" if n in places else "b" for n in range(rows))
            longer += max(map(len, line.split("b"))) > allowed
        assert longer / len(orders) <= probability


def test_only_one_source_may_run_all_through():
    assert longest_allowed_run(50, 50, 1e-6) == 50
    assert worst_run(["a"] * 50, 1e-6).length == worst_run(["a"] * 50, 1e-6).allowed == 50


def test_the_longest_run_is_found_with_its_place():
    run = worst_run(list("abbbaabab"), 1e-6)
    assert (run.source, run.first_row, run.length) == ("b", 1, 3)


def test_a_run_that_chance_forbids_comes_before_a_longer_one_that_it_allows():
    rng = random.Random(0)
    order = ["often"] * 950 + ["rare"] * 40
    rng.shuffle(order)
    order += ["rare"] * 10
    run = worst_run(order, 1e-6)
    assert (run.source, run.first_row, run.length) == ("rare", 990, 10)
    assert run.allowed < 10


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.5, 0.35, 0.15), (0.97, 0.03), (0.25,) * 4])
def test_shuffled_rows_pass_and_blocks_do_not(shares):
    blocks = [str(n) for n, share in enumerate(shares) for _ in range(round(2400 * share))]
    assert worst_run(blocks, 1e-6).length > worst_run(blocks, 1e-6).allowed
    assert worst_run(blocks, 1e-6).length == max(blocks.count(name) for name in set(blocks))
    for seed in range(20):
        order = blocks.copy()
        random.Random(seed).shuffle(order)
        run = worst_run(order, 1e-6)
        assert run.length <= run.allowed
        assert worst_window(order, 256).gap <= 0.15


def test_worst_window_by_hand():
    # Overall half and half; the windows of four are aaab (3/4), aabb (1/2), abbb (1/4), bbba (1/4) ...
    worst = worst_window(list("aaabbb"), 4)
    assert (worst.source, worst.first_row, worst.rows) == ("a", 0, 4)
    assert (worst.share, worst.overall, worst.gap) == (0.75, 0.5, 0.25)


def test_a_window_between_two_tiles_is_seen():
    # Tiles of four are even (abab), the window across their border is not.
    assert worst_window(list("ababbbaa" + "abab"), 4).gap > 0
    assert worst_window(list("aabb" * 3), 4).gap == 0
    assert worst_window(list("abba" * 3), 2).gap == 0.5


def test_fewer_rows_than_a_window_are_one_window():
    worst = worst_window(list("aabb"), 256)
    assert (worst.first_row, worst.rows, worst.gap) == (0, 4, 0)


def test_no_rows_are_an_error():
    with pytest.raises(ValueError, match="no rows"):
        worst_run([], 0.1)
    with pytest.raises(ValueError, match="no rows"):
        worst_window([], 4)
