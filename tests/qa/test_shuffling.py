import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.qa.mixing import interleaved
from tasks.qa.shuffling import examine, longest_allowed_run, window_sizes

SEARCH_R1 = np.repeat(["nq", "hotpotqa"], [79_168, 73_485])


def of(labels, test, probability=1e-6):
    (found,) = [one for one in examine({"source": labels}, probability) if one.test == test]
    return found


def refused(labels, probability=1e-6):
    return {(one.labelling, one.test) for one in examine(labels, probability) if one.refused}


def test_bound_by_hand():
    # n = 10, m = 5: q(1) = 5/10, q(2) = 20/90, q(3) = 60/720, q(4) = 120/5040, q(5) = 1/252; times n-m+1 = 6:
    # 3, 4/3, 1/2, 1/7, 1/42.
    assert longest_allowed_run(10, 5, 0.5) == 2
    assert longest_allowed_run(10, 5, 0.49) == 3
    assert longest_allowed_run(10, 5, 0.03) == 4
    assert longest_allowed_run(10, 5, 0.02) == 5  # even all five together are no rarer than that
    assert longest_allowed_run(50, 50, 1e-6) == 50


def test_bound_nears_its_form_for_many_rows():
    # n (1-p) p^r with n = 1,000,000 and p = 1/2 is below 1e-6 from r = 39 on: 5e5 * 2^-39 = 9.1e-7.
    assert longest_allowed_run(1_000_000, 500_000, 1e-6) == 38


@pytest.mark.parametrize(("rows", "of_source"), [(8, 3), (8, 5), (9, 2), (7, 6)])
def test_bounds_hold_in_all_orders(rows, of_source):
    """The share of orders that look as unlikely as a bound says is at most that bound, for each test."""
    orders = [
        ["a" if n in places else "b" for n in range(rows)] for places in itertools.combinations(range(rows), of_source)
    ]
    for test in ("run", "window", "neighbours"):
        bounds = [of(order, test).probability for order in orders]
        for bound in set(bounds):
            assert sum(one <= bound for one in bounds) / len(orders) <= bound * (1 + 1e-9)
    for probability in (0.5, 0.3, 0.1, 0.05, 0.01):
        allowed = longest_allowed_run(rows, of_source, probability)
        longer = sum(max(map(len, "".join(order).split("b"))) > allowed for order in orders)
        assert longer / len(orders) <= probability


def test_a_run_is_found_with_its_place_and_bound():
    # Two labels with 4 and 6 of 10 rows. bbb: q(3) = 6/10 * 5/9 * 4/8 = 1/6, times n-m+1 = 5, times 2 labels: above 1.
    # aa: q(2) = 4/10 * 3/9 = 2/15, times 7, times 2: above 1 as well.
    run = of(list("abbbaababb"), "run")
    assert (run.label, run.first_row, run.rows, run.count, run.probability) == ("b", 1, 3, 3, 1.0)
    # aaaa: 4!/(10*9*8*7) = 1/210, times 7, times 2 = 1/15; bbbb: 6*5*4*3/5040 = 1/14, times 5, times 2 = 5/7.
    run = of(list("bbaaaabbbb"), "run", 0.01)
    assert (run.label, run.first_row, run.rows) == ("a", 2, 4)
    assert run.probability == pytest.approx(1 / 15)
    assert run.allowed == pytest.approx(0.01 / 3)


def test_a_window_by_hand():
    # 12 rows, 6 of each: windows of 3 (at 0, 1 ... 9: ten) and of 6 (at 0, 3, 6: three). Six of a in the first
    # half have 1/C(12, 6) = 1/924; tests: 2 tails x 2 labels x 13 windows = 52.
    assert window_sizes(12) == [3, 6]
    window = of(list("aaaaaabbbbbb"), "window")
    assert (window.first_row, window.rows) in {(0, 6), (6, 6)}
    assert window.count in {0, 6}
    assert window.chance == 3
    assert window.probability == pytest.approx(52 / 924)


def test_window_sizes():
    assert window_sizes(3) == []
    assert window_sizes(20) == [5, 10]
    assert window_sizes(10_000) == [64, 256, 1024, 2500, 5000]


def test_neighbours_by_hand():
    # 60 labels of 5 rows: 60 * 5*4 / 300 = 4 pairs on average, 240 seen: exp(-236^2 / (8 * 299)).
    found = of(np.repeat(np.arange(60), 5), "neighbours")
    assert (found.count, found.chance) == (240, 4)
    assert found.probability == pytest.approx(math.exp(-(236**2) / (8 * 299)))


def shuffled(labels, seed=0):
    return np.random.default_rng(seed).permutation(labels)


def test_two_blocks_are_told_with_their_place():
    assert refused({"source": SEARCH_R1}) == {("source", test) for test in ("run", "window", "neighbours")}
    run = of(SEARCH_R1, "run")
    # Half and half all but: n p^r (1-p) with p = 0.52 falls below 1e-6 / 3 tests / 2 labels between r = 39 and 45.
    assert str(run).startswith("longest run: 79168 rows of source nq, rows 0 to 79167; chance allows 4")
    assert 39 <= run.chance <= 45
    window = of(SEARCH_R1, "window")
    assert "p < 1e-300" in str(window)


def blocks(labels, size):
    """Each label's rows in blocks, in turns."""
    counts = Counter(labels.tolist())
    order = []
    while any(counts.values()):
        for label, left in counts.items():
            order += [label] * min(size, left)
            counts[label] -= min(size, left)
    return np.array(order)


def buffered(labels, size, seed):
    """What a shuffle buffer of `size` rows makes of a table that is read once."""
    rng, buffer, order = np.random.default_rng(seed), list(labels[:size]), []
    for label in labels[size:]:
        at = rng.integers(size)
        order.append(buffer[at])
        buffer[at] = label
    return np.array(order + list(rng.permutation(buffer)))


def test_blocks_half_a_shuffle_and_a_shuffle_buffer_are_refused():
    half = len(SEARCH_R1) // 2
    mixed = shuffled(SEARCH_R1)
    assert refused({"source": blocks(SEARCH_R1, 2000)}) >= {("source", "run"), ("source", "window")}
    assert refused({"source": np.concatenate((mixed[:half], np.sort(mixed[half:])))}) >= {("source", "run")}
    assert refused({"source": buffered(SEARCH_R1, 1000, 0)}) >= {("source", "window")}


def test_hops_sorted_within_a_source_are_refused():
    source = shuffled(np.repeat(["a", "b"], 2000))
    hops = np.ones(4000, int)
    hops[source == "a"] = np.repeat([1, 2], 1000)
    by_hops = np.array([f"{one} {two}" for one, two in zip(source, hops, strict=True)])
    assert refused({"source": source, "source and hops": by_hops}) >= {("source and hops", "window")}
    assert not refused({"source": source})


def test_questions_that_stand_passage_by_passage_are_refused():
    passages = np.repeat(np.arange(240), 4)
    assert refused({"passage": passages}) >= {("passage", "neighbours")}
    assert not refused({"passage": shuffled(passages)})


def test_rows_without_a_label_are_left_out_and_places_are_the_tables():
    labels = np.full(400, None, object)
    labels[100:300:2] = np.repeat(["a", "b"], 50)
    run = of(labels, "run")
    assert (run.label, run.first_row, run.rows, run.count) == ("a", 100, 99, 50)
    assert run.refused


def test_one_label_and_no_rows_are_in_any_order():
    assert examine({"source": ["a"] * 50}, 1e-6) == []
    assert examine({"source": []}, 1e-6) == []


@given(
    counts=st.lists(st.integers(1, 400), min_size=2, max_size=6),
    seed=st.integers(0, 2**32 - 1),
)
def test_evenly_interleaved_rows_pass(counts, seed):
    labels = np.repeat(np.arange(len(counts)), counts)
    order = interleaved(labels, np.random.default_rng(seed))
    assert not refused({"source": labels[order]})


@given(labels=st.lists(st.sampled_from("abc"), max_size=80), false_alarm=st.floats(1e-9, 0.5))
def test_any_table_can_be_judged(labels, false_alarm):
    for one in examine({"source": labels}, false_alarm):
        assert 0 <= one.probability <= 1
        assert 0 <= one.first_row <= one.first_row + one.rows <= len(labels)


def false_alarms(shuffles: int, seed: int) -> int:
    """Fair shuffles that are refused at 1e-3, over tables of 20 to 20,000 rows and several mixtures.

    Of 10,000 fair shuffles 2 are refused, where at most 10 are to be expected:

        PYTHONPATH=tests/qa python -c "import test_shuffling; print(test_shuffling.false_alarms(10_000, 0))"
    """
    rng = np.random.default_rng(seed)
    alarms = 0
    for number in range(shuffles):
        rows = (20, 64, 257, 1000, 4000, 20_000)[number % 6]
        shares = ((0.5, 0.5), (0.9, 0.1), (0.6, 0.3, 0.1), (0.97, 0.03), (0.25,) * 4)[number % 5]
        source = rng.choice(len(shares), rows, p=shares)
        hops = source * 10 + rng.integers(1, 4, rows)
        passage = rng.integers(0, max(2, rows // (2 + number % 5)), rows)
        alarms += bool(refused({"source": source, "source and hops": hops, "passage": passage}, 1e-3))
    return alarms


@pytest.mark.slow
def test_fair_shuffles_are_seldom_refused():
    # At most 2 are expected; Poisson(2) exceeds 9 with a probability of 5e-5.
    assert false_alarms(2000, 0) <= 9
