import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InputError
from tasks.qa.suite import survey as surveys
from tasks.qa.suite.survey import survey


@pytest.fixture
def rows(question_row):
    return [question_row(f"Who is {name}?", ["x"], ["t"], [name], id=name) for name in "abcde"]


def words(prompts):
    return [len(prompt[-1]["content"].split()) for prompt in prompts]


def test_rows_become_light(rows, write_rows):
    rows[1]["extra_info"]["golden_answers"] = ["Paris, France, Europe"]
    found = survey("train", write_rows("train", rows), stage=True, measure=words)
    assert found.frame.iloc[0].to_dict() == {
        "id": "a",
        "data_source": "made",
        "hops": 1,
        "passage": "a",
        "row_fault": None,
        "answer_fault": None,
        "joined": False,
        "prompt_tokens": 4,
    }
    assert found.frame["joined"].tolist() == [False, True, False, False, False]
    assert found.questions.to_pylist() == [f"Who is {name}?" for name in "abcde"]
    assert found.golds.to_pylist() == [[name] for name in "abcde"]
    assert found.texts.normal[0] == "who is"  # the article is gone


def test_each_row_is_told_its_first_fault(rows, write_rows):
    rows[0]["extra_info"]["question"] = " "
    rows[1]["prompt"] = []
    rows[1]["extra_info"]["id"] = None
    rows[2]["reward_model"]["style"] = "model"
    rows[3]["extra_info"] = None
    rows[4]["extra_info"]["hops"] = 0
    rows[4]["extra_info"]["golden_answers"] = ["x", None]
    found = survey("train", write_rows("train", rows), stage=True, measure=words)
    assert found.frame["row_fault"].tolist() == [
        "extra_info.question: blank",
        "prompt: a message without role or content",
        "reward_model.style: not 'rule'",
        "extra_info.index: null",
        "extra_info.hops: below 1",
    ]
    assert found.frame["answer_fault"].tolist() == [
        *[None] * 3,
        "no golden answer",
        "null among the golden answers",
    ]
    assert found.frame["prompt_tokens"].isna().tolist() == [False, True, False, False, False]
    assert found.questions.to_pylist()[3] == "Who is d?"  # as its prompt asks
    assert found.answers.to_pylist()[3:] == [[], ["x"]]


@pytest.mark.parametrize(
    "path",
    [
        *("data_source", "environment", "agent_name", "prompt", "ability", "reward_model", "extra_info"),
        *("reward_model.style", "reward_model.ground_truth"),
        *(f"extra_info.{name}" for name in ("index", "split", "id", "question", "golden_answers", "hops")),
        *(f"extra_info.{name}" for name in ("supporting_titles", "gold_passage_ids")),
    ],
)
def test_no_null_goes_unseen(path, rows, write_rows):
    *above, name = path.split(".")
    (rows[3][above[0]] if above else rows[3])[name] = None
    frame = survey("train", write_rows("train", rows), stage=True, measure=words).frame
    faults = frame["row_fault"].notna() | frame["answer_fault"].notna()
    assert faults.tolist() == [False, False, False, True, False]


def test_batches_are_put_together_in_order(rows, write_rows, monkeypatch):
    monkeypatch.setattr(surveys, "ROWS", 2)
    said = []
    monkeypatch.setattr(surveys, "_PATIENCE", -1.0)
    found = survey("train", write_rows("train", rows), stage=True, measure=words, say=said.append)
    assert found.frame["id"].tolist() == list("abcde")
    assert found.frame.index.tolist() == [0, 1, 2, 3, 4]
    assert said[0] == "train: 2 of 5 rows read"


def test_no_rows_have_the_same_columns(rows, write_rows):
    full = survey("train", write_rows("train", rows), stage=True)
    empty = survey("test", write_rows("test", []), stage=True)
    assert empty.frame.dtypes.to_dict() == full.frame.dtypes.to_dict()
    assert len(empty.frame) == len(empty.questions) == 0


def test_a_table_of_another_form_is_read(tmp_path):
    path = tmp_path / "other.parquet"
    row = {
        "data_source": "musique",
        "prompt": [{"content": "Who?", "role": "user"}],
        "reward_model": {"ground_truth": "1960"},
        "extra_info": {"question": "Who?", "index": 7},
    }
    pq.write_table(pa.Table.from_pylist([row, {**row, "data_source": None}]), path)
    found = survey("file", path, stage=False)
    assert found.questions.to_pylist() == ["Who?", "Who?"]
    assert found.answers.to_pylist() == [["1960"], ["1960"]]
    assert found.golds.to_pylist() == [[], []]
    assert found.frame["row_fault"].tolist() == [None, "data_source: null"]
    assert found.frame["id"].isna().all()


@pytest.mark.parametrize(
    ("text", "texts", "integer"),
    [
        (pa.large_string(), pa.large_list(pa.large_string()), pa.int8()),
        (pa.string_view(), pa.list_(pa.string_view()), pa.uint64()),
        (pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.string(), 1), pa.int32()),
    ],
)
def test_other_physical_types_are_read_alike(rows, write_rows, schema, text, texts, integer):
    info = {field.name: field.type for field in schema.field("extra_info").type}
    info |= dict.fromkeys(("id", "question", "split"), text) | dict.fromkeys(("hops", "index"), integer)
    info |= dict.fromkeys(("golden_answers", "gold_passage_ids", "supporting_titles"), texts)
    other = schema.set(schema.get_field_index("data_source"), pa.field("data_source", text))
    other = other.set(schema.get_field_index("extra_info"), pa.field("extra_info", pa.struct(list(info.items()))))
    expected = survey("train", write_rows("train", rows), stage=True)
    found = survey("train", write_rows("other", rows, other), stage=True)
    assert found.frame.equals(expected.frame)
    for name in ("questions", "answers", "golds"):
        assert getattr(found, name).to_pylist() == getattr(expected, name).to_pylist()


def test_lists_without_any_value_are_read(rows, tmp_path):
    for row in rows:
        row["extra_info"]["supporting_titles"] = row["extra_info"]["gold_passage_ids"] = []
    path = tmp_path / "train.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)  # as lists of nulls
    found = survey("train", path, stage=True)
    assert found.frame["passage"].isna().all()
    assert found.frame["row_fault"].isna().all()


def test_text_that_is_no_utf8_is_told_with_its_row(rows, write_rows, schema, tmp_path):
    table = pq.read_table(write_rows("train", rows))
    broken = pa.array([b"Who?", b"Who?", b"\xff\xfe", b"Who?", b"Who?"]).view(pa.string())
    path = tmp_path / "broken.parquet"
    pq.write_table(table.set_column(0, "data_source", broken), path)
    with pytest.raises(InputError, match=r"broken\.parquet, row 2: text that is no UTF-8"):
        survey("train", path, stage=True)


def test_a_damaged_file_is_told(question_row, write_rows):
    path = write_rows("train", [question_row(f"Who is {number}?", ["x"], ["t"], ["g"]) for number in range(2000)])
    content = bytearray(path.read_bytes())
    content[4:2000] = b"\xff" * 1996  # the first pages, not the footer
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"train\.parquet: can't be read from row 0 on"):
        survey("train", path, stage=True)


def test_where_no_question_is_named_it_is_the_prompts(tmp_path):
    path = tmp_path / "other.parquet"
    row = {"data_source": "a", "reward_model": {"ground_truth": "1960"}}
    texts = ["Answer this.\nQuestion: Who is it?\n", "question: When?", "Where is it?", "Question: "]
    rows = [{**row, "prompt": [{"role": "user", "content": text}]} for text in texts]
    pq.write_table(pa.Table.from_pylist(rows), path)
    found = survey("file", path, stage=False)
    assert found.questions.to_pylist() == ["Who is it?", "When?", "Where is it?", ""]
    assert found.frame["row_fault"].tolist() == [*[None] * 3, "prompt: asks nothing"]


def test_many_answers_none_of_a_source_are_missing_values(question_row, write_rows):
    def none_of(rows, source):
        return [
            question_row(f"{source} {n}?", ["None"] if n in rows else ["x"], ["t"], [], data_source=source)
            for n in range(300)
        ]

    # One of 300, and two, are SQuAD's own; four of 300 are more than one of a hundred.
    rows = none_of([7], "a") + none_of([7, 8], "b") + none_of([1, 2, 3, 4], "c") + none_of([], "d")[:3]
    faults = survey("train", write_rows("train", rows), stage=True).frame["answer_fault"]
    assert faults.dropna().to_dict() == dict.fromkeys(range(601, 605), "a missing value written as text")
    assert survey("train", write_rows("one", rows[7:8]), stage=True).frame["answer_fault"].isna().all()
