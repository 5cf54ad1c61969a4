import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.release import gating

STAGES = ("evaluate", "merge", "rl")
FIGURES = {
    "evaluate": {"comparisons": {"rl-sft": {"em": {"low": 0.02}}}, "slices": {"2-hop": {"em@1": 0.5}}},
    "merge": {"max_logit_diff": 1e-6, "dtype": "float32", "same": True, "broken": float("nan")},
}
STEPS = [{"a": 3.0, "b": 1.0}, {"a": 1.0}, {"a": 2.0, "b": float("nan")}]


def verdict(expression, severity="error", steps=STEPS):
    return gating.check(gating.parse("name", expression, severity, STAGES), FIGURES, steps)


@pytest.mark.parametrize(
    ("expression", "value", "passed"),
    [
        ("evaluate.comparisons.rl-sft.em.low >= 0.0", 0.02, True),
        ("evaluate.comparisons.rl-sft.em.low > 0.02", 0.02, False),
        ("evaluate.slices.2-hop.em@1<.6", 0.5, True),
        ("merge.max_logit_diff <= 1.0e-5", 1e-6, True),
        ("merge.same == 1", 1.0, True),
        ("merge.same != 1", 1.0, False),
        ('first(steps["a"]) >= 3', 3.0, True),
        ("last(steps['a']) >= 3", 2.0, False),
        ('min(steps["a"]) == 1', 1.0, True),
        ('max(steps["a"]) < 3', 3.0, False),
        ('mean(steps["a"]) == 2', 2.0, True),
    ],
)
def test_value_and_result(expression, value, passed):
    found = verdict(expression)
    assert (found.value, found.passed) == (value, passed)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("evaluate.models.rl.em >= -1", "there is no figure evaluate.models"),
        ("merge.broken >= -1", "nan"),
        ("merge.dtype >= -1", "no number"),
        ("merge.broken != 0", "nan"),
        ('last(steps["none"]) >= -1', "no step has"),
        ('min(steps["b"]) >= -1', "nan"),
        ('max(steps["b"]) != 7', "nan"),
    ],
)
def test_missing_and_nan_never_pass(expression, reason):
    found = verdict(expression)
    assert not found.passed
    assert found.value is None
    assert reason in found.reason


@pytest.mark.parametrize(
    "expression",
    ["", "merge", "merge.x", "merge.x >= ", "merge.x => 1", "merge.x >= 1 or 1", "merge..x >= 1", "merge.x >= y",
     "__import__('os') >= 1", 'last(steps["a"]', 'last(steps[a]) > 1', "sft.x >= 1", 'median(steps["a"]) > 1'],
)  # fmt: skip
def test_what_is_no_expression_names_its_key(expression):
    with pytest.raises(InputError, match=r"gate\.checks\.name"):
        gating.parse("name", expression, "error", STAGES)


def test_warning_never_rejects_and_error_does():
    good, warning = verdict("merge.same == 1"), verdict("merge.same == 0", "warning")
    assert gating.decide([good, warning]) == "released"
    assert gating.decide([good, verdict("merge.same == 0")]) == "rejected"


@given(st.text(max_size=40))
def test_any_text_is_an_expression_or_wrong_input(text):
    try:
        threshold = gating.parse("name", text, "error", STAGES)
    except InputError:
        return
    assert threshold.path or threshold.metric


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(sorted(gating.OPERATORS)))
def test_numbers_are_read_as_python_writes_them(number, sign):
    threshold = gating.parse("name", f"merge.x {sign} {number!r}", "error", STAGES)
    assert threshold.number == number
    assert threshold.operator == sign
