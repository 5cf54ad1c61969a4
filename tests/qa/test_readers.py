import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import InputError
from tasks.params import FileSource
from tasks.qa.readers import Corpus, read_corpus, read_hotpotqa, read_jsonl
from tasks.qa.records import Passage

REAL = Path(__file__).parents[2] / ".." / "shared" / "data"
real_data = pytest.mark.skipif(not REAL.is_dir(), reason="the real data sets are not beside this checkout")
ROW = {"id": "a", "question": "Who?", "golden_answers": ["Karo"]}


def source(reader: str = "jsonl", limit: int | None = None) -> FileSource:
    return FileSource(reader=reader, name="mine", path="x", split="train", limit=limit)


def write_lines(path: Path, rows: list) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_jsonl_reads_the_unified_row(tmp_path):
    full = {
        **ROW,
        "id": 7,
        "data_source": "nq",
        "hops": 3,
        "supporting_titles": ["T"],
        "gold_passage_ids": [12, "13"],
        "raw": {"ignored": True},
    }
    path = write_lines(tmp_path / "q.jsonl", [ROW, "\n", full])
    short, long = read_jsonl(source(), path, None).questions
    assert (short.id, short.data_source, short.hops, short.gold_passage_ids) == ("a", "mine", 1, ())
    assert (long.id, long.data_source, long.hops, long.gold_passage_ids) == ("7", "nq", 3, ("12", "13"))
    assert long.origin.endswith("q.jsonl, line 3")


def test_hops_are_the_passages_that_are_needed(tmp_path):
    path = write_lines(
        tmp_path / "q.jsonl", [{**ROW, "gold_passage_ids": [1, 2]}, {**ROW, "supporting_titles": list("abc")}]
    )
    assert [question.hops for question in read_jsonl(source(), path, None).questions] == [2, 3]


def test_gzip_and_limit(tmp_path):
    path = tmp_path / "q.jsonl.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("".join(json.dumps({**ROW, "id": str(number)}) + "\n" for number in range(5)))
    assert [q.id for q in read_jsonl(source(limit=2), path, None).questions] == ["0", "1"]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "q.jsonl: the file holds no rows"),
        (["\n"], "the file holds no rows"),
        ([ROW, "{oops\n"], "q.jsonl, line 2: not JSON"),
        ([ROW, "[1]\n"], "q.jsonl, line 2: must be an object"),
        ([{**ROW, "golden_answers": []}], "line 1: golden_answers: a question without an answer"),
        ([{**ROW, "golden_answers": [" "]}], r"line 1: golden_answers\.0: a question without an answer"),
        ([{**ROW, "golden_answers": "Karo"}], "line 1: golden_answers: .*list, got str"),
        ([{**ROW, "question": "  "}], "line 1: question: is empty"),
        ([{**ROW, "question": 5}], "line 1: question: .*string, got int"),
        ([{**ROW, "id": True}], "line 1: id: .*string, got bool"),
        ([{**ROW, "hops": 0}], "line 1: hops: "),
        ([{"id": "a", "question": "Who?"}], "line 1: key 'golden_answers' is missing"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_line(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_jsonl(source(), write_lines(tmp_path / "q.jsonl", rows), None)


def test_a_missing_or_damaged_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl: no such file"):
        read_jsonl(source(), tmp_path / "none.jsonl", None)
    (tmp_path / "plain.jsonl.gz").write_text("not gzip")
    with pytest.raises(InputError, match="damaged gzip"):
        read_jsonl(source(), tmp_path / "plain.jsonl.gz", None)
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps(ROW).encode() * 50)[:-12])
    with pytest.raises(InputError, match="damaged gzip"):
        read_jsonl(source(), tmp_path / "cut.jsonl.gz", None)
    (tmp_path / "latin.jsonl").write_bytes(b'{"id": "\xe9"}')
    with pytest.raises(InputError, match="not UTF-8"):
        read_jsonl(source(), tmp_path / "latin.jsonl", None)


TEXT = st.text(st.characters(codec="utf-8"), min_size=1).map(str.strip).filter(bool)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXT, TEXT, st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=5))
def test_what_is_written_is_read(tmp_path, rows):
    path = write_lines(tmp_path / "q.jsonl", [{"id": i, "question": q, "golden_answers": a} for i, q, a in rows])
    read = read_jsonl(source(), path, None).questions
    assert [(q.id, q.question, list(q.golden_answers)) for q in read] == rows


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.integers(0, 20), cut=st.integers(1, len(json.dumps(ROW)) - 1))
def test_a_cut_line_is_named(tmp_path, before, cut):
    path = write_lines(tmp_path / "q.jsonl", [ROW] * before + [json.dumps(ROW)[:cut] + "\n", ROW])
    with pytest.raises(InputError, match=rf"q\.jsonl, line {before + 1}: not JSON"):
        read_jsonl(source(), path, None)


HOTPOT = {
    "_id": "h1",
    "question": "Which country was Karo born in?",
    "answer": "Dorna",
    "type": "bridge",
    "level": "easy",
    "supporting_facts": [["Karo", 1], ["Velin", 0], ["Karo", 0]],
    "context": [
        ["Other", ["Nothing. "]],
        ["Velin", ["Velin is in Dorna."]],
        ["Karo", ["Karo is a poet. ", " Born in Velin."]],
    ],
}


def test_hotpotqa_brings_its_own_paragraphs(tmp_path):
    path = tmp_path / "h.json"
    path.write_text(json.dumps([HOTPOT, {**HOTPOT, "_id": "h2"}]))
    loaded = read_hotpotqa(source("hotpotqa"), path, None)
    by_id = {passage.id: passage for passage in loaded.passages}
    assert len(by_id) == len(loaded.passages) == 3  # the second question brings the same ones
    first = loaded.questions[0]
    assert first.supporting_titles == ("Karo", "Velin")
    assert [by_id[identity].text for identity in first.gold_passage_ids] == [
        "Karo is a poet. Born in Velin.",
        "Velin is in Dorna.",
    ]
    assert (first.id, first.hops, first.golden_answers, first.data_source) == ("h1", 2, ("Dorna",), "mine")


def test_hotpotqa_finds_its_gold_passages_in_a_corpus(tmp_path):
    path = tmp_path / "h.json"
    path.write_text(json.dumps([HOTPOT]))
    corpus = Corpus(
        [
            Passage("1", "Karo", "Another part of the article."),
            Passage("2", "Karo", "Born in\nVelin."),
            Passage("3", "Velin", "A newer text."),
        ]
    )
    loaded = read_hotpotqa(source("hotpotqa"), path, corpus)
    assert loaded.passages == []
    assert loaded.questions[0].gold_passage_ids == ("2", "3")
    with pytest.raises(InputError, match="row 1: question 'h1': no passage for its supporting title 'Velin'"):
        read_hotpotqa(source("hotpotqa"), path, Corpus(corpus.passages[:2]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file holds no rows"),
        ("[]", "the file holds no rows"),
        ("{}", "must be a JSON array"),
        ("[{", "not JSON"),
        (json.dumps([{k: v for k, v in HOTPOT.items() if k != "answer"}]), "row 1: key 'answer' is missing"),
        (json.dumps([HOTPOT, {**HOTPOT, "answer": ""}]), "row 2: answer: a question without an answer"),
        (json.dumps([{**HOTPOT, "context": [["Karo", "text"]]}]), r"row 1: context\.0\.1: .*list, got str"),
    ],
)
def test_wrong_hotpotqa_is_refused(tmp_path, text, message):
    path = tmp_path / "h.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_hotpotqa(source("hotpotqa"), path, None)


def test_corpus_in_both_forms(tmp_path):
    rows = [
        {"id": 0, "title": "Karo", "text": "A poet.", "src": ["x"]},
        {"id": "1", "title": "Velin", "text": "A city.", "url": "https://example.org"},
        {"id": "2", "contents": '"Dorna"\nA country.\nIn the north.'},
    ]
    assert read_corpus(write_lines(tmp_path / "c.jsonl", rows)) == [
        Passage("0", "Karo", "A poet."),
        Passage("1", "Velin", "A city.", "https://example.org"),
        Passage("2", "Dorna", "A country.\nIn the north."),
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "holds no rows"),
        (
            [{"id": 1, "title": "a", "text": "b"}, {"id": "1", "title": "c", "text": "d"}],
            "line 2: passage id '1' comes twice",
        ),
        ([{"id": 1, "text": "b"}], "line 1: key 'title' is missing"),
        ([{"id": 1, "title": "a", "text": ""}], "line 1: text: is empty"),
    ],
)
def test_a_wrong_corpus_is_refused(tmp_path, rows, message):
    with pytest.raises(InputError, match=message):
        read_corpus(write_lines(tmp_path / "c.jsonl", rows))


@real_data
def test_real_hotpotqa_in_its_official_form():
    loaded = read_hotpotqa(source("hotpotqa"), REAL / "official" / "hotpotqa_train_100.json", None)
    known = {passage.id for passage in loaded.passages}
    assert len(loaded.questions) == 100
    assert all(set(q.gold_passage_ids) <= known and q.hops == 2 for q in loaded.questions)
    assert loaded.questions[0].question == "If Gallu is a demon Lilu is what?"
    assert loaded.questions[0].supporting_titles == ("Alû", "Lilu (mythology)")


@real_data
@pytest.mark.parametrize(
    ("name", "count"), [("hotpotqa.test", 500), ("nq.train", 2158), ("2wikimultihopqa.train", 500)]
)
def test_real_unified_rows(name, count):
    questions = read_jsonl(source(), REAL / "qa" / f"{name}.jsonl", None).questions
    assert len(questions) == count
    assert all(q.gold_passage_ids and q.data_source == name.split(".")[0] for q in questions)
