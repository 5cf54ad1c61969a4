from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tasks.agent.protocols import SearchR1
from tasks.qa.world import SYLLABLES
from tasks.training.tokenizer import END, PAD, START, frequent_words, train_tokenizer

TAGS = SearchR1().tokens
TEXT = st.text(st.characters(exclude_categories=["Cs"]))  # a lone surrogate is no text
PARTS = st.lists(TEXT | st.sampled_from([*TAGS, END, START, PAD, " ", "\r\n"])).map("".join)


@given(PARTS)
@example("Kashi's  café\n\t№ 12, 東京 🙂")
@example("sh shh XYZ Qx 1a2")
def test_any_text_comes_back(tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


@pytest.mark.parametrize("mark", [*TAGS, END, START, PAD])
def test_every_mark_is_one_token_wherever_it_stands(tokenizer, mark: str) -> None:
    identity = tokenizer.convert_tokens_to_ids(mark)
    for text in (mark, f"a{mark}b", f" {mark} ", f"\n{mark}\n"):
        assert tokenizer.encode(text).count(identity) == 1


def test_tags_survive_decoding_and_the_end_does_not(tokenizer) -> None:
    ids = tokenizer.encode(f"<search> a </search>{END}")
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<search> a </search>"
    assert tokenizer.eos_token == END and tokenizer.pad_token == PAD
    assert tokenizer.eos_token_id != tokenizer.pad_token_id


def unseen_names() -> Iterator[list[str]]:
    rng = Random(7)
    while True:
        yield rng.choices(SYLLABLES, k=rng.choice((2, 3)))


def test_a_name_is_one_token_a_syllable(tokenizer) -> None:
    for syllables in islice(unseen_names(), 300):
        name = "".join(syllables).capitalize()
        ids = tokenizer.encode(f" {name}")
        assert [tokenizer.decode([token]).strip().lower() for token in ids] == syllables


def test_a_name_is_the_same_tokens_in_a_passage_and_in_a_query(tokenizer) -> None:
    name = tokenizer.encode(" Kashi")
    for text in ("<search> Kashi </search>", "Doc 1 (Title: Kashi) Kashi is", "Where was Kashi born?"):
        ids = tokenizer.encode(text)
        assert any(ids[i : i + len(name)] == name for i in range(len(ids))), text


def test_vocabulary_has_its_size_and_no_token_crosses_a_syllable(tokenizer) -> None:
    assert len(tokenizer) <= 512
    assert len(tokenizer) == max(tokenizer.get_vocab().values()) + 1
    texts = {tokenizer.decode([token]).strip().lower() for token in range(len(tokenizer))}
    assert texts >= set(SYLLABLES)
    assert not texts & {one + other for one in SYLLABLES for other in SYLLABLES}


def test_training_twice_gives_the_same_tokenizer(world_texts) -> None:
    one, other = (train_tokenizer(world_texts, 400, TAGS) for _ in range(2))
    assert one.backend_tokenizer.to_str() == other.backend_tokenizer.to_str()


def test_frequent_words_are_those_of_many_texts() -> None:
    texts = ["Karo was born", "Vemo was born", "was was was", "a Lumi"]
    assert frequent_words(texts, 0.5) == ["born", "was"]
    assert frequent_words(texts, 0.8) == []


def test_words_asked_for_are_one_token_and_names_stay_in_syllables(world_texts) -> None:
    words = frequent_words(world_texts, 0.05)
    assert {"Where", "was", "born", "city"} <= set(words)
    trained = train_tokenizer(world_texts, 640, TAGS, words)
    for text in (" Where", "Where", " was", " born", " city"):
        assert len(trained.encode(text)) == 1, text
    # `was` is no beginning of a name that goes on.
    assert len(trained.encode(" Kasu")) == 2 and len(trained.encode(" wasu")) > 1
    assert trained.decode(trained.encode("Where was Kasu born?")) == "Where was Kasu born?"
