import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from tasks.agent.environments.search.environment import Environment, SearchParams
from tasks.params import Validate
from tasks.qa import suite
from tasks.qa.form import prompt_fault, row_faults
from tasks.qa.records import SPLITS, Passage, Question
from tasks.qa.rows import write_corpus, write_splits

SETTINGS = Validate(window=20, max_share_gap=0.5, run_probability=1e-4, min_rows=10)
ENVIRONMENT = Environment(SearchParams(em_score=1.0, format_score=0.1))


def ask(split: str, number: int) -> Question:
    source = "odd" if number % 2 else "even"
    gold = (f"{split}-{number}",)
    return Question(f"{split}-{number}", source, f"Who is number {number} of {split}?", ("x",), 1, ("t",), gold, "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    counts = {"train": 40, "validation": 5, "test": 5}
    splits = {split: [ask(split, number) for number in range(count)] for split, count in counts.items()}
    write_splits(tmp_path, splits, ENVIRONMENT, "{question}")
    golds = [gold for questions in splits.values() for question in questions for gold in question.gold_passage_ids]
    write_corpus(tmp_path / "corpus.parquet", [Passage(gold, "t", "text") for gold in golds])
    return tmp_path


def frames(folder: Path) -> dict:
    return {split: pd.read_parquet(folder / f"{split}.parquet") for split in SPLITS}


def run(folder: Path, of_splits: dict, prompt_tokens: int = 30) -> list[suite.Outcome]:
    return suite.validate(
        {split: suite.flat(frame, [prompt_tokens] * len(frame)) for split, frame in of_splits.items()},
        {split: suite.expectations(split, folder, SETTINGS, 30) for split in of_splits},
        folder / "docs",
    )


def failed(outcomes: list[suite.Outcome]) -> dict[str, str]:
    return {outcome.name: outcome.observed for outcome in outcomes if not outcome.passed}


def change(frame: pd.DataFrame, number: int, **info: object) -> None:
    frame.at[number, "extra_info"] = {**frame.at[number, "extra_info"], **info}


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src")]


def test_good_rows_pass_and_the_docs_need_no_network(folder):
    outcomes = run(folder, frames(folder))
    assert failed(outcomes) == {}
    assert {outcome.split for outcome in outcomes} == set(SPLITS)
    pages = list((folder / "docs").rglob("*.html"))
    assert len(pages) == 1 + 2 * len(SPLITS)
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"https?://", text)
        assert "<script" not in text
        links = Links()
        links.feed(text)
        for link in links.found:
            if not link.startswith("#"):
                assert (page.parent / link.split("#")[0]).exists(), link
    assert "all 18 expectations hold" in (folder / "docs" / "index.html").read_text(encoding="utf-8")


def test_each_fault_is_found_where_it_is(folder):
    of_splits = frames(folder)
    train = of_splits["train"]
    change(train, 3, question="WHO is number 1 of the test")
    change(train, 4, gold_passage_ids=["test-2"])
    change(train, 5, id="train-6")
    change(train, 7, question="who is number 8 of train")
    change(train, 9, gold_passage_ids=["train-9", "lost"])
    train.at[10, "agent_name"] = None
    train.at[11, "reward_model"] = {"style": "model", "ground_truth": None}
    change(of_splits["validation"], 2, question="Who is number 4 of test")
    outcomes = run(folder, of_splits)
    assert failed(outcomes) == {
        "train: expect_verl_rows": "reward_model: style is not 'rule' (rows: 1, first: 11)",
        "train: expect_gold_passages_to_exist": "1 gold passages missing, first: 'lost' of question 'train-9'",
        "train: expect_questions_not_held_out": (
            "1 questions also held out, first: train-3; 1 with the gold passages of a held-out one"
        ),
        "train: expect_column_values_to_not_be_null (agent_name)": (
            "1 of 40 rows not as expected, first: row 10 with nan"
        ),
        "train: expect_column_values_to_be_unique (id)": "2 of 40 rows not as expected, first: row 5 with 'train-6'",
        "train: expect_column_values_to_be_unique (normalised_question)": (
            "2 of 40 rows not as expected, first: row 7 with 'who is number 8 of train'"
        ),
        "validation: expect_questions_not_held_out": (
            "1 questions also held out, first: validation-2; 0 with the gold passages of a held-out one"
        ),
    }
    assert sum(outcome.details.get("leaked", 0) for outcome in outcomes) == 2
    assert "first: train-3" in (folder / "docs" / "index.html").read_text(encoding="utf-8")


def test_long_prompts_and_few_rows_are_found(folder):
    of_splits = frames(folder)
    found = failed(run(folder, {"train": of_splits["train"].head(9), "test": of_splits["test"]}, prompt_tokens=31))
    assert found == {
        "train: expect_table_row_count_to_be_between": "9",
        "train: expect_column_values_to_be_between (prompt_tokens)": (
            "9 of 9 rows not as expected, first: row 0 with 31"
        ),
        "test: expect_column_values_to_be_between (prompt_tokens)": (
            "5 of 5 rows not as expected, first: row 0 with 31"
        ),
    }


def test_blocks_are_found_and_one_source_needs_no_mixing(folder):
    train = frames(folder)["train"]
    blocks = train.sort_values("data_source", kind="stable").reset_index(drop=True)
    found = failed(run(folder, {"train": blocks}))
    # 40 rows, 20 of each: 21 * q(r), with q(11) = 7.3e-5 and q(10) = 2.2e-4, falls to 1e-4 at r = 14.
    assert found == {
        "train: expect_no_long_single_source_run": (
            "longest single-source run: 20 of even, rows 0 to 19; chance allows 13"
        ),
    }
    one = train[train["data_source"] == "odd"].reset_index(drop=True)
    (folder / "docs").rename(folder / "earlier")
    outcomes = run(folder, {"train": one})
    assert failed(outcomes) == {}
    said = {outcome.name: outcome.observed for outcome in outcomes}["train: expect_no_long_single_source_run"]
    assert said == "only one source, odd: any order will do"


def test_an_empty_split_passes(folder):
    of_splits = frames(folder)
    assert failed(run(folder, {**of_splits, "validation": of_splits["validation"].head(0)})) == {}


def test_an_expectation_that_cannot_be_evaluated_is_an_error(folder):
    (folder / "corpus.parquet").unlink()
    with pytest.raises(RuntimeError, match="expect_gold_passages_to_exist could not be evaluated"):
        run(folder, frames(folder))


@pytest.mark.parametrize(
    ("prompt", "fault"),
    [
        ([{"role": "user", "content": "hi"}], None),
        ([{"role": "system", "content": "be"}, {"role": "user", "content": "hi"}], None),
        (None, "without role or content"),
        ([], "without role or content"),
        (["hi"], "without role or content"),
        ([{"role": "user", "content": ""}], "without role or content"),
        ([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}], "does not end with the user"),
    ],
)
def test_prompt_faults(prompt, fault):
    found = prompt_fault(prompt)
    assert found is None if fault is None else fault in found


def test_row_faults_name_what_is_missing(question_row):
    good = question_row("Who?", ["x"], ["t"], ["1"])
    assert row_faults(good) == []
    assert row_faults({**good, "extra_info": {**good["extra_info"], "golden_answers": []}}) == [
        "extra_info: no golden answer"
    ]
    assert row_faults(
        {**good, "extra_info": {k: v for k, v in good["extra_info"].items() if k not in ("id", "hops")}}
    ) == ["extra_info: without id, hops"]
    assert row_faults({**good, "reward_model": {"style": "rule", "ground_truth": None}}) == [
        "reward_model: no ground truth"
    ]
