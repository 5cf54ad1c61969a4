import itertools
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.qa import world
from tasks.qa.records import SPLITS

PEOPLE = {"train": 60, "validation": 12, "test": 20}
QUESTIONS = {"train": 100, "validation": 12, "test": 30}
KINDS = {"one-hop": 0.5, "two-hop": 0.3, "comparison": 0.2}


@pytest.fixture(scope="module")
def made():
    return world.generate(3, PEOPLE, QUESTIONS, KINDS)


def syllables(name: str) -> list[str]:
    return re.findall(r"[bcdfghjklmnpqrstvwxyz]*[aeiou]", name.lower())


def test_a_syllable_is_a_consonant_and_a_vowel():
    assert len(set(world.SYLLABLES)) == 80
    assert all(re.fullmatch(r"[bcdfghjklmnpqrstvwxyz][aeiou]", syllable) for syllable in world.SYLLABLES)


def test_names_are_one_capitalised_word_of_two_syllables(made):
    for title in (passage.title for passage in made.passages):
        assert title == title.lower().capitalize()
        assert "".join(syllables(title)) == title.lower()
        assert set(syllables(title)) <= set(world.SYLLABLES)
        assert len(syllables(title)) == 2


def test_a_large_world_has_names_of_three_syllables():
    most = len(world.names(2)) - world.SPARE
    for count, length in ((most, 4), (most + 1, 6)):
        names = world._draw_names(random.Random(0), count)
        assert len(set(names)) == count
        assert {len(name) for name in names} == {length}
        assert "Same" not in names


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(), count=st.integers(1, 3000))
def test_no_name_is_the_beginning_of_another(seed, count):
    names = sorted(world._draw_names(random.Random(seed), count))
    assert len(set(names)) == count
    # In sorted order the names that begin with a name follow it at once.
    assert not any(later.startswith(name) for name, later in itertools.pairwise(names))


def test_no_name_is_a_word_of_the_texts(made):
    words = {word for passage in made.passages for word in re.findall(r"[a-z]+", passage.text) if word.islower()}
    words |= {word for q in made.questions["train"] for word in re.findall(r"\b[a-z]+\b", q.question)}
    assert not {passage.title.lower() for passage in made.passages} & words


def test_no_name_of_one_split_occurs_in_another(made):
    text = {passage.id: passage.text for passage in made.passages}
    seen = {}
    for split in SPLITS:
        questions = made.questions[split]
        read = " ".join(text[i] for q in questions for i in q.gold_passage_ids) + " ".join(
            q.question for q in questions
        )
        seen[split] = set(re.findall(r"[A-Z][a-z]+", read)) - {"Where", "Who", "Which", "Were"}
    assert not seen["train"] & seen["test"]
    assert not seen["train"] & seen["validation"]
    assert not seen["validation"] & seen["test"]


def test_every_answer_is_reached_by_reading_the_gold_passages_in_order(made):
    passages = {passage.id: passage for passage in made.passages}
    for split in SPLITS:
        for question in made.questions[split]:
            gold = [passages[identity] for identity in question.gold_passage_ids]
            assert tuple(passage.title for passage in gold) == question.supporting_titles
            assert gold[0].title in question.question
            if question.data_source == "world-comparison":
                one, other = (re.search(r"born in (\w+)\.", passage.text)[1] for passage in gold)
                assert question.golden_answers == ("yes" if one == other else "no",)
                assert question.hops == 2
                continue
            assert question.hops == len(gold) == {"world-one-hop": 1, "world-two-hop": 2}[question.data_source]
            for earlier, later in itertools.pairwise(gold):
                assert later.title in earlier.text
            assert question.golden_answers[0] in gold[-1].text
            assert question.golden_answers[0] not in question.question


def test_kinds_are_apportioned_and_comparisons_are_balanced(made):
    for split, total in QUESTIONS.items():
        names = [question.data_source.removeprefix("world-") for question in made.questions[split]]
        assert {kind: names.count(kind) for kind in KINDS} == world.apportion(total, KINDS)
        answers = [q.golden_answers[0] for q in made.questions[split] if q.data_source == "world-comparison"]
        assert answers.count("yes") == len(answers) // 2


def test_apportion_by_largest_remainder():
    # 10 * (.5, .36, .14) = 5, 3.6, 1.4: the one left over goes to .6.
    assert world.apportion(10, {"one-hop": 0.5, "two-hop": 0.36, "comparison": 0.14}) == {
        "one-hop": 5,
        "two-hop": 4,
        "comparison": 1,
    }
    with pytest.raises(InputError, match=r"sum to 0\.9"):
        world.apportion(10, {"one-hop": 0.5, "two-hop": 0.4})


def test_one_seed_makes_one_world(made):
    assert world.generate(3, PEOPLE, QUESTIONS, KINDS) == made
    assert world.generate(4, PEOPLE, QUESTIONS, KINDS) != made


def test_more_than_the_people_give_is_refused():
    few = {"train": 5, "validation": 5, "test": 5}
    with pytest.raises(InputError, match=r"11 one-hop questions .* at most 10"):
        world.generate(0, few, {"train": 11, "validation": 1, "test": 1}, {"one-hop": 1.0})
    with pytest.raises(InputError, match="500 comparison questions"):
        world.generate(0, few, {"train": 500, "validation": 1, "test": 1}, {"comparison": 1.0})
    with pytest.raises(InputError, match=f"its syllables give {world.CAPACITY}"):
        world.generate(0, {**few, "train": 400000}, {"train": 1, "validation": 1, "test": 1}, {"one-hop": 1.0})
