import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

PROMPT = [
    {"role": "system", "content": "You search."},
    {"role": "user", "content": "Answer the given question. For example, <answer> Beijing </answer>. Question: who?\n"},
]
# Search-R1's nq_hotpotqa_train.
SEARCH_R1 = {
    "id": "train_0",
    "question": "who?",
    "golden_answers": ["Karo", "Karo K."],
    "data_source": "nq",
    "prompt": PROMPT,
    "ability": "fact-reasoning",
    "reward_model": {"ground_truth": {"target": ["Karo", "Karo K."]}, "style": "rule"},
    "extra_info": {"index": 3, "split": "train"},
    "metadata": None,
}


def without(*keys, **change):
    return {key: value for key, value in SEARCH_R1.items() if key not in keys} | change


def truth(value):
    return without("golden_answers", reward_model={"ground_truth": value, "style": "rule"})


@pytest.fixture
def read_row(tmp_path, read):
    def go(row, form="parquet"):
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist([row]), tmp_path / "q.parquet")
        else:
            (tmp_path / "q.jsonl").write_text(json.dumps(row))
        return read("verl", f"q.{form}")

    return go


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_rows_of_search_r1(read_row, form):
    question = read_row(SEARCH_R1, form).question
    # Every set that is merged into such a file numbers its rows from 0.
    assert (question.id, question.data_source, question.question) == ("nq-train_0", "nq", "who?")
    assert (question.golden_answers, question.hops) == (("Karo", "Karo K."), 1)
    assert (question.type, question.scorer) == (None, "squad")


def test_type_and_scorer_of_a_row_are_kept(read_row):
    extra = {**SEARCH_R1["extra_info"], "type": "level-2"}
    target = SEARCH_R1["reward_model"]["ground_truth"]["target"]

    def row(scorer):
        return without(extra_info=extra, reward_model={"ground_truth": {"target": target, "scorer": scorer}})

    question = read_row(row("gaia")).question
    assert (question.type, question.scorer) == ("level-2", "gaia")
    fault = read_row(row("gai")).fault
    message = "reward_model.ground_truth.scorer: must be one of squad, gaia, got 'gai'"
    assert (fault.reason, fault.message) == ("unknown_scorer", message)


@pytest.mark.parametrize(
    ("value", "answers"),
    [
        ("Karo", ("Karo",)),
        (["Karo", "K."], ("Karo", "K.")),
        ({"target": ["Karo"]}, ("Karo",)),
        ({"target": "Karo"}, ("Karo",)),
    ],
)
def test_ground_truths(read_row, value, answers):
    assert read_row(truth(value)).question.golden_answers == answers


@pytest.mark.parametrize(
    ("row", "identity"),
    [
        (without("id"), "nq-train-3"),
        (without("id", extra_info={"index": 3, "id": "hotpotqa_7"}), "hotpotqa_7"),
        (without("id", "extra_info"), "mine-train-1"),
        (without("id", extra_info=None), "mine-train-1"),
        (without(extra_info=None, id=7), "nq-7"),
    ],
)
def test_ids(read_row, row, identity):
    assert read_row(row, "jsonl").question.id == identity


@pytest.mark.parametrize(
    "row",
    [
        without("question"),
        without("question", "golden_answers", extra_info={"question": "who?", "golden_answers": ["Karo", "Karo K."]}),
        without(question=None, extra_info={"question": "who?"}),
        without("question", prompt=[{"role": "user", "content": "who?"}]),
    ],
)
def test_where_the_question_stands(read_row, row):
    question = read_row(row).question
    assert (question.question, question.golden_answers) == ("who?", ("Karo", "Karo K."))


def test_what_ingest_writes_is_read(read_row):
    extra = {
        "id": "h1",
        "hops": 3,
        "supporting_titles": ["A", "B"],
        "gold_passage_ids": ["1", "2"],
        "tools_kwargs": None,
    }
    question = read_row(without("id", extra_info=extra)).question
    assert (question.id, question.hops) == ("h1", 3)
    assert (question.supporting_titles, question.gold_passage_ids) == (("A", "B"), ("1", "2"))


@pytest.mark.parametrize(
    ("row", "reason", "message"),
    [
        (truth(None), "no_answer", "reward_model.ground_truth: is null"),
        (truth([]), "no_answer", "reward_model.ground_truth: a question without an answer"),
        (truth({"target": [None]}), "no_answer", "reward_model.ground_truth.target: is null"),
        (
            truth({"target": [1960]}),
            "wrong_type",
            "reward_model.ground_truth.target: must be a text, got the number 1960; w",
        ),
        (
            truth({"answer": "x"}),
            "wrong_type",
            "reward_model.ground_truth: must be a text, a list of texts or {target}",
        ),
        (without("golden_answers", reward_model=None), "wrong_type", "reward_model: must be an object, got null"),
        (without("question", prompt=None), "wrong_type", "prompt: must be a list, got null"),
        (without("question", prompt=[None]), "wrong_type", "prompt.0: must be an object, got null"),
        (
            without("question", prompt=[{"role": "user", "content": None}]),
            "empty_question",
            "prompt.0.content: is null",
        ),
        (without("question", prompt=PROMPT[:1]), "empty_question", "prompt: holds no message of the user"),
        (
            without("question", prompt=[{"role": "user", "content": "Q. Question: "}]),
            "empty_question",
            "prompt: is empty",
        ),
        (without(data_source=None), "empty_text", "data_source: is null"),
        (without(extra_info="x"), "wrong_type", "extra_info: must be an object, got a text"),
        (without(extra_info={"hops": 0}), "wrong_hops", "extra_info.hops: must be 1 to 1,000, got 0"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(read_row, row, reason, message):
    for form in ("parquet", "jsonl"):
        fault = read_row(row, form).fault
        assert (fault.reason, fault.message[: len(message)]) == (reason, message)


def test_a_question_that_is_null_in_a_table_of_questions(read_row):
    fault = read_row(without(question=None)).fault
    assert (fault.reason, fault.message) == ("empty_question", "question: is null")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"reward_model": {"ground_truth": {"target": ["Mila"]}}},
            "reward_model.ground_truth: is not the golden answers",
        ),
        ({"reward_model": None}, "reward_model: must be an object, got null"),
        ({"prompt": [{"role": "user", "content": "Question: where?"}]}, "prompt: does not hold the question"),
    ],
)
def test_columns_that_contradict_each_other_are_refused(read_row, change, message):
    assert message in read_row(without(**change)).fault.message


def test_answers_may_stand_in_another_order_and_writing(read_row):
    assert read_row(without(reward_model={"ground_truth": {"target": ["Karo K", "the karo"]}})).question
