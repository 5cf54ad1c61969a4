import json
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.qa.reading.answers import list_as_text

VALUE = st.none() | st.booleans() | st.integers() | st.floats(allow_infinity=False) | st.text(max_size=8)
TEXTS = st.recursive(st.text(), lambda inner: st.lists(inner, min_size=1), max_leaves=4).map(lambda value: [value])


@given(st.lists(VALUE) | TEXTS)
def test_a_list_as_python_or_json_writes_it(value):
    assert list_as_text(str(value))
    assert list_as_text(json.dumps(value))


@pytest.mark.parametrize(
    "text",
    [
        repr(np.array(["a b"], dtype=object)),
        str(np.array(["a", "b"])),
        str(np.array([1, 2])),
        str(np.array([1.5e-8])),
        "['Paris', nan]",
        "[nan, 'Paris']",
        "[None]",
        "[<NA>, 'a']",
        "('a',)",
        "{'target': ['a']}",
        "[{'text': 'a'}]",
        "np.array([1])",
    ],
)
def test_a_list_as_numpy_or_pandas_writes_it(text):
    assert list_as_text(text)


@pytest.mark.parametrize(
    "answer",
    [
        "[REC]",
        "[O.S. 6 January] 1835",
        "[1] and [2]",
        "[nothing]",
        "[Nanette]",
        "(2006\u201307)",
        "('Til) Kingdom Come",
        "f(x)",
        "{x}",
        "None",
        "1960",
        "Paris",
    ],
)
def test_an_answer_with_brackets_is_no_list(answer):
    assert not list_as_text(answer)


@pytest.mark.parametrize("inside", [" ", "1", "'", "1 ", ",", "[", "]", "'1", "None "])
def test_a_long_answer_takes_no_time(inside):
    began = time.perf_counter()
    list_as_text("[" + inside * 300_000 + "x]")
    list_as_text("['" + inside * 300_000 + "x]")
    # With a square in it: minutes.
    assert time.perf_counter() - began < 2
