import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.agent.rewards import normalise
from tasks.qa.suite.answers import answer_fault, is_computed, looks_joined


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        (["Paris"], None),
        (["the", "The Hague"], None),
        (["[REC]"], None),
        (["('Til) Kingdom Come"], None),
        (["None"], None),  # see the survey
        (["none", "N/A", "(2006)", "(1, 2)", "[a]", "['Til] Dawn [1]x]", "null and void", "[sic], [1066]ad]"], None),
        (None, "no golden answer"),
        ([], "no golden answer"),
        (["Paris", None], "null among"),
        (["Paris", " "], "an empty"),
        (["['a', 'b']"], "a list written as text"),
        (['["Paris"]'], "a list written as text"),
        (["['a' 'b']"], "a list written as text"),
        (["('a',)"], "a list written as text"),
        (["{'target': ['a']}"], "a list written as text"),
        (["[]"], "a list written as text"),
        *[([text], "a list written as text") for text in ("[None]", "[nan]", "['Paris', nan]", "[nan, 'Paris']")],
        *[([text], "a list written as text") for text in ("[1, 2]", "[1 2]", "[1.5]", "['a',\n None]")],
        *[([text], "a list written as text") for text in ("array(['a b'], dtype=object)", "array([], dtype=object)")],
        *[(["Paris", text], "a missing value") for text in ("nan", "NaN", "NaT", "<NA>", "null", "NULL", " nan ")],
        (["the", "?!"], "unmatchable"),
    ],
)
def test_answer_faults(answers, fault):
    found = answer_fault(answers)
    assert found is None if fault is None else fault in found


@given(st.lists(st.text(), min_size=1))
def test_a_list_as_python_writes_it_is_never_an_answer(answers):
    assert answer_fault([str(answers)]) == "a list written as text"


@given(st.lists(st.text(max_size=8), max_size=3))
def test_answers_without_a_fault_can_be_matched(answers):
    if answer_fault(answers) is None:
        assert any(normalise(answer) for answer in answers)


@pytest.mark.parametrize(
    ("answers", "joined"),
    [
        (["Paris, France, Europe"], True),
        (["Paris;Lutetia;City of Light"], True),
        (["a|b|c"], True),
        (["Paris, Texas"], False),
        (["1,289,500"], False),
        (["Sea, Air, and Land"], False),
        (["Paris, France, Europe", "Paris"], False),
        (["It is, as far as we can tell, a list of long parts, not joined"], False),
        (["a,,b"], False),
        ([], False),
        (None, False),
        ([None], False),
    ],
)
def test_joined_answers(answers, joined):
    assert looks_joined(answers) is joined


def test_computed_answers():
    assert is_computed(["Yes"])
    assert is_computed(["1,289,500"])
    assert not is_computed(["12", "twelve"])
