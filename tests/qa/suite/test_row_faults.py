import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.qa.suite.survey import survey

TARGET = "reward_model.ground_truth.target"
OTHER = f"{TARGET}: other answers than the golden ones"


def faults(path, stage=True):
    return survey("train", path, stage=stage).frame["row_fault"].tolist()


@pytest.fixture
def row(question_row):
    """A row whose reward may differ from its golden answers."""

    def make(target, golden=("Paris", "Lutetia"), **more):
        made = question_row("Who?", list(golden), ["t"], ["g"])
        made["reward_model"]["ground_truth"] = {"target": target}
        return {**made, **more}

    return make


@pytest.mark.parametrize(
    ("target", "fault"),
    [
        (["Paris", "Lutetia"], None),
        (["Lutetia", "Paris"], None),
        ([], f"{TARGET}: no golden answer"),
        (None, f"{TARGET}: no golden answer"),
        ([""], f"{TARGET}: an empty golden answer"),
        ([None], f"{TARGET}: null among the golden answers"),
        (["nan"], f"{TARGET}: a missing value written as text"),
        (["the"], f"{TARGET}: unmatchable: no word is left when normalised"),
        (["Rome"], OTHER),
        (["Paris"], OTHER),
        (["Paris", "Lutetia", "x"], OTHER),
    ],
)
def test_the_reward_compares_with_the_golden_answers(row, write_rows, target, fault):
    path = write_rows("train", [row(["Paris", "Lutetia"]), row(target)])
    assert faults(path) == [None, fault]
    # Search-R1's rows name no environment.
    table = pq.read_table(path).drop_columns("environment")
    pq.write_table(table, path)
    assert faults(path, stage=False) == [None, fault]


@pytest.mark.parametrize(
    ("scorers", "wrong"),
    [
        (["gaia", "squad", None], set()),
        (["gaia", "gai", ""], {1, 2}),
        ([None, None, None], set()),
        ([1, None, 2], {0, 2}),
    ],
)
def test_a_scorer_that_there_is_not_is_told(row, tmp_path, scorers, wrong):
    rows = [row(["Paris", "Lutetia"]) for _ in scorers]
    for one, scorer in zip(rows, scorers, strict=True):
        one["reward_model"]["ground_truth"]["scorer"] = scorer
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    told = "reward_model.ground_truth.scorer: not one of squad, gaia"
    assert faults(tmp_path / "t.parquet", stage=False) == [told if n in wrong else None for n in range(3)]


def test_another_environments_scorers_are_its_own(row, tmp_path):
    made = row(["Paris", "Lutetia"], environment="sums")
    made["reward_model"]["ground_truth"]["scorer"] = "sum"
    pq.write_table(pa.Table.from_pylist([made]), tmp_path / "t.parquet")
    assert faults(tmp_path / "t.parquet", stage=False) == [None]


def test_what_is_wrong_with_both_is_told_of_the_answers(row, write_rows):
    assert faults(write_rows("train", [row(["nan"], ["nan"]), row(["x"], [""])])) == [None, None]


def test_another_environment_has_a_truth_of_its_own(row, write_rows):
    rows = [row(["4"], environment="sums"), row([""], environment="sums"), row(["4"])]
    assert faults(write_rows("train", rows)) == [None, f"{TARGET}: an empty golden answer", OTHER]


@pytest.mark.parametrize(
    ("truth", "of", "fault"),
    [
        ("Paris", pa.string(), "reward_model.ground_truth: got string"),
        (["Paris"], pa.list_(pa.string()), "reward_model.ground_truth: got list<"),
        ({"target": "Paris"}, pa.struct([("target", pa.string())]), f"{TARGET}: got string"),
        ({"target": [1.0]}, pa.struct([("target", pa.list_(pa.float64()))]), f"{TARGET}: got list<"),
        ({"number": 4}, pa.struct([("number", pa.int64())]), "reward_model.ground_truth: got struct<"),
    ],
)
def test_environment_search_needs_a_list_of_texts(row, write_rows, schema, truth, of, fault):
    rows = [row(None, ["Paris"]), row(None, ["Paris"], environment="sums")]
    for one in rows:
        one["reward_model"]["ground_truth"] = truth
    model = pa.struct([("style", pa.string()), ("ground_truth", of)])
    other = schema.set(schema.get_field_index("reward_model"), pa.field("reward_model", model))
    found, elsewhere = faults(write_rows("train", rows, other))
    assert found.startswith(fault)
    assert found.endswith(f"wanted {TARGET} as a list of texts")
    assert elsewhere is None


def test_a_plain_truth_must_be_matchable(tmp_path):
    rows = [
        {
            "data_source": "gsm8k",
            "prompt": [{"role": "user", "content": "How many?"}],
            "reward_model": {"ground_truth": truth},
            "extra_info": {"question": "How many?", "golden_answers": ["4"]},
        }
        for truth in ("4", "four", "", "?")
    ]
    path = tmp_path / "other.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    place = "reward_model.ground_truth"
    assert faults(path, stage=False) == [
        None,
        None,
        f"{place}: an empty golden answer",
        f"{place}: unmatchable: no word is left when normalised",
    ]


def test_a_prompt_that_asks_something_else_is_told(row, write_rows):
    other = row(["Paris", "Lutetia"], prompt=[{"role": "user", "content": "Question: Where?"}])
    assert faults(write_rows("train", [row(["Paris", "Lutetia"]), other])) == [
        None,
        "prompt: does not hold the question",
    ]
