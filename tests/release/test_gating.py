import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.release import gating
from tasks.release.expressions import COMPARISONS, SERIES_FUNCTIONS

STAGES = ("evaluate", "merge", "rl")
FIGURES = {
    "evaluate": {"comparisons": {"rl-sft": {"em": {"low": 0.02}}}, "slices": {"2-hop": {"em@1": 0.5}, "a b": 0.25}},
    "merge": {
        "max_logit_diff": 1e-6, "dtype": "float32", "same": True, "broken": float("nan"), "none": None, "zero": 0,
        "endless": float("inf"), "huge": 10**400, "large": 1e308,
    },
    "audit": {"unticked": 3},
}  # fmt: skip
STEPS = [{"a": 3.0, "b": 1.0}, {"a": 1.0}, {"a": 2.0, "b": float("nan"), "c": "x"}]


def verdict(expression, severity="error", steps=STEPS):
    return gating.check(gating.parse("name", expression, severity, STAGES), FIGURES, steps)


@pytest.mark.parametrize(
    ("expression", "value", "passed"),
    [
        ("evaluate.comparisons.rl-sft.em.low >= 0.0", 0.02, True),
        ("evaluate.comparisons.rl-sft.em.low > 0.02", 0.02, False),
        ("evaluate.slices.2-hop.em@1<.6", 0.5, True),
        ('evaluate.slices."a b" == 1/4', 0.25, True),
        ("merge.max_logit_diff <= 1.0e-5", 1e-6, True),
        ("merge.same == 1", 1.0, True),
        ("merge.same != 1", 1.0, False),
        ("audit.unticked == 0", 3.0, False),
        ('first(steps["a"]) >= 3', 3.0, True),
        ("last(steps['a']) >= 3", 2.0, False),
        ('min(steps["a"]) == 1', 1.0, True),
        ('max(steps["a"]) < 3', 3.0, False),
        ('mean(steps["a"]) == 2', 2.0, True),
        ('median(steps["a"]) == 2', 2.0, True),
        ('median(steps["a"][:2]) == 2', 2.0, True),  # (3 + 1) / 2
        ('std(steps["a"]) == std(steps["a"])', math.sqrt(2 / 3), True),  # of 3, 1, 2
        ('sum(steps["a"]) == 6', 6.0, True),
        ('count(steps["a"]) == 3', 3.0, True),
        ('count(steps["b"][:1]) == 1', 1.0, True),
        ('last(steps["b"][:1]) == 1', 1.0, True),  # the slice is of the steps that have the metric
        ('quantile(steps["a"], 0.75) == 2.5', 2.5, True),
        ('quantile(steps["a"], 1) == 3', 3.0, True),
        ('mean(steps["a"][-2:]) == 1.5', 1.5, True),
        ('first(steps["a"][::-1]) == 2', 2.0, True),
        ('abs(last(steps["a"]) - first(steps["a"])) == 1', 1.0, True),
        ("1 - merge.same == 0", 0.0, True),
        ("0 == 1 - merge.same", 0.0, True),
        ("2 - 1 - merge.same == 0", 0.0, True),
        ("2 + 2 * merge.same == 4", 4.0, True),
        ("8 / 2 / 2 * merge.same == 2", 2.0, True),
        ("-(merge.same + 1) == -2", -2.0, True),
    ],
)
def test_value_and_result(expression, value, passed):
    found = verdict(expression)
    assert found.value == pytest.approx(value, rel=1e-12)
    assert found.passed == passed


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("evaluate.models.rl.em >= -1", "there is no figure evaluate.models"),
        ("rl.x >= -1", "there is no figure rl"),
        ("merge.broken >= -1", "merge.broken is nan"),
        ("merge.broken != 0", "merge.broken is nan"),
        ("1 > merge.broken", "merge.broken is nan"),
        ("merge.endless > 1", "merge.endless is inf"),
        ("merge.endless - merge.endless == 0", "merge.endless is inf"),
        ("merge.huge > 1", "merge.huge is too large a number"),
        ("merge.large * 10 > 1", "merge.large * 10 is inf"),
        ("merge.large * 10 - merge.large * 10 == 0", "merge.large * 10 is inf"),
        ("merge.same / (merge.large * 10) < 1", "merge.large * 10 is inf"),
        ("merge.dtype >= -1", "merge.dtype is no number: 'float32'"),
        ("merge.none != 0", "merge.none is no number: None"),
        ("evaluate.comparisons != 0", "evaluate.comparisons is no number"),
        ("evaluate.comparisons.rl-sft.em.low.x != 0", "there is no figure evaluate.comparisons.rl-sft.em.low.x"),
        ("evaluate.slices.2-hop.em@1/2 > 0", "em@1/2 (spaces around - and / compute)"),
        ("merge.same / merge.zero > 0", "merge.same / merge.zero divides by zero"),
        ("merge.same / (merge.same - 1) > 0", "divides by zero"),
        ('last(steps["none"]) >= -1', "no step has the metric 'none'"),
        ('count(steps["none"]) == 0', "no step has the metric 'none'"),
        ('last(steps["a"][5:]) >= -1', 'steps["a"][5:] is empty'),
        ('count(steps["a"][5:]) == 0', 'steps["a"][5:] is empty'),
        ('min(steps["b"]) >= -1', "a step's 'b' is nan"),
        ('max(steps["b"]) != 7', "a step's 'b' is nan"),
        ('count(steps["b"]) == 2', "a step's 'b' is nan"),
        ('last(steps["c"]) >= -1', "a step's 'c' is no number: 'x'"),
        ("merge.broken > merge.none", "merge.broken is nan; merge.none is no number: None"),
    ],
)
@pytest.mark.parametrize("severity", ["error", "warning"])
def test_what_is_no_finite_number_never_passes(expression, reason, severity):
    found = verdict(expression, severity)
    assert not found.passed
    assert found.short_by is None
    assert None in (found.value, found.limit)
    assert reason in found.reason
    assert gating.decide([found]) == ("rejected" if severity == "error" else "released")


@pytest.mark.parametrize("steps", [[], [{}], [{"a": 1e308}, {"a": 1e308}]])
@pytest.mark.parametrize("function", SERIES_FUNCTIONS)
def test_no_function_lets_through_what_it_cannot_compute(function, steps):
    found = verdict(f'{function}(steps["a"]) != -1', steps=steps)
    assert found.passed == (found.value is not None)
    assert found.value is None or (len(steps) == 2 and math.isfinite(found.value))


@pytest.mark.parametrize(
    ("expression", "short_by", "reason"),
    [
        ("evaluate.slices.2-hop.em@1 >= 0.6", 0.1, "0.5 is not >= 0.6, short by 0.1"),
        ("evaluate.slices.2-hop.em@1 > 0.5", 0.0, "0.5 is not > 0.5"),
        ("evaluate.slices.2-hop.em@1 < 0.2", 0.3, "0.5 is not < 0.2, too much by 0.3"),
        ("0.6 <= evaluate.slices.2-hop.em@1", 0.1, "0.6 is not <= 0.5, too much by 0.1"),
        ("audit.unticked == 0", 3.0, "3 is not == 0, off by 3"),
        ("merge.same != 1", 0.0, "1 is not != 1"),
        ("evaluate.slices.2-hop.em@1 >= 0.50000001", 1e-8, "0.5 is not >= 0.50000001, short by 1e-08"),
        ("merge.large < -1e308", None, "1e+308 is not < -1e+308, too much by inf"),
    ],
)
def test_what_fails_says_by_how_much(expression, short_by, reason):
    found = verdict(expression)
    assert found.reason == reason
    assert found.short_by == (None if short_by is None else pytest.approx(short_by))
    json.dumps(found.plain(), allow_nan=False)


def test_a_verdict_has_the_keys_that_other_tools_read():
    threshold = "evaluate.slices.2-hop.em@1 >= 0.6"
    assert verdict(threshold, "warning").plain() == {
        "name": "name",
        "expression": threshold,
        "value": 0.5,
        "limit": 0.6,
        "passed": False,
        "severity": "warning",
        "short_by": pytest.approx(0.1),
        "reason": "0.5 is not >= 0.6, short by 0.1",
    }


def test_what_is_no_expression_names_its_key():
    with pytest.raises(InputError, match=r"gate\.checks\.name: 'merge\.x', column 8"):
        gating.parse("name", "merge.x", "error", STAGES)


@pytest.mark.parametrize("name", ["", "ü", "a,b", "a/b", "../a", "-a", "a\n", "[b]a[/b]", "a" * 101])
def test_a_name_that_mlflow_would_refuse_is_refused(name):
    with pytest.raises(InputError, match=r"^gate\.checks: no name for a check: ") as caught:
        gating.parse(name, "merge.x > 0", "error", STAGES)
    assert "\n" not in str(caught.value)
    assert gating.parse("a-b c.d_2", "merge.x > 0", "error", STAGES).name == "a-b c.d_2"


def test_a_threshold_knows_whose_figures_it_reads():
    threshold = gating.parse("name", "abs(audit.hacks - 1) / merge.x < 1", "error", STAGES)
    assert threshold.reads("audit") and threshold.reads("merge") and not threshold.reads("evaluate")
    assert not gating.parse("name", 'last(steps["audit"]) < 1', "error", STAGES).reads("audit")


def test_warning_never_rejects_and_error_does():
    good, warning = verdict("merge.same == 1"), verdict("merge.same == 0", "warning")
    assert gating.decide([good, warning]) == "released"
    assert gating.decide([good, verdict("merge.same == 0")]) == "rejected"


def test_the_language_and_what_computes_it_have_the_same_words():
    assert tuple(gating.REDUCE) == SERIES_FUNCTIONS
    assert set(gating.COMPARE) == set(COMPARISONS)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1))
def test_a_quantile_is_numpys(series, share):
    steps = [{"a": value} for value in series]
    found = verdict(f'quantile(steps["a"], {share!r}) > 0', steps=steps)
    assert found.value == pytest.approx(np.quantile(series, share), rel=1e-9, abs=1e-6)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(COMPARISONS))
def test_numbers_are_read_as_python_writes_them(number, sign):
    found = verdict(f"merge.same {sign} {number!r}")
    assert found.limit == number
    assert found.passed == gating.COMPARE[sign](1.0, number)
