import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.agent.rewards import normalise
from tasks.errors import InputError
from tasks.qa.reading.answers import MISSING, list_as_text

ROW = {"id": "a", "question": "Who?", "golden_answers": ["Karo"]}
COLUMNS = {"id": None, "question": "q", "golden_answers": "answer"}


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_csv(path, rows, **form):
    with path.open("w", newline="") as file:
        csv.writer(file, **form).writerows(rows)
    return path


def test_jsonl_reads_the_unified_row(tmp_path, read):
    full = {
        **ROW,
        "id": 7,
        "data_source": "nq",
        "hops": 3,
        "type": " bridge",
        "supporting_titles": ["T"],
        "gold_passage_ids": [12, "13"],
        "raw": {"ignored": True},
    }
    path = tmp_path / "q.jsonl"
    path.write_text(f"{json.dumps(ROW)}\n\n{json.dumps(full)}\n")
    short, long = read("jsonl", "q.jsonl", split="test").questions
    assert (short.id, short.data_source, short.hops, short.gold_passage_ids) == ("a", "mine", 1, ())
    assert (long.id, long.data_source, long.hops, long.gold_passage_ids) == ("7", "nq", 3, ("12", "13"))
    assert (long.origin, long.split) == (f"{path}, line 3", "test")
    assert (short.type, long.type) == (None, "bridge")


@pytest.mark.parametrize(
    ("value", "told"), [(["a"], "kind: must be a text, got a list"), (True, "kind: must be a text, got true or false")]
)
def test_a_type_is_a_text_or_a_whole_number_in_a_column_of_any_name(tmp_path, read, value, told):
    columns = {"type": "kind"}
    write_lines(tmp_path / "q.jsonl", [{**ROW, "kind": 3}, {**ROW, "kind": None}, {**ROW, "kind": value}])
    found = read("jsonl", "q.jsonl", columns=columns)
    assert [question.type for question in found.questions] == ["3", None]
    assert (found.faults[0].reason, found.faults[0].message) == ("wrong_type", told)
    write_csv(tmp_path / "q.csv", [["id", "question", "golden_answers", "type"], ["a", "Who?", "Karo", ""]])
    assert read("csv", "q.csv").question.type is None


def test_hops_are_the_passages_that_are_needed(tmp_path, read):
    write_lines(
        tmp_path / "q.jsonl",
        [{**ROW, "gold_passage_ids": [1, 2]}, {**ROW, "supporting_titles": list("abc")}, {**ROW, "hops": None}],
    )
    assert [question.hops for question in read("jsonl", "q.jsonl").questions] == [2, 3, 1]


def test_limit_takes_the_first_rows_faulty_ones_too(tmp_path, read):
    write_lines(tmp_path / "q.jsonl", [ROW, {**ROW, "id": ""}, {**ROW, "id": "b"}, {**ROW, "id": "c"}])
    found = read("jsonl", "q.jsonl", limit=3)
    assert [question.id for question in found.questions] == ["a", "b"]
    assert len(found.faults) == 1


@pytest.mark.parametrize("reader", ["jsonl", "csv", "parquet"])
def test_columns_of_ones_own_and_ids_that_are_made(tmp_path, read, reader):
    path = tmp_path / f"q.{reader}"
    rows = [{"q": " Who? ", "answer": "Karo", "n": 2}, {"q": "Where?", "answer": "Velin, Dorna", "n": 1}]
    if reader == "jsonl":
        write_lines(path, rows)
    elif reader == "csv":
        write_csv(path, [list(rows[0]), *([*row.values()] for row in rows)])
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    found = read(reader, path, columns={**COLUMNS, "hops": "n"})
    assert [(q.id, q.question, q.golden_answers, q.hops) for q in found.questions] == [
        ("mine-train-1", "Who?", ("Karo",), 2),
        ("mine-train-2", "Where?", ("Velin, Dorna",), 1),
    ]
    with pytest.raises(InputError, match="no column 'm'") if reader != "jsonl" else pytest.raises(AssertionError):
        assert not read(reader, path, columns={**COLUMNS, "hops": "m"}).faults


def test_lists_in_cells_of_separated_values(tmp_path, read):
    header = ["id", "question", "golden_answers", "supporting_titles", "gold_passage_ids", "hops"]
    rows = [
        ["1", "a?", '["x", "y, z"]', "Karo", "", ""],
        ["2", "b?", "['x', \"it's\"]", "['Karo', 'Velin']", "[3, 4]", "3"],
        ["3", "a long\nquestion?", "1945", "", "", ""],
    ]
    write_csv(tmp_path / "q.tsv", [header, *rows], delimiter="\t")
    first, second, third = read("csv", "q.tsv").questions
    assert (first.golden_answers, first.supporting_titles, first.hops) == (("x", "y, z"), ("Karo",), 1)
    assert (second.golden_answers, second.gold_passage_ids, second.hops) == (("x", "it's"), ("3", "4"), 3)
    assert (third.golden_answers, third.question) == (("1945",), "a long\nquestion?")
    assert third.origin.endswith("q.tsv, line 4")


def test_a_delimiter_of_ones_own(tmp_path, read):
    write_csv(tmp_path / "q.csv", [list(ROW), ["1", "a, b?", "c"]], delimiter=";")
    assert read("csv", "q.csv", delimiter=";").question.question == "a, b?"


def test_lists_of_parquet_are_lists_and_further_columns_are_not_read(tmp_path, read):
    rows = [{**ROW, "gold_passage_ids": [1, 2], "note": "n"}, {**ROW, "id": "b", "gold_passage_ids": None, "note": ""}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "q.parquet")
    first, second = read("parquet", "q.parquet").questions
    assert (first.golden_answers, first.gold_passage_ids) == (("Karo",), ("1", "2"))
    assert (second.gold_passage_ids, second.origin) == ((), f"{tmp_path}/q.parquet, row 1")


def test_rows_are_numbered_over_batches(tmp_path, read):
    pq.write_table(pa.Table.from_pylist([{**ROW, "id": str(n)} for n in range(9000)]), tmp_path / "q.parquet")
    last = read("parquet", "q.parquet").questions[-1]
    assert (last.id, last.origin) == ("8999", f"{tmp_path}/q.parquet, row 8999")


def test_a_jsonl_answer_is_a_list_unless_its_column_is_named(tmp_path, read):
    write_lines(tmp_path / "q.jsonl", [{**ROW, "golden_answers": "Karo"}])
    assert read("jsonl", "q.jsonl").fault.message == "golden_answers: must be a list of texts, got a text"
    named = read("jsonl", "q.jsonl", columns={"golden_answers": "golden_answers"})
    assert named.question.golden_answers == ("Karo",)


def test_provenance_names_the_file_by_its_hash(tmp_path, read):
    (tmp_path / "q.jsonl").write_text('{"id": 1, "question": "Who?", "golden_answers": ["x"]}\n')
    known = read("jsonl", "q.jsonl", licence="MIT", limit=5).source.provenance()
    assert known == {
        "reader": "jsonl",
        "name": "mine",
        "path": "q.jsonl",
        "split": "train",
        "limit": 5,
        "licence": "MIT",
        "upstream": "the user's own",
        # printf '{"id": 1, "question": "Who?", "golden_answers": ["x"]}\n' | sha256sum
        "sha256": "453bbd28fc503b86ee79c1f06b7f133f77787a53526305d7e39f320787748194",
        "bytes": 55,
        "columns": {name: name for name in known["columns"]},
    }


CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.sampled_from("\t\n\r\x85")
TEXT = st.text(CHARACTERS, min_size=1).filter(lambda text: text.strip())
QUESTION = TEXT.filter(lambda text: any(map(str.isalnum, text)))
ANSWER = TEXT.filter(lambda text: normalise(text) and text.strip() not in MISSING and not list_as_text(text.strip()))
ROWS = st.lists(st.tuples(TEXT, QUESTION, st.lists(ANSWER, min_size=1, max_size=3)), min_size=1, max_size=5)
properties = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@properties
@given(rows=ROWS, bom=st.booleans(), end=st.sampled_from(["\n", "\r\n", "\n\n"]), escaped=st.booleans())
def test_what_is_written_as_jsonl_is_read(tmp_path, read, rows, bom, end, escaped):
    keys = ("id", "question", "golden_answers")
    lines = [json.dumps(dict(zip(keys, row, strict=True)), ensure_ascii=escaped) + end for row in rows]
    (tmp_path / "q.jsonl").write_text("".join(lines), encoding="utf-8-sig" if bom else "utf-8", newline="")
    found = read("jsonl", "q.jsonl").questions
    assert [(q.id, q.question, q.golden_answers) for q in found] == [
        (identity.strip(), question.strip(), tuple(answer.strip() for answer in answers))
        for identity, question, answers in rows
    ]


CELL = ANSWER.map(str.strip).filter(lambda text: text != "None" and not (text.startswith("[") and text.endswith("]")))
NAMES = st.lists(st.text("abcdefgh", min_size=1), min_size=2, max_size=2, unique=True)


@properties
@given(
    rows=st.lists(st.tuples(QUESTION.map(str.strip), CELL), min_size=1, max_size=5),
    names=NAMES,
    form=st.sampled_from(["csv", "parquet"]),
)
def test_whatever_columns_are_called_they_are_found(tmp_path, read, rows, names, form):
    path = tmp_path / f"q.{form}"
    if form == "csv":
        write_csv(path, [names, *rows])
    else:
        pq.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), path)
    columns = {"id": None, "question": names[0], "golden_answers": names[1]}
    found = read(form, path, columns=columns)
    assert [(q.question, *q.golden_answers) for q in found.questions] == rows
    assert not found.faults


@properties
@given(before=st.integers(0, 20), cut=st.integers(1, len(json.dumps(ROW)) - 1))
def test_a_cut_line_is_named_and_the_rest_is_read(tmp_path, read, before, cut):
    whole = json.dumps(ROW) + "\n"
    (tmp_path / "q.jsonl").write_text(whole * (before + 1) + json.dumps(ROW)[:cut] + "\n" + whole)
    found = read("jsonl", "q.jsonl")
    assert [(fault.reason, fault.origin) for fault in found.faults] == [
        ("not_json", f"{tmp_path}/q.jsonl, line {before + 2}")
    ]
    assert len(found.questions) == before + 2


@given(
    answer=st.text("atheANTHE .,?-_5ß", min_size=1).filter(lambda text: text.strip() and text.strip() not in MISSING)
)
def test_an_answer_is_refused_just_when_no_prediction_can_match_it(answer):
    from tasks.qa.reading import RowError, fields

    if normalise(answer):
        assert fields.answers([answer], "answer") == (answer.strip(),)
    else:
        with pytest.raises(RowError, match="nothing is left of"):
            fields.answers([answer, "?"], "answer")
    assert fields.answers([answer, "Karo"], "answer") == (answer.strip(), "Karo")
