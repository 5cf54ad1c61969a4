import copy
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.qa.corpus import Corpus
from tasks.qa.records import Passage

ROW = {
    "_id": "h1",
    "question": "Which country was Karo born in?",
    "answer": "Dorna",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Karo", 1], ["Velin", 0], ["Karo", 0], ["Velin", 7]],
    "context": [
        ["Other", ["Nothing. "]],
        ["Velin", ["Velin is in Dorna."]],
        ["Karo", ["Karo is a poet. ", " Born in Velin."]],
    ],
}
HUB = {
    "id": "h1",
    "question": ROW["question"],
    "answer": "Dorna",
    "supporting_facts": {"title": ["Karo", "Velin", "Karo"], "sent_id": [1, 0, 0]},
    "context": {
        "title": ["Other", "Velin", "Karo"],
        "sentences": [["Nothing. "], ["Velin is in Dorna."], ["Karo is a poet. ", " Born in Velin."]],
    },
}
TEXTS = {**HUB, "supporting_facts": json.dumps(ROW["supporting_facts"]), "context": repr(ROW["context"])}


def write(path, row, form):
    if form == "array":
        path.write_text(json.dumps([row], indent=4))
    elif form == "lines":
        path.write_text(json.dumps(row) + "\n")
    else:
        pq.write_table(pa.Table.from_pylist([row]), path)


@pytest.mark.parametrize("reader", ["hotpotqa", "2wikimultihopqa"])
@pytest.mark.parametrize(
    ("name", "form", "row"),
    [
        ("q.json", "array", ROW),
        ("q.json", "lines", ROW),
        ("q.jsonl", "lines", HUB),
        ("q.parquet", "parquet", HUB),
        ("q.parquet", "parquet", TEXTS),
    ],
)
def test_every_form_gives_the_same_question_and_passages(tmp_path, read, reader, name, form, row):
    write(tmp_path / name, row, form)
    found = read(reader, name)
    by_id = {passage.id: passage for passage in found.passages}
    assert [passage.title for passage in found.passages] == ["Other", "Velin", "Karo"]
    question = found.question
    assert (question.id, question.hops, question.golden_answers) == ("h1", 2, ("Dorna",))
    assert question.supporting_titles == ("Karo", "Velin")
    assert question.type == row.get("type")
    assert [by_id[identity].text for identity in question.gold_passage_ids] == [
        "Karo is a poet. Born in Velin.",
        "Velin is in Dorna.",
    ]


def test_a_paragraph_that_several_questions_bring_is_one_passage(tmp_path, read):
    (tmp_path / "q.json").write_text(json.dumps([ROW, {**ROW, "_id": "h2"}]))
    found = read("hotpotqa", "q.json")
    assert (len(found.questions), len(found.passages)) == (2, 3)


def test_two_paragraphs_of_one_title_are_told_apart_by_the_sentence(tmp_path, read):
    row = copy.deepcopy(ROW)
    row["context"].insert(0, ["Karo", ["Karo is a river."]])
    row["supporting_facts"] = [["Karo", 1], ["Velin", 0]]
    (tmp_path / "q.json").write_text(json.dumps([row]))
    found = read("hotpotqa", "q.json")
    texts = {passage.id: passage.text for passage in found.passages}
    assert texts[found.question.gold_passage_ids[0]] == "Karo is a poet. Born in Velin."
    assert len(texts) == 4


def test_gold_passages_are_found_in_a_corpus(tmp_path, read):
    (tmp_path / "q.json").write_text(json.dumps([ROW]))
    passages = [
        Passage("1", "Karo", "Another part of the article."),
        Passage("2", "Karo", "Born in\nVelin."),
        Passage("3", "Velin", "A newer text."),
    ]
    found = read("hotpotqa", "q.json", corpus=Corpus(passages))
    assert found.passages == []
    assert found.question.gold_passage_ids == ("2", "3")
    fault = read("hotpotqa", "q.json", corpus=Corpus(passages[:2])).fault
    assert (fault.reason, fault.message) == ("no_gold_passage", "no passage for its supporting title 'Velin'")


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"answer": ""}, "no_answer", "answer: is empty"),
        ({"answer": ["Dorna"]}, "wrong_type", "answer: must be a text, got a list"),
        ({"context": [["Karo", "text"]]}, "wrong_type", "context.0.1: must be a list, got a text"),
        ({"context": [["Karo"]]}, "wrong_type", "context.0: must be a pair of a title and sentences"),
        ({"context": [["Karo", ["a", None]]]}, "wrong_type", "context.0.1.1: must be a text, got null"),
        ({"context": "[['Karo'"}, "wrong_type", "context: a text that is neither JSON nor a literal of Python"),
        (
            {"supporting_facts": [["Karo", "1"]]},
            "wrong_type",
            "supporting_facts.0.1: must be a whole number, got a text",
        ),
        ({"supporting_facts": [["Mila", 0]]}, "no_gold_passage", "no passage for its supporting title 'Mila'"),
        ({"context": {"title": ["a"], "sentences": []}}, "wrong_type", "context: 1 titles, but 0 in sentences"),
        ({"context": {"title": ["a"]}}, "missing_key", "key 'sentences' is missing"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(tmp_path, read, change, reason, message):
    (tmp_path / "q.json").write_text(json.dumps([{**ROW, **change}]))
    fault = read("hotpotqa", "q.json").fault
    assert (fault.reason, fault.origin) == (reason, f"{tmp_path}/q.json, row 0")
    assert fault.message.startswith(message)


@pytest.mark.parametrize("missing", ["answer", "question", "context", "supporting_facts", "_id"])
def test_a_missing_key_is_named(tmp_path, read, missing):
    (tmp_path / "q.json").write_text(json.dumps([{key: value for key, value in ROW.items() if key != missing}]))
    fault = read("hotpotqa", "q.json").fault
    assert fault.reason == "missing_key"
    assert fault.message.startswith(f"key {missing.lstrip('_')!r} is missing")


def test_half_of_a_surrogate_pair_is_refused(tmp_path, read):
    (tmp_path / "q.jsonl").write_text(json.dumps({**ROW, "context": [["Karo", ["a \ud800"]]]}))
    fault = read("hotpotqa", "q.jsonl").fault
    message = "context.0.1.0: half of a surrogate pair at character 3, which is no character"
    assert (fault.reason, fault.message) == ("not_utf8", message)
