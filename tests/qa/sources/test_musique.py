import json

import pytest

from tasks.qa.corpus import Corpus
from tasks.qa.records import Passage

ROW = {
    "id": "2hop__1_2",
    "question": "Which country was Karo born in?",
    "answer": "Dorna",
    "answer_aliases": ["Republic of Dorna", "Dorna"],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "Other", "paragraph_text": "Nothing.", "is_supporting": False},
        {"idx": 1, "title": "Velin", "paragraph_text": "Velin is in Dorna.", "is_supporting": True},
        {"idx": 2, "title": "Karo", "paragraph_text": "Karo was born in  Velin.", "is_supporting": True},
    ],
    "question_decomposition": [
        {"id": 1, "question": "Karo >> place of birth", "answer": "Velin", "paragraph_support_idx": 2},
        {"id": 2, "question": "country of #1", "answer": "Dorna", "paragraph_support_idx": 1},
    ],
}


@pytest.mark.parametrize("text", [None, json.dumps, repr])
@pytest.mark.parametrize("form", ["lines", "array"])
def test_hops_titles_and_aliases(tmp_path, read, text, form):
    row = ROW if text is None else {**ROW, "paragraphs": text(ROW["paragraphs"])}
    name = {"lines": "q.jsonl", "array": "q.json"}[form]
    (tmp_path / name).write_text(json.dumps(row) + "\n" if form == "lines" else json.dumps([row]))
    found = read("musique", name)
    question = found.question
    assert (question.id, question.hops) == ("2hop__1_2", 2)
    assert question.golden_answers == ("Dorna", "Republic of Dorna")
    assert question.supporting_titles == ("Karo", "Velin")
    by_id = {passage.id: passage.text for passage in found.passages}
    assert [by_id[one] for one in question.gold_passage_ids] == ["Karo was born in Velin.", "Velin is in Dorna."]
    assert len(by_id) == 3


def test_an_alias_that_cannot_be_matched_costs_nothing_as_long_as_another_can(tmp_path, read):
    for answer, aliases in (("Dorna", ["*"]), ("*", ["Dorna"])):
        (tmp_path / "q.jsonl").write_text(json.dumps({**ROW, "answer": answer, "answer_aliases": aliases}))
        assert read("musique", "q.jsonl").question.golden_answers == (answer, *aliases)
    (tmp_path / "q.jsonl").write_text(json.dumps({**ROW, "answer": "*", "answer_aliases": ["The"]}))
    fault = read("musique", "q.jsonl").fault
    assert (fault.reason, fault.message[:35]) == ("unmatchable_answer", "answer: nothing is left of '*', 'Th")


def test_gold_passages_are_the_corpus_own_where_they_hold_the_paragraph(tmp_path, read):
    (tmp_path / "q.jsonl").write_text(json.dumps(ROW))
    passages = [
        Passage("7", "Karo", "A poet. Karo was born in\nVelin. She sings."),
        Passage("8", "Velin", "Another text."),
        Passage("9", "Velin", "Velin is in Dorna."),
    ]
    found = read("musique", "q.jsonl", corpus=Corpus(passages))
    assert found.question.gold_passage_ids == ("7", "9")
    assert not found.passages
    # A corpus's only passage of the title is none where it says something else: it would not hold the answer.
    assert read("musique", "q.jsonl", corpus=Corpus(passages[:2])).fault.reason == "no_gold_passage"


@pytest.mark.parametrize(
    ("change", "reason", "message"),
    [
        ({"answerable": False}, "unanswerable", "answerable: is false"),
        ({"answer_aliases": ["Dorna", ""]}, "no_answer", "answer_aliases.1: is empty"),
        ({"answer_aliases": "Dorna"}, "wrong_type", "answer_aliases: must be a list of texts, got a text"),
        ({"paragraphs": "[{"}, "wrong_type", "paragraphs: a text that is neither JSON nor"),
        (
            {"paragraphs": [ROW["paragraphs"][0]]},
            "no_gold_passage",
            "question_decomposition.0.paragraph_support_idx: no",
        ),
        ({"paragraphs": [{"idx": []}]}, "missing_key", "key 'title' is missing"),
        (
            {"paragraphs": [{**ROW["paragraphs"][0], "idx": []}]},
            "wrong_type",
            "paragraphs.0.idx: must be a whole number",
        ),
        ({"question_decomposition": []}, "no_gold_passage", "question_decomposition: is empty"),
        ({"question_decomposition": [{"paragraph_support_idx": None}]}, "wrong_type", "question_decomposition.0.para"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(tmp_path, read, change, reason, message):
    (tmp_path / "q.jsonl").write_text(json.dumps({**ROW, **change}))
    fault = read("musique", "q.jsonl").fault
    assert (fault.reason, fault.message[: len(message)]) == (reason, message)
