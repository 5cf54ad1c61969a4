import re
from itertools import islice
from random import Random

import pytest

from tasks.agent.protocol import SearchR1
from tasks.qa import practice, world


def written(text: practice.Text, count: int = 500, seed: int = 1) -> list[str]:
    return list(islice(practice.documents(Random(seed), text), count))


@pytest.mark.parametrize("text", list(practice.TEXTS))
def test_one_seed_writes_the_same_documents(text):
    assert written(text) == written(text)
    assert written(text) != written(text, seed=2)
    assert len(set(written(text))) > 490


def test_repeats_are_short_and_say_a_name_again():
    for document in written("repeats"):
        assert len(document.split()) <= 20
        names = re.findall(r"\b[A-Z][a-z]{3}\b", document)
        assert max(names.count(name) for name in names) >= 2


def test_what_is_answered_or_searched_for_stands_above():
    turn = re.compile(r"<(?:answer|search)> (\w+) </")
    reading = written("reading")
    observed = [document for document in reading if document.startswith("<information>")]
    assert 0.5 < len(observed) / len(reading) < 0.8
    for document in observed:
        turns = list(turn.finditer(document))
        assert turns
        assert all(found[1] in document[: found.start()] for found in turns if found[1] not in ("yes", "no"))
    closings = [found[1] for document in observed for found in turn.finditer(document)]
    assert 0 < closings.count("yes") < closings.count("no")


def test_every_turn_parses_under_the_protocol():
    protocol = SearchR1()
    for text in practice.TEXTS:
        for document in written(text):
            for line in re.findall(r"<(?:answer|search)>.*?</(?:answer|search)>", document):
                assert protocol.action(line).kind in ("search", "answer")


def test_a_search_is_for_what_is_not_shown_yet():
    searched = 0
    for document in written("reading", 2000):
        above, _, below = document.partition("</information>")
        for query in re.findall(r"<search> (\w+) </search>", below):
            assert f"(Title: {query})" not in above
            searched += 1
    assert searched > 500


def test_every_syllable_is_practised_often():
    for text in practice.TEXTS:
        said = " ".join(written(text, 3000)).lower()
        assert min(said.count(syllable) for syllable in world.SYLLABLES) > 50
