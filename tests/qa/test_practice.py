import re
from itertools import islice
from random import Random

import pytest

from tasks.agent import protocols
from tasks.agent.protocols import Protocol, SearchR1
from tasks.qa import practice, world
from tasks.training.tokenizer import END, START, message

SEARCH_R1 = SearchR1()
TAKEN = {"Kasu", "Rolo", "Reme"}
NAMES = practice.spare_names(TAKEN)


def written(text: practice.Text, count: int = 500, seed: int = 1, protocol: Protocol = SEARCH_R1) -> list[str]:
    return list(islice(practice.Practice(Random(seed), NAMES, protocol, message).documents(text), count))


def test_no_name_of_the_corpus_is_practised():
    made = world.generate(
        0,
        {"train": 2000, "validation": 60, "test": 300},
        {"train": 10, "validation": 10, "test": 10},
        {"one-hop": 1.0},
    )
    titles = {passage.title for passage in made.passages}
    names = practice.spare_names(titles)
    assert len(names) >= world.SPARE and {len(name) for name in names} == {4}
    practised = practice.Practice(Random(0), names, SEARCH_R1, message)
    for text in practice.TEXTS:
        said = set(re.findall(r"\b[A-Z][a-z]{3}\b", " ".join(islice(practised.documents(text), 3000))))
        assert len(said & set(names)) > 1500
        assert not said & titles


def test_practice_names_are_as_long_as_the_worlds():
    assert {len(name) for name in NAMES} == {len(name) for name in practice.spare_names(())} == {4}
    assert {len(name) for name in practice.spare_names({"Kasuro"})} == {6}
    assert not TAKEN & set(NAMES)


@pytest.mark.parametrize("text", list(practice.TEXTS))
def test_one_seed_writes_the_same_documents(text):
    assert written(text) == written(text)
    assert written(text) != written(text, seed=2)
    assert len(set(written(text))) > 490


@pytest.mark.parametrize(("text", "words"), [("repeats", 20), ("reading", 120)])
def test_documents_are_as_short_as_promised(text, words):
    assert words / 2 < max(len(document.split()) for document in written(text, 3000)) <= words


def test_repeats_say_a_name_again():
    for document in written("repeats"):
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
    for text in practice.TEXTS:
        for document in written(text):
            for line in re.findall(r"<(?:answer|search)>.*?</(?:answer|search)>", document):
                assert SEARCH_R1.action(line).kind in ("calls", "answer")


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


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_tool_calls_are_practised_in_the_frames_of_the_chat(name):
    protocol = protocols.create(name, ["search"])
    roles, kinds = set(), set()
    for document in written("reading", protocol=protocol):
        messages = re.findall(rf"{re.escape(START)}(\w+)\n(.*?){re.escape(END)}\n", document, re.DOTALL)
        if not document.startswith((f"{START}tool", f"{START}user")):
            continue  # mentions: names between turns
        assert document == "".join(message(role, content) for role, content in messages)
        roles |= {role for role, _ in messages}
        above = ""
        for role, content in messages:
            if role == "assistant":
                action = protocol.action(content)
                kinds.add(action.kind)
                if action.kind == "calls":
                    assert action.calls[0].arguments["query"] in above
            above += content
    assert roles == {"user", "assistant", "tool"} and kinds == {"calls", "answer"}


def test_facts_and_answers_name_the_passages_that_say_so():
    protocol = protocols.create("research", ["search"])
    cited = 0
    for document in written("reading", protocol=protocol):
        above, _, below = document.partition("</information>")
        said = dict(re.findall(r"\[(\d)\] \(Title: \w+\) (.*)\n", above))
        for fact in protocol.facts(below):
            assert fact.text in said[str(fact.sources[0])]
        for answer, numbers in map(protocol.citations, protocol.answers(below)):
            assert set(map(str, numbers)) <= set(said)
            if answer not in ("yes", "no"):
                assert any(answer in said[str(number)] for number in numbers)
            cited += len(numbers)
    assert cited > 200


def test_a_message_is_what_the_chat_template_writes(tokenizer):
    messages = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Ada"}]
    said = "".join(message(one["role"], one["content"]) for one in messages)
    assert said == tokenizer.apply_chat_template(messages, tokenize=False)
