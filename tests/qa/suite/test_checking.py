import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tasks.errors import InputError
from tasks.qa.suite import report

SPLITS = {"train": 40, "validation": 5, "test": 5}


def failed(outcomes):
    return {(one.table, one.name): one.observed for one in outcomes if not one.passed}


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src")]


def test_good_rows_pass_and_the_docs_need_no_network(run, splits, tmp_path):
    outcomes, rows = run(splits)
    assert failed(outcomes) == {}
    assert rows == SPLITS
    assert report.refusal(outcomes, tmp_path, rows=False) is None
    assert report.lines(outcomes, rows) == [
        "train 40 rows: 15 of 15 expectations hold",
        "validation 5 rows: 13 of 13 expectations hold",
        "test 5 rows: 9 of 9 expectations hold",
    ]
    pages = list((tmp_path / "docs").rglob("*.html"))
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
    assert "all 15 expectations hold" in (tmp_path / "docs" / "index.html").read_text(encoding="utf-8")


def change(rows, number, **info):
    """Change a row's values, and what its prompt and its reward have of them."""
    row = rows[number]
    row["extra_info"].update(info)
    row["prompt"] = [{"role": "user", "content": row["extra_info"]["question"]}]
    row["reward_model"]["ground_truth"]["target"] = row["extra_info"]["golden_answers"]


def test_each_fault_is_found_where_it_is(run, splits, tmp_path):
    train, test = splits["train"], splits["test"]
    change(train, 3, question="in TEST who has the number 1 of test", golden_answers=["y"])
    change(train, 4, gold_passage_ids=["test-2"])
    change(train, 5, id="train-6")
    change(train, 7, question="in train who has number 8 of train", golden_answers=["['x']"])
    change(train, 9, gold_passage_ids=["train-9", "lost"])
    train[10]["agent_name"] = None
    train[11]["prompt"][0]["content"] += " word" * 22
    change(splits["validation"], 2, id="test-4")
    change(test, 0, golden_answers=["a, b, c"])
    outcomes, rows = run(splits)
    shared = "even: 0.050 of 20, odd: 0.000 of 20; at most 0; first: row 4"
    assert failed(outcomes) == {
        ("train", "rows"): "1 of 40 rows; first: row 10, agent_name: null",
        ("train", "answers"): "1 of 40 rows; first: row 7, a list written as text",
        ("train", "unique-ids"): "1 of 40 rows; first: row 6, 'train-6' as in row 5",
        ("train", "unique-questions"): "1 of 40 rows; first: row 8, 'In train, who has number 8 of train?' as in row 7",
        ("train", "prompt-tokens"): "1 of 40 rows; first: row 11, 31",
        ("train", "gold-passages"): "1 of 40 rows; first: row 9, 'lost' is not in the corpus",
        ("train", "leakage-exact"): (
            "1 of 40 rows; first: row 3, 'in TEST who has the number 1 of test' is row 1 of test, "
            "'In test, who has number 1 of test?'"
        ),
        ("train", "leakage-passages"): shared,
        ("validation", "unique-ids"): "1 of 5 rows; first: row 2, 'test-4' as in row 4 of test",
        ("test", "answers-joined"): "even: 0.333 of 3, odd: 0.000 of 2; at most 0.05; first: row 0",
        ("test", "answers-in-gold"): "even: 0.667 of 3, odd: 1.000 of 2; at least 0.9; first: row 0",
    }
    values = {(one.table, one.name): one.value for one in outcomes}
    assert values["train", "leakage-exact"] == 1
    assert values["train", "row-count"] == 40
    assert values["train", "leakage-passages"] == pytest.approx(0.05)
    page = (tmp_path / "docs" / "index.html").read_text(encoding="utf-8")
    assert "error: leakage-exact: 1 of 40 rows" in page
    refusal = str(report.refusal(outcomes, Path("kept"), rows=True))
    assert refusal.startswith(f"{tmp_path}/train.parquet: failed: train: rows: 1 of 40 rows; first: row 10")
    assert "also failed: train: leakage-exact, train: answers, train: gold-passages, train: prompt-tokens" in refusal
    assert refusal.endswith(
        "; mend these rows, or leave them out; every row: kept/findings.jsonl; report: kept/docs/index.html"
    )
    assert str(report.refusal(outcomes, Path("kept"), rows=False)).endswith("out; report: kept/docs/index.html")
    lines = report.lines(outcomes, rows)
    # What the refusal says is not said twice.
    assert lines[:2] == [
        "error: train, rows: 1 of 40 rows; first: row 10",
        "error: train, leakage-exact: 1 of 40 rows; first: row 3, 'in TEST who has the number 1 of test' is row 1 of "
        "test, 'In test, who has number 1 of test?'; take these rows out of the training questions",
    ]
    assert (
        "warning: train, leakage-passages: even: 0.050 of 20; at most 0; first: row 4; set ingest.separate: passage, "
        "where held-out questions shall need new passages" in lines
    )
    assert [line.split(":")[0] for line in lines].index("warning") == sum(line.startswith("error") for line in lines)
    assert lines[-2] == "validation 5 rows: 12 of 13 expectations hold, 1 error"
    assert lines[-1] == "test 5 rows: 7 of 9 expectations hold, 2 warnings"


def test_texts_of_the_users_are_no_html_in_the_docs(run, splits, tmp_path):
    odd = "What costs $100 & ${more} in <img src='https://a/b.png'> <b>old</b> &lt; money?"
    for number in (1, 2):
        change(splits["train"], number, question=odd, golden_answers=["<i>x</i>"])
        splits["train"][number]["data_source"] = "<u>mine\n</u>"
    outcomes, _ = run(splits)
    assert failed(outcomes)["train", "unique-questions"] == f"1 of 40 rows; first: row 2, {odd!r} as in row 1"
    joined = next(one.observed for one in outcomes if (one.table, one.name) == ("train", "answers-joined"))
    assert joined.startswith("<u>mine </u>: 0.000 of 2, even: 0.000 of 19")
    for page in (tmp_path / "docs").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for tag in ("<img", "<b>old", "<u>mine", "<i>x"):
            assert tag not in text
    (page,) = (tmp_path / "docs" / "validations" / "train").rglob("*.html")
    assert "&lt;b&gt;old&lt;/b&gt; &amp;lt; money" in page.read_text(encoding="utf-8")


def test_blocks_are_refused_unless_the_order_is_only_a_warning(run, splits):
    blocks = sorted(splits["train"], key=lambda row: row["data_source"])
    outcomes, _ = run({"train": blocks})
    # 20 of 40 rows: 21 q(r) times 2 labels is at most 1e-4 / 9 from a run of 16 on.
    (told,) = failed(outcomes).values()
    assert told.startswith("longest run: 20 rows of data_source even, rows 0 to 19; chance allows 15; rows")
    assert {one.name for one in outcomes if not one.passed} == {"order"}


def test_a_warning_goes_on(run, splits):
    blocks = sorted(splits["train"], key=lambda row: row["data_source"])
    outcomes, rows = run({"train": blocks}, severity={"order": "warning"})
    assert report.refusal(outcomes, Path(), rows=False) is None
    told, summary = report.lines(outcomes, rows)
    assert told == "warning: train, order: run of data_source, from row 0 on; set ingest.shuffle: true"
    assert summary == "train 40 rows: 10 of 11 expectations hold, 1 warning"


def test_few_rows_are_refused(run, splits):
    outcomes, _ = run({"train": splits["train"][:9]})
    assert failed(outcomes) == {("train", "row-count"): "9 rows"}


def test_one_source_may_stand_in_any_order(run, splits):
    outcomes, _ = run({"train": splits["train"][::2]})
    (order,) = [one for one in outcomes if one.name == "order"]
    assert order.passed
    assert (order.details["length"], order.details["allowed"]) == (20, 20)


def test_wrong_columns_leave_nothing_else_to_check(run, splits, schema):
    outcomes, rows = run(splits, schema=schema.remove(schema.get_field_index("agent_name")))
    assert failed(outcomes) == {(split, "schema"): "agent_name: missing, wanted string" for split in SPLITS}
    assert rows == SPLITS
    assert len(outcomes) == 3


def test_an_empty_split_passes(run, splits):
    assert failed(run({**splits, "validation": []})[0]) == {}


def test_what_is_not_given_is_not_looked_at(run, splits):
    outcomes, _ = run({"train": splits["train"]}, measure=None, corpus=None)
    assert {"prompt-tokens", "gold-passages", "answers-in-gold", "leakage-exact"}.isdisjoint(
        one.name for one in outcomes
    )


def test_near_duplicates_can_be_left_alone(run, splits):
    change(splits["train"], 3, question="in TEST who has the number 1 of test")
    change(splits["train"], 5, question="In test, who owns number 2 of test?", gold_passage_ids=["test-2"])
    without, _ = run(splits, near=False)
    outcomes, _ = run(splits)
    told = {(one.table, one.name) for one in outcomes if one.name in ("leakage-near", "leakage-similar")}
    assert {table for table, _ in told} == {"train", "validation"}
    assert ("train", "leakage-near") in failed(outcomes)
    assert [one for one in outcomes if (one.table, one.name) not in told] == without


def test_a_corpus_that_is_none_is_refused(run, splits, tmp_path):
    (tmp_path / "text").write_text("id,title,text\n")
    with pytest.raises(InputError, match="text: not parquet: it begins with 'id,title,text"):
        run(splits, corpus=tmp_path / "text")
