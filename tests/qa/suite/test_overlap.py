import pytest

from tasks.qa.suite.corpus import Golds
from tasks.qa.suite.overlap import leaks, repeated_ids, repeated_questions, shared_passages
from tasks.qa.suite.survey import survey

HELD = "Which river flows through the old capital of the northern province?"


@pytest.fixture
def make(question_row, write_rows):
    """A survey of questions: (question, answer, gold passages), ids are NAME-ROW unless given."""

    def build(name, *asked, ids=None):
        rows = [
            question_row(question, [answer], ["t"] * len(golds), list(golds), id=ids[n] if ids else f"{name}-{n}")
            for n, (question, answer, golds) in enumerate(asked)
        ]
        for row in rows:
            row["extra_info"]["hops"] = 1
        return survey(name, write_rows(name, rows), stage=True)

    return build


@pytest.mark.parametrize(
    ("asked", "answer", "column", "says"),
    [
        (HELD, "Oka", "leak_exact", "is row 1 of test"),
        (HELD.upper(), "Oka", "leak_exact", "is row 1 of test"),
        (f"{HELD[:-1]} ...", "Oka", "leak_exact", "is row 1 of test"),
        (HELD.replace("flows", "runs"), "Oka", "leak_near", "is near to row 1 of test"),
        (HELD.replace("northern", "southern"), "Dee", "leak_similar", "is similar to row 1 of test"),
    ],
)
def test_a_held_out_question_is_found_in_each_of_its_forms(make, asked, answer, column, says):
    test = make("test", ("Who?", "x", ()), (HELD, "Oka", ("7",)))
    train = make("train", *[(f"Who wrote the book number {n}?", "y", ()) for n in range(300)], (asked, answer, ("7",)))
    found = leaks(train, [test])
    assert [row for row, told in enumerate(found[column]) if told] == [300]
    assert found[column][300] == f"{asked!r} {says}, {HELD!r}"
    assert sum(told is not None for of in found.values() for told in of) == 1


def test_rows_without_a_question_are_no_leaks(make):
    assert not any(any(of) for of in leaks(make("train", ("", "x", ())), [make("test", ("", "x", ()))]).values())


def test_a_row_without_a_question_leaks_by_its_prompt(question_row, write_rows, make):
    rows = [question_row(name, ["x"], ["t"], []) for name in ("Who?", HELD)]
    rows[1]["extra_info"]["question"] = None
    found = leaks(survey("train", write_rows("train", rows), stage=True), [make("test", (HELD.upper(), "x", ()))])
    assert found["leak_exact"] == [None, f"{HELD!r} is row 0 of test, {HELD.upper()!r}"]


def test_long_questions_are_cut_in_messages(make):
    long = "word " * 1000
    (told,) = leaks(make("train", (long, "x", ())), [make("test", (long, "x", ()))])["leak_exact"]
    assert len(told) < 300


def test_repeated_questions_name_the_first_row(make):
    table = make(
        "train", ("Who is it?", "a", ()), ("What?", "b", ()), ("who is IT", "c", ()), ("", "d", ()), ("", "e", ())
    )
    assert repeated_questions(table) == [None, None, "'who is IT' as in row 0", None, None]


def test_repeated_ids_are_found_within_and_across_tables(make):
    asked = [(f"Who is {n}?", "a", ()) for n in range(4)]
    test = make("test", *asked, ids=[None, "q", "r", "s"])
    train = make("train", *asked, ids=["a", "b", "a", "q"])
    assert repeated_ids(train, [test]) == [None, None, "'a' as in row 0", "'q' as in row 1 of test"]
    assert repeated_ids(test, []) == [None] * 4


def test_ids_may_start_anew_in_every_source(make):
    asked = [(f"Who is {n}?", "a", ()) for n in range(4)]
    train = make("train", *asked, ids=["0", "0", "0", None])
    train.frame["data_source"] = ["nq", "hotpotqa", "nq", "nq"]
    test = make("test", *asked[:2], ids=["0", None])
    test.frame["data_source"] = ["hotpotqa", "nq"]
    assert repeated_ids(train, [test], by_source=True) == [None, "'0' as in row 0 of test", "'0' as in row 0", None]


def test_shared_gold_passages(make):
    train = make("train", ("A?", "x", ("1", "2")), ("B?", "x", ()), ("C?", "x", ("3",)), ("D?", "x", ("9",)))
    others = [make("validation", ("E?", "x", ("2",))), make("test", ("F?", "x", ("9", "8")))]
    assert shared_passages(train, others) == [
        "gold passage '2' is also that of row 0 of validation",
        "",
        "",
        "gold passage '9' is also that of row 0 of test",
    ]


def test_gold_passages_must_exist_and_hold_the_answers(make, write_corpus, tmp_path):
    corpus = write_corpus(
        tmp_path / "corpus.parquet",
        [("1", "Oka", "A river.", None), ("2", "Dee", "Flows in the north.", None), ("3", "Other", "Nothing.", None)],
    )
    table = make(
        "train",
        ("A?", "the river", ("2", "1")),
        ("B?", "Dee", ("2",)),  # in the title
        ("C?", "nor", ("2",)),  # part of a word
        ("D?", "yes", ("2",)),
        ("E?", "x", ("2", "lost")),
        ("F?", "x", ()),
    )
    golds = Golds(corpus, [table])
    assert golds.missing(table) == [None, None, None, None, "'lost' is not in the corpus", None]
    assert golds.hold_answers(table) == [True, True, False, None, False, None]
