import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from tasks.qa.near import Pair, Texts, duplicates, held_out_pairs
from tasks.qa.words import changes_allowed, differing

ROOT = Path(__file__).parents[2]


def texts(*questions: str | tuple) -> Texts:
    """Questions, or (question, answers, golds)."""
    whole = [(one, ["x"], []) if isinstance(one, str) else (*one, *[["x"], []][len(one) - 1 :]) for one in questions]
    return Texts(*([one[column] for one in whole] for column in range(3)))


@pytest.mark.parametrize(
    ("planted", "form"),
    [
        ("Who wrote the novel Emma?", "same"),
        ("WHO WROTE THE NOVEL EMMA?", "normalised"),
        ("who wrote novel, Emma", "normalised"),
        ("Who wrote the novel “Emma”?", "normalised"),
        ("Who penned the novel Emma?", "near"),
        ("Who wrote the great novel Emma?", "near"),
        ("Who wrote Emma?", "near"),
        ("Who might have penned the novel Emma?", None),  # four words apart
        ("Who read the poem Emma?", None),  # two words apart
    ],
)
def test_each_form_of_a_planted_question_is_found(planted, form):
    held = texts("Where is Bath?", "Who wrote the novel Emma?")
    train = texts("What is a novel by anyone?", planted, "Where is Rome found?")
    found = held_out_pairs(train, held)
    assert found == ([Pair(1, 1, form)] if form else [])


def test_words_apart_that_are_allowed():
    # One word in eight, but one from three words on, and three at the most.
    assert [changes_allowed(n) for n in (0, 2, 3, 15, 16, 23, 24, 80)] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_what_is_found_does_not_depend_on_how_a_process_hashes_texts():
    program = """
from tasks.qa.near import Texts, duplicates, held_out_pairs
answers = [["a", "b", "c"], ["a"], ["b", "a"], ["c", "b"]]
questions = ["who wrote x", "who wrote y", "who wrote z", "who penned x"]
train, held = Texts(questions, answers, [["1"]] * 4), Texts(questions[::-1], answers, [["1"]] * 4)
near = Texts(["who made " + one[-1] for one in questions], answers, [["1"]] * 4)
print(duplicates(train), held_out_pairs(train, held), held_out_pairs(near, held))
"""
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in range(4)
    }
    assert len(said) == 1
    assert "near" in said.pop()


def test_words_that_differ():
    assert differing(["who", "wrote", "emma"], ["who", "penned", "emma", "now"]) == {"wrote", "penned", "now"}
    assert differing(["a"], ["a"]) == set()


def test_another_answer_or_other_gold_passages_make_another_question():
    one = ("Who employs Karo?", ["Dunel"], ["1"])
    assert duplicates(texts(one, ("Who employs Mila?", ["Dunel"], ["2"]))) == []
    assert duplicates(texts(one, ("Who employs Mila?", ["Sato"], ["1"]))) == []
    assert duplicates(texts(one, ("Who hired Karo?", ["dunel", "Sato"], ["1"]))) == [Pair(1, 0, "near")]


def test_within_a_split_and_without_gold_passages_only_frequent_words_may_differ():
    template = "What is the {} of the city where {} was born?"
    filling = [(template.format(what, name), [what + name], []) for what in ("mayor", "size") for name in "bcdef"]
    one, other_word = (template.format("mayor", "Karo"), ["x"], []), (template.format("size", "Karo"), ["X"], [])
    other_name = (template.format("mayor", "Mila"), ["x"], [])
    # "mayor" and "size" are each in five questions and more, "Karo" and "Mila" are not.
    assert duplicates(texts(*filling, one, other_word)) == [Pair(11, 10, "near")]
    assert duplicates(texts(*filling, one, other_name)) == []
    assert duplicates(texts(*filling[1:], one, other_word)) == [Pair(10, 9, "near")]
    assert duplicates(texts(*filling[2:], one, other_word)) == []  # four "mayor"
    assert held_out_pairs(texts(other_name), texts(one)) == [Pair(0, 0, "near")]


def test_yes_and_no_need_gold_passages_within_a_split_alone():
    asked = [("Is Karo a city?", ["yes"], []), ("Is Mila a city?", ["Yes"], [])]
    assert duplicates(texts(*asked)) == []
    assert held_out_pairs(texts(asked[0]), texts(asked[1])) == [Pair(0, 0, "near")]
    with_gold = [(question, answers, ["1", "2"]) for question, answers, _ in asked]
    assert duplicates(texts(*with_gold)) == [Pair(1, 0, "near")]
    assert duplicates(texts(asked[0], with_gold[1])) == []


def test_one_word_apart_with_another_answer_is_similar_unless_it_is_a_template():
    held = texts(("Who painted the ceiling of Karo?", ["Dunel"]))
    assert held_out_pairs(texts(("Who cleaned the ceiling of Karo?", ["Sato"])), held) == [Pair(0, 0, "similar")]
    longer = texts(("Who painted the high ceiling of Karo?", ["Sato"]), ("Who painted the ceiling?", ["Sato"]))
    assert held_out_pairs(longer, held) == [Pair(0, 0, "similar")]  # the other is two words shorter
    shorter = texts(("Who painted ceiling of?", ["Sato"]))
    assert held_out_pairs(shorter, held) == [Pair(0, 0, "similar")]
    many = [(f"Who {verb} the ceiling of Karo?", ["Sato"]) for verb in ("cleaned", "saw", "sold", "made")]
    assert held_out_pairs(texts(*many[:3]), held) == [Pair(n, 0, "similar") for n in range(3)]
    assert held_out_pairs(texts(*many), held) == []


def test_texts_without_words_are_equal_to_themselves_alone():
    assert held_out_pairs(texts("The?", "A"), texts("the", "An")) == []
    assert held_out_pairs(texts("The?"), texts("The?")) == [Pair(0, 0, "same")]


def test_no_rows():
    assert held_out_pairs(Texts([], [], []), texts("Who?")) == []
    assert duplicates(Texts([], [], [])) == []


_SENTENCES = st.lists(st.lists(st.sampled_from("bcdef"), min_size=1, max_size=26).map(" ".join), max_size=12)


@given(left=_SENTENCES, right=_SENTENCES)
def test_no_pair_that_is_near_is_missed(left, right):
    """The index finds a row wherever comparing every pair does."""

    def near(one: str, two: str) -> bool:
        words = one.split(), two.split()
        return Levenshtein.distance(*words) <= changes_allowed(max(map(len, words)))

    pairs = {pair.row: pair.other for pair in held_out_pairs(texts(*left), texts(*right)) if pair.form != "similar"}
    expected = {row for (row, one), two in product(enumerate(left), right) if near(one, two) or one == two}
    assert set(pairs) == expected
    assert all(near(left[row], right[other]) for row, other in pairs.items())


@given(words=st.lists(st.text("bcdfghjk", min_size=2, max_size=5), min_size=3, max_size=60), data=st.data())
def test_any_one_word_may_be_changed(words, data):
    question = " ".join(words)
    place = data.draw(st.integers(0, len(words) - 1))
    change = data.draw(st.sampled_from(["replace", "remove", "insert"]))
    other = {
        "replace": [*words[:place], "zz", *words[place + 1 :]],
        "remove": [*words[:place], *words[place + 1 :]],
        "insert": [*words[:place], "zz", *words[place:]],
    }[change]
    (pair,) = held_out_pairs(texts("nothing else here", " ".join(other)), texts("who is it", question))
    assert (pair.row, pair.other) == (1, 1)
    assert pair.form in ("near", "normalised", "same")
