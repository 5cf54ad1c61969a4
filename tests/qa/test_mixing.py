import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.agent.rewards import normalise
from tasks.errors import InputError
from tasks.qa.mixing import Source, check_questions, hold_out, merge_passages, mix
from tasks.qa.records import SPLITS, Passage, Question


def ask(text: str, identity: str | None = None, gold: tuple[str, ...] = ()) -> Question:
    return Question(identity or text, "s", text, ("a",), 1, (), gold, f"file, {text}")


def mixed(sources: list[Source], share: float = 0.0, shuffle: bool = False, seed: int = 0):
    return mix(sources, validation_share=share, shuffle=shuffle, seed=seed)


def texts(questions: list[Question]) -> list[str]:
    return [question.question for question in questions]


def test_equal_questions_are_kept_once_and_never_in_a_split_that_learns():
    one = Source("one", {"train": [ask("Who?"), ask("who"), ask("Where?"), ask("Why?")], "test": [ask("The Why")]})
    two = Source("two", {"train": [ask("WHO"), ask("Now?")], "validation": [ask("why!"), ask("where"), ask("When?")]})
    splits, dropped = mixed([one, two])
    assert texts(splits["test"]) == ["The Why"]
    assert texts(splits["validation"]) == ["where", "When?"]
    assert texts(splits["train"]) == ["Who?", "Now?"]
    assert dropped == {"duplicate": 2, "train_in_held_out": 2, "validation_in_test": 1}


def test_validation_is_drawn_only_where_a_source_brings_none():
    one = Source("one", {"train": [ask(f"one {n}") for n in range(20)]})
    two = Source("two", {"train": [ask(f"two {n}") for n in range(20)], "validation": [ask("own")]})
    splits, _ = mixed([one, two], share=0.25)
    drawn = texts(splits["validation"])
    assert len(drawn) == 6
    assert "own" in drawn
    assert not any(text.startswith("two") for text in drawn)
    assert sorted([*texts(splits["train"]), *drawn]) == sorted(
        [*texts(one.questions["train"]), *texts(two.questions["train"]), "own"]
    )
    assert mixed([one, two], share=0.25)[0] == splits
    assert mixed([one, two], share=0.25, seed=1)[0] != splits


def test_a_source_draws_the_same_whatever_stands_beside_it():
    one = Source("one", {"train": [ask(f"one {n}") for n in range(20)]})
    two = Source("two", {"train": [ask(f"two {n}") for n in range(20)]})
    alone = texts(mixed([one], share=0.25)[0]["validation"])
    assert alone == texts(mixed([two, one], share=0.25)[0]["validation"])[-5:]


def test_shuffling_is_seeded_and_otherwise_sources_stand_in_blocks():
    sources = [Source(name, {"train": [ask(f"{name} {n}") for n in range(50)]}) for name in ("a", "b")]
    blocks = texts(mixed(sources)[0]["train"])
    assert blocks == [f"{name} {n}" for name in "ab" for n in range(50)]
    shuffled = texts(mixed(sources, shuffle=True)[0]["train"])
    assert shuffled != blocks
    assert sorted(shuffled) == sorted(blocks)
    assert texts(mixed(sources, shuffle=True)[0]["train"]) == shuffled
    assert texts(mixed(sources, shuffle=True, seed=1)[0]["train"]) != shuffled


@settings(deadline=None)
@given(
    words=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(SPLITS), st.sampled_from("xy"))),
    share=st.floats(0, 1),
    seed=st.integers(),
)
def test_no_question_is_lost_or_in_two_splits(words, share, seed):
    sources = [
        Source(name, {split: [ask(word) for word, s, n in words if (s, n) == (split, name)] for split in SPLITS})
        for name in "xy"
    ]
    splits, dropped = mixed(sources, share=share, shuffle=True, seed=seed)
    kept = [normalise(question.question) for split in SPLITS for question in splits[split]]
    assert len(kept) == len(set(kept))
    assert set(kept) == {normalise(word) for word, _, _ in words}
    assert len(kept) + sum(dropped.values()) == len(words)


@given(count=st.integers(0, 50), share=st.floats(0, 1), seed=st.integers())
def test_hold_out_takes_the_share(count, share, seed):
    left, drawn = hold_out([ask(str(n)) for n in range(count)], share, random.Random(seed))
    assert len(drawn) == round(share * count)
    assert sorted(texts([*left, *drawn])) == sorted(str(n) for n in range(count))


def test_an_id_twice_and_a_lost_gold_passage_are_refused():
    with pytest.raises(InputError, match="file, b: question id 'a' comes twice; first at file, a"):
        check_questions([ask("a"), ask("b", "a")], set())
    with pytest.raises(InputError, match="file, a: question 'a': its gold passage '9' is not in the corpus"):
        check_questions([ask("a", gold=("1", "9"))], {"1"})


def test_passages_are_merged_unless_they_contradict():
    one, two = Passage("1", "t", "x"), Passage("2", "t", "y")
    assert merge_passages([[one], [one, two]]) == [one, two]
    with pytest.raises(InputError, match="different passages with the id '1'"):
        merge_passages([[one], [Passage("1", "t", "z")]])
