import pyarrow as pa
import pytest

from tasks.errors import InputError
from tasks.qa.suite.form import open_table, prompt_fault, resolve


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
    assert resolve(plain.remove(3), stage=False)[1] == ["extra_info.question: missing, wanted string"]


def test_files_that_are_no_parquet_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        open_table(tmp_path / "none.parquet")
    with pytest.raises(InputError, match="a folder, not a parquet file"):
        open_table(tmp_path)
    (tmp_path / "text.parquet").write_text("question,answer\n")
    with pytest.raises(InputError, match=r"text\.parquet: not a whole parquet file"):
        open_table(tmp_path / "text.parquet")


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
