from pathlib import Path

import pyarrow as pa
import pytest

from tasks.errors import InputError
from tasks.qa.suite.form import asked, open_table, prompt_fault, question_fault, resolve


def replaced(schema, top, field):
    return schema.set(schema.get_field_index(top), field)


def nested(schema, top, **types):
    """The schema with fields of a structure replaced, or taken out where their type is None."""
    fields = {field.name: field.type for field in schema.field(top).type}
    fields.update(types)
    kept = [(name, kind) for name, kind in fields.items() if kind is not None]
    return replaced(schema, top, pa.field(top, pa.struct(kept)))


def test_the_contracts_columns_are_found(schema):
    paths, faults = resolve(schema, stage=True)
    assert faults == []
    assert paths["question"] == "extra_info.question"
    assert paths["answers"] == "extra_info.golden_answers[]"
    assert paths["role"] == "prompt[].role"


def test_other_physical_types_of_the_same_values_are_right(schema):
    other = nested(schema, "extra_info", index=pa.int32(), golden_answers=pa.large_list(pa.large_string()))
    other = nested(other, "extra_info", supporting_titles=pa.list_(pa.null()))
    other = replaced(other, "data_source", pa.field("data_source", pa.dictionary(pa.int32(), pa.string())))
    assert resolve(other, stage=True)[1] == []


def test_each_wrong_column_is_told_with_its_path(schema):
    wrong = nested(schema, "extra_info", golden_answers=pa.list_(pa.int64()), hops=pa.string(), question=None)
    wrong = nested(wrong, "extra_info", supporting_titles=pa.string())
    wrong = wrong.remove(wrong.get_field_index("agent_name"))
    wrong = replaced(wrong, "prompt", pa.field("prompt", pa.string()))
    assert set(resolve(wrong, stage=True)[1]) == {
        "agent_name: missing, wanted string",
        "prompt[].role: missing, wanted string",
        "prompt[].content: missing, wanted string",
        "extra_info.question: missing, wanted string",
        "extra_info.golden_answers[]: got int64, wanted string",
        "extra_info.hops: got string, wanted int64",
        "extra_info.supporting_titles: got string, wanted list<string>",
    }


def test_a_column_that_comes_twice_is_told(schema):
    assert resolve(schema.append(pa.field("ability", pa.string())), stage=True)[1] == ["ability: comes twice"]


def test_fields_of_other_tables_are_found_where_they_stand():
    messages = pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))
    target = pa.struct([("target", pa.list_(pa.string()))])
    search_r1 = pa.schema(
        [
            ("id", pa.string()),
            ("question", pa.string()),
            ("golden_answers", pa.list_(pa.string())),
            ("data_source", pa.string()),
            ("prompt", messages),
            ("reward_model", pa.struct([("ground_truth", target), ("style", pa.string())])),
            ("extra_info", pa.struct([("index", pa.int64()), ("split", pa.string())])),
        ]
    )
    paths, faults = resolve(search_r1, stage=False)
    assert faults == []
    assert (paths["id"], paths["question"], paths["answers"]) == ("id", "question", "golden_answers[]")
    assert "golds" not in paths
    plain = pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", messages),
            ("reward_model", pa.struct([("ground_truth", pa.string())])),
            ("extra_info", pa.struct([("question", pa.string())])),
        ]
    )
    assert resolve(plain, stage=False)[0]["answers"] == "reward_model.ground_truth"
    # Without a question there is the prompt.
    paths, faults = resolve(plain.remove(3), stage=False)
    assert (faults, "question" in paths) == ([], False)


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        (pa.list_(pa.float64()), "golden_answers[]: got double, wanted string"),
        (pa.list_(pa.list_(pa.string())), "golden_answers[]: got list<element: string>, wanted string"),
        (pa.string(), "golden_answers: got string, wanted list<string>"),
        (pa.null(), "golden_answers: got null, wanted list<string>"),
    ],
)
@pytest.mark.parametrize("nested_in", ["", "extra_info."])
def test_answers_of_another_type_are_never_passed_over(answers, fault, nested_in):
    columns = [
        ("data_source", pa.string()),
        ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
        ("reward_model", pa.struct([("ground_truth", pa.struct([("target", pa.list_(pa.string()))]))])),
    ]
    wrong = ("golden_answers", answers)
    columns.append(("extra_info", pa.struct([wrong])) if nested_in else wrong)
    told = resolve(pa.schema(columns), stage=False)[1]
    assert [one.replace("item: ", "element: ") for one in told] == [nested_in + fault]


def test_a_question_of_another_type_is_not_taken_from_the_prompt():
    columns = [
        ("data_source", pa.string()),
        ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
        ("reward_model", pa.struct([("ground_truth", pa.list_(pa.string()))])),
        ("question", pa.int64()),
    ]
    paths, faults = resolve(pa.schema(columns), stage=False)
    assert faults == ["question: got int64, wanted string"]
    assert paths["answers"] == "reward_model.ground_truth[]"


def test_files_that_are_no_parquet_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        open_table(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="is a folder, not a file"):
        open_table(tmp_path)
    for content, told in (
        (
            b"question,answer\nWho?,x\n",
            r"not parquet: it begins with 'question,answer.nWho\?,x.n'; .*`ingest` reads CSV",
        ),
        (b"\x1f\x8b\x08 packed", "not parquet: it begins with bytes"),
        (b"PAR1 and no more", "not a whole parquet file"),
        (b"", "the file is empty"),
    ):
        (tmp_path / "text.parquet").write_bytes(content)
        with pytest.raises(InputError, match=rf"text\.parquet: {told}"):
            open_table(tmp_path / "text.parquet")


def test_a_file_that_may_not_be_read_is_told_as_that(tmp_path, monkeypatch):
    path = tmp_path / "locked.parquet"
    path.write_bytes(b"PAR1")
    path.chmod(0)
    # Whoever runs the tests as root may read it.
    really = Path.open

    def refused(self, *arguments, **more):
        if self == path:
            raise PermissionError(13, "Permission denied", str(self))
        return really(self, *arguments, **more)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(InputError, match=r"locked\.parquet: can't be read: "):
        open_table(path)


@pytest.mark.parametrize(
    ("prompt", "fault"),
    [
        ([{"role": "user", "content": "hi"}], None),
        ([{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}], None),
        (None, "without role or content"),
        ([], "without role or content"),
        (["hi"], "without role or content"),
        ([None], "without role or content"),
        ([{"role": "user", "content": ""}], "without role or content"),
        ([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}], "does not end with the user"),
    ],
)
def test_prompt_faults(prompt, fault):
    found = prompt_fault(prompt)
    assert found is None if fault is None else fault in found


@pytest.mark.parametrize(
    ("content", "question", "fault"),
    [
        ("Question: Who  is\nit?", "Who is it?", None),
        ("Who is it?", " Who\tis it? ", None),
        ("Who is he?", "Who is it?", "prompt: does not hold the question"),
        ("Who is he?", "", "prompt: asks nothing"),
    ],
)
def test_a_prompt_must_hold_the_question(content, question, fault):
    # It is the last message that counts.
    prompt = [{"role": "user", "content": "Who is it?"}, {"role": "user", "content": content}]
    assert question_fault(prompt, question) == fault


@pytest.mark.parametrize("prompt", [None, [], ["Who?"], [None], [{"role": "system", "content": "Who?"}]])
def test_without_a_message_of_the_user_nothing_is_asked(prompt):
    assert asked(prompt) == ""
