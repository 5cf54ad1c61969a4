"""The language of the gate's expressions: what is read, what is refused and where, and that nothing is executed."""

import builtins
import os
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.release import parsing
from tasks.release.expressions import (
    COMPARISONS,
    SERIES_FUNCTIONS,
    Call,
    Comparison,
    Figure,
    Negation,
    Number,
    Operation,
    Series,
)

ROOTS = ("evaluate", "index", "merge", "rl", "audit")


def parse(text):
    return parsing.parse(text, roots=ROOTS, where="gate.checks.name")


# Expression, and how it prints where that differs.
READ = [
    ("evaluate.comparisons.rl-sft.em.low >= 0.0", "evaluate.comparisons.rl-sft.em.low >= 0"),
    ("evaluate.comparisons.rl-sft.em.low > 0", None),
    ("index.recall.bm25.world-one-hop.3 == 1", None),
    ("evaluate.slices.2-hop.em@1<.6", "evaluate.slices.2-hop.em@1 < 0.6"),
    ('evaluate.slices.rl."source-a b".em.mean >= 0.5', None),
    ("evaluate.slices.rl.'source-a b'.em.mean >= 0.5", 'evaluate.slices.rl."source-a b".em.mean >= 0.5'),
    ('evaluate."it\'s".x > 1', None),
    ("evaluate.'say \"no\"'.x > 1", None),
    ("evaluate.出典.x > 1", None),
    ("merge.max_logit_diff <= 1.0e-5", "merge.max_logit_diff <= 1e-05"),
    ("  merge.x\n>= 1\t", "merge.x >= 1"),
    ("merge.x >= -1", None),
    ("merge.x >= +1", "merge.x >= 1"),
    ("merge.x != --1", None),
    ("merge.x == 1E3", "merge.x == 1000"),
    ("merge.x == 5.", "merge.x == 5"),
    ('last(steps["actor/entropy"]) >= 0.01', None),
    ("last(steps['actor/entropy']) >= 0.01", 'last(steps["actor/entropy"]) >= 0.01'),
    ('median(steps["rollout_corr/kl"][-20:]) < .05', 'median(steps["rollout_corr/kl"][-20:]) < 0.05'),
    ('first(steps["a"][:5]) > 0', None),
    ('std(steps["a"][2:-2]) > 0', None),
    ('sum(steps["a"][::2]) > 0', None),
    ('count(steps["a"][:]) > 0', None),
    ('min( steps [ "a" ] [ -3 : -1 : 1 ] ) > 0', 'min(steps["a"][-3:-1:1]) > 0'),
    ('quantile(steps["a"], .9) < 1', 'quantile(steps["a"], 0.9) < 1'),
    ("abs(rl.x - rl.y) < 1", None),
    ("1 - rl.groups_without_signal > 0.5", None),
    ("0.5 < 1 - rl.groups_without_signal", None),
    ("evaluate.models.rl.em.low >= evaluate.models.sft.em.high", None),
    ("rl.a-1 > 0", None),  # a figure by the name of `a-1`
    ("rl.a -1 > 0", "rl.a - 1 > 0"),
    ("rl.a/rl.b > 0", None),  # the figure `a/rl` has a part `b`
    ("rl.a / rl.b > 0", None),
    ("rl.a - (rl.b - rl.c) > 0", None),
    ("(rl.a - rl.b) - rl.c > 0", "rl.a - rl.b - rl.c > 0"),
    ("rl.a + rl.b * rl.c > 0", None),
    ("(rl.a + rl.b) * rl.c > 0", None),
    ("rl.a / (rl.b * rl.c) > 0", None),
    ("-(rl.a + 1) < 0", None),
    ("-rl.a * 2 < 0", None),
    ('mean(steps["a"][-20:]) * mean(steps["b"][-20:]) < 5', None),
    ("((((rl.a)))) > (0)", "rl.a > 0"),
    ("audit.hacks / audit.ticked <= 0.05", None),
]


@pytest.mark.parametrize(("text", "printed"), READ)
def test_what_is_read_prints_back(text, printed):
    assert str(parse(text)) == (printed or text)
    assert parse(str(parse(text))) == parse(text)


# Expression, the column that is named, and words of the reason.
REFUSED = [
    ("", 1, "expected a number, a figure or a function, got the end"),
    ("merge", 1, "merge is no figure"),
    ("merge.x", 8, "expected a comparison"),
    ("merge.x >= ", 12, "got the end"),
    ("merge.x => 1", 9, "'=' means nothing here; equal is =="),
    ("merge.x = 1", 9, "'=' means nothing"),
    ("merge.x >= 1 or 1", 14, "expected + - * / or the end, got 'or'"),
    ("merge.x >= 1 >= 0", 14, "a second comparison"),
    ("merge..x >= 1", 6, "'.' means nothing"),
    ("merge.x >= y", 12, "the gate reads no stage 'y'"),
    ("mergo.x >= 1", 1, "did you mean 'merge'?"),
    ("sft.x >= 1", 1, "use one of evaluate, index, merge, rl, audit"),
    ("1 < 2", 1, "the expression reads no figure"),
    ("__import__('os') >= 1", 1, "unknown function '__import__'"),
    ("__import__('os').system('true') >= 1", 1, "unknown function '__import__'"),
    ("eval(\"1\") > 0", 1, "unknown function 'eval'"),
    ("rl.x.__class__() > 0", 1, "unknown function 'rl.x.__class__'"),
    ("lambda: rl.x > 0", 1, "the gate reads no stage 'lambda'"),
    ("rl.x if 1 else 0", 6, "expected a comparison"),
    ("rl.x ** 2 > 1", 7, "expected a number, a figure or a function, got '*'"),
    ("rl.x[0] > 1", 5, "expected a comparison"),
    ("rl.x > 1; rl.y > 2", 9, "';' means nothing"),
    ("rl.x > 1e999", 8, "too large"),
    ("rl.x > 1x", 9, "got 'x'"),
    ("rl.x > 0x10", 9, "got 'x10'"),
    ("rl.x > nan", 8, "no stage 'nan'"),
    ("(rl.x > 1", 7, "expected ')', got '>'"),
    ("rl.x) > 1", 5, "got ')'"),
    ("rl.\"x > 1", 3, "'.' means nothing"),
    ('steps["a"] > 1', 1, "a series is no number"),
    ('2 * steps["a"] > 1', 5, "a series is no number"),
    ('abs(steps["a"]) > 1', 5, "a series is no number"),
    ("last(rl.x) > 1", 6, "expected a series for last"),
    ("last(1) > 1", 6, "expected a series for last"),
    ("last() > 1", 6, "got ')'"),
    ('last(steps["a"] > 1', 17, "expected ')', got '>'"),
    ("last(steps[a]) > 1", 12, "expected a metric's name in quotes, got 'a'"),
    ('last(steps["a"][-1]) > 1', 19, "expected ':' of a slice"),
    ('last(steps["a"][1.5:]) > 1', 17, "expected a whole number, got '1.5'"),
    ('last(steps["a"][::0]) > 1', 19, "a slice's step is 0"),
    ('last(steps["a"][rl.x:]) > 1', 17, "expected ':' of a slice"),
    ('last(steps["a"], 1) > 1', 16, "expected ')', got ','"),
    ('quantile(steps["a"]) > 1', 20, "expected ','"),
    ('quantile(steps["a"], 90) > 1', 22, "between 0 and 1"),
    ('mode(steps["a"]) > 1', 1, "use first, last, min, max, mean, median, std, sum, count, quantile, abs"),
    ("rl.x > " + "(" * 40 + "1" + ")" * 40, 40, "nested deeper than 32"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "column", "words"), REFUSED)
def test_what_is_refused_names_the_column(text, column, words):
    with pytest.raises(InputError) as caught:
        parse(text)
    said = str(caught.value)
    assert said.startswith(f"gate.checks.name: {text!r}, column {column}: ")
    assert words in said
    assert "\n" not in said


def test_there_are_more_than_forty_of_each():
    assert len(READ) > 40 and len(REFUSED) > 40


def test_what_is_too_long_is_refused_and_what_is_just_not_is_read():
    with pytest.raises(InputError, match=r"gate\.checks\.name: an expression of 1000000 characters; at most 500"):
        parse("1" * 1_000_000)
    chain = "rl.x > 1" + "+1" * 246
    assert len(chain) == 500
    assert parse(str(parse(chain[:250]))) == parse(chain[:250])
    for text in (chain, chain.replace("+", "-"), "rl.x > " + "-" * 31 + "1"):
        assert str(parse(text)).startswith("rl.x > ")


WORDS = ["rl", "rl.x", "evaluate.a-b", "steps", '["a"]', "[-20:]", *SERIES_FUNCTIONS, "abs", "quantile", ">=", "=="]
OTHERS = [*"+-*/()[]:,<>=!.'\" \n\0é", "1", "0.5", "1e9", "__import__", "os", "lambda", "eval", "exec", "open", "x"]
LANGUAGE = st.lists(st.sampled_from(WORDS + OTHERS), max_size=60).map("".join)


@given(st.text(max_size=80) | LANGUAGE | st.binary(max_size=80).map(lambda raw: raw.decode("latin-1")))
@settings(max_examples=1000)
def test_any_text_is_read_or_refused_and_nothing_is_executed(text):
    def ran(*arguments, **more):
        raise AssertionError(f"executed: {arguments}")

    with pytest.MonkeyPatch.context() as patch:
        for place, name in ((builtins, "eval"), (builtins, "exec"), (builtins, "compile"), (builtins, "open"),
                            (os, "system"), (subprocess, "Popen")):  # fmt: skip
            patch.setattr(place, name, ran)
        try:
            found = parse(text)
        except InputError:
            return
        assert parse(str(found)) == found


PARTS = st.text(st.characters(exclude_characters='"\n', exclude_categories=["Cs"]), max_size=8)
FIGURES = st.builds(
    lambda root, parts: Figure((root, *parts)), st.sampled_from(ROOTS), st.lists(PARTS, min_size=1, max_size=4)
)
ENDS = st.none() | st.integers(-(10**6), 10**6)
SERIES = st.builds(Series, PARTS, st.none() | st.tuples(ENDS, ENDS, ENDS.filter(lambda step: step != 0)))
SHARES = st.floats(0, 1)
LEAVES = (
    FIGURES
    | st.builds(Number, st.floats(0, allow_nan=False, allow_infinity=False))
    | st.builds(Call, st.sampled_from(SERIES_FUNCTIONS), SERIES)
    | st.builds(Call, st.just("quantile"), SERIES, SHARES)
)
TREES = st.recursive(
    LEAVES,
    lambda below: (
        st.builds(Operation, st.sampled_from("+-*/"), below, below)
        | st.builds(Negation, below)
        | st.builds(Call, st.just("abs"), below)
    ),
    max_leaves=6,
)


@given(st.builds(Comparison, st.sampled_from(COMPARISONS), FIGURES, TREES))
def test_every_tree_prints_as_text_that_reads_as_the_same_tree(tree):
    if len(str(tree)) <= parsing.LONGEST:
        assert parse(str(tree)) == tree
