import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InputError
from tasks.qa.corpus import Corpus
from tasks.qa.records import Passage

CONTEXT = "Karo scored 308 points."
ASKED = {"id": "s1", "question": "How many points?", "answers": [{"answer_start": 12, "text": "308"}] * 2}
IMPOSSIBLE = {"id": "s2", "question": "How many goals?", "answers": [], "is_impossible": True}
FIRST = "article 0, paragraph 0, question 0"
FLAT = {
    "id": "s1",
    "title": "Caf%C3%A9_50",
    "context": CONTEXT,
    "question": "How many points?",
    "answers": {"text": ["308", "308"], "answer_start": [12, 12]},
}


def official(*asked, version="1.1", **paragraph):
    articles = [{"title": "Caf%C3%A9_50", "paragraphs": [{"context": CONTEXT, "qas": list(asked), **paragraph}]}]
    return {"version": version, "data": articles}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("first", ["version", "data"])
def test_the_published_form(tmp_path, read, indent, first):
    content = official(ASKED, IMPOSSIBLE, version="v2.0")
    content = {first: content[first], **content}
    (tmp_path / "q.json").write_text(json.dumps(content, indent=indent))
    found = read("squad", "q.json")
    question, passage = found.question, found.passages[0]
    assert (question.id, question.golden_answers, question.hops) == ("s1", ("308",), 1)
    assert (passage.title, passage.text) == ("Café 50", CONTEXT)
    assert (question.supporting_titles, question.gold_passage_ids) == (("Café 50",), (passage.id,))
    (fault,) = found.faults
    assert (fault.reason, fault.origin) == (
        "unanswerable",
        f"{tmp_path}/q.json, article 0, paragraph 0, question 1",
    )


@pytest.mark.parametrize("name", ["q.parquet", "q.json", "q.jsonl"])
def test_the_form_of_the_hub(tmp_path, read, name):
    rows = [FLAT, {**FLAT, "id": "s2", "answers": {"text": [], "answer_start": []}}]
    if name == "q.parquet":
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    elif name == "q.json":
        (tmp_path / name).write_text(json.dumps(rows))
    else:
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read("squad", name)
    assert (found.question.golden_answers, found.question.supporting_titles) == (("308",), ("Café 50",))
    assert [(fault.reason, fault.origin[-3:-1]) for fault in found.faults] == [
        ("unanswerable", "w " if name != "q.jsonl" else "e ")
    ]


def test_without_a_title_there_is_no_supporting_title(tmp_path, read):
    (tmp_path / "q.jsonl").write_text(json.dumps({key: value for key, value in FLAT.items() if key != "title"}))
    question = read("squad", "q.jsonl").question
    assert (question.supporting_titles, len(question.gold_passage_ids)) == ((), 1)


def test_a_corpus_passage_holds_the_paragraph(tmp_path, read):
    (tmp_path / "q.json").write_text(json.dumps(official(ASKED)))
    corpus = Corpus([Passage("1", "Café 50", "An abstract."), Passage("2", "Café 50", CONTEXT)])
    found = read("squad", "q.json", corpus=corpus)
    assert (found.question.gold_passage_ids, found.passages) == (("2",), [])


@pytest.mark.parametrize(
    ("content", "origin", "reason", "message"),
    [
        (official({**ASKED, "question": None}), FIRST, "empty_question", "question: is null"),
        (
            official({**ASKED, "answers": [{"text": 308}]}),
            FIRST,
            "wrong_type",
            "answers.text: must be a text, got the number 308",
        ),
        (official({**ASKED, "answers": None}), FIRST, "wrong_type", "answers: must be a list, got null"),
        (official(5), FIRST, "not_an_object", "must be an object with keys, got the number 5"),
        ({"data": [{"title": "a"}]}, "article 0", "missing_key", "key 'paragraphs' is missing"),
        ({"data": [{"paragraphs": [{}]}]}, "article 0, paragraph 0", "missing_key", "key 'qas' is missing"),
        (
            {"data": [{"paragraphs": [[]]}]},
            "article 0, paragraph 0",
            "not_an_object",
            "must be an object with keys, got",
        ),
        ({"data": [{"paragraphs": [{"qas": [ASKED]}]}]}, FIRST, "missing_key", "key 'context' is missing"),
        ({"data": ["a"]}, "article 0", "not_an_object", "must be an object with keys, got a text"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, read, content, origin, reason, message):
    (tmp_path / "q.json").write_text(json.dumps(content, indent=1))
    fault = read("squad", "q.json").fault
    assert (fault.reason, fault.origin) == (reason, f"{tmp_path}/q.json, {origin}")
    assert fault.message.startswith(message)


def test_a_wrong_part_costs_its_own_questions_only(tmp_path, read):
    def part(number, count, **change):
        asked = [{**ASKED, "id": f"{number}.{question}"} for question in range(count)]
        return {"context": CONTEXT, "qas": asked, **change}

    without = part(1, 3)
    del without["context"]
    mixed = part(2, 2)
    mixed["qas"].insert(1, None)
    articles = [
        {"title": "A", "paragraphs": [part(0, 2), without, part(9, 1, qas="?"), mixed]},
        {"title": "B", "paragraphs": [part(3, 1)]},
    ]
    (tmp_path / "q.json").write_text(json.dumps({"version": "1.1", "data": articles}))
    found = read("squad", "q.json")
    assert [question.id for question in found.questions] == ["0.0", "0.1", "2.0", "2.1", "3.0"]
    assert found.questions[-1].origin == f"{tmp_path}/q.json, article 1, paragraph 0, question 0"
    assert [(fault.origin.removeprefix(f"{tmp_path}/q.json, article 0, "), fault.reason) for fault in found.faults] == [
        ("paragraph 1, question 0", "missing_key"),
        ("paragraph 1, question 1", "missing_key"),
        ("paragraph 1, question 2", "missing_key"),
        ("paragraph 2", "wrong_type"),
        ("paragraph 3, question 1", "not_an_object"),
    ]


@pytest.mark.parametrize("content", [{"data": []}, {"version": "1.1", "rows": [ASKED]}])
def test_an_object_without_articles_is_refused(tmp_path, read, content):
    (tmp_path / "q.json").write_text(json.dumps(content, indent=1))
    with pytest.raises(InputError, match=r"q\.json: no articles under the key 'data'"):
        read("squad", "q.json")
