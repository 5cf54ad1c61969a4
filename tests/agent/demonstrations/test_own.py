import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.agent import protocols
from tasks.agent.demonstrations import demonstrate
from tasks.agent.demonstrations.held_out import HeldOut
from tasks.agent.demonstrations.own import read_own
from tasks.errors import InputError, UnavailableError
from tasks.qa.near import Texts

ADA = "<information> Doc 1 (Title: Ada) Ada works for Firm.\n</information>"
FIRM = "<information> Doc 1 (Title: Firm) Firm is based in the Big Town, by the sea.\n</information>"
CHOSEN = f"<search> Ada </search>\n{ADA}\n<search> Firm </search>\n{FIRM}\n<answer> big town </answer>"
GOOD = {"question": "Where does Ada work?", "golden_answers": ["Big Town"], "chosen": CHOSEN}
USER = {"role": "user", "content": f"Q: {GOOD['question']}"}
NOTHING = HeldOut({})


@pytest.fixture
def read(tmp_path: Path, setup):
    """Reads files of these rows; a row that is bytes is written as it is."""

    def of(*rows: Any, max_faulty: float = 0.0, held_out: HeldOut = NOTHING, **more: Any):
        path = tmp_path / "own.jsonl"
        lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
        path.write_bytes(b"\n".join(lines))
        return asyncio.run(
            read_own(
                [path],
                max_faulty=max_faulty,
                held_out=held_out,
                prompt=lambda question: [{"role": "user", "content": f"Asked: {question}"}],
                **{"max_prompt_tokens": 100, "setup": setup, **more},
            )
        )

    return of


def test_a_row_becomes_what_an_episode_would_have_been(read, setup, question_row) -> None:
    own = read(GOOD)
    ((where, made),) = own.taken
    generated = asyncio.run(
        demonstrate(
            question_row("Where does Ada work?", ["big town"], ["Ada", "Firm"], ["1", "2"]), think=False, setup=setup
        )
    )
    assert made.segments == generated.segments
    assert where.endswith("own.jsonl, line 1") and (own.rows, own.faulty, own.first) == (1, {}, None)
    assert made.prompt == [{"role": "user", "content": "Asked: Where does Ada work?"}]
    assert (made.query_policy, made.data_source, made.hops, made.searches) == ("own", "own", 2, 2)
    assert made.found_answer_context and not made.gave_up and made.golden_answers == ["Big Town"]


@pytest.mark.parametrize(
    "row",
    [
        {**GOOD, "messages": [{"role": "system", "content": "Search."}, USER]},
        {
            **{key: value for key, value in GOOD.items() if key != "chosen"},
            "messages": [USER, {"role": "assistant", "content": f" {CHOSEN}\n"}],
        },
        {**GOOD, "messages": None, "found_answer_context": True, "id": "7", "more": [1]},
        {**GOOD, "chosen": CHOSEN.replace("\n", "\n\n   ").replace(" (Title", "(Title")},
        {
            **GOOD,
            "chosen": "<think> Who? </think> I look. " + CHOSEN.replace("<answer>", "<think> So. </think><answer>"),
        },
    ],
    ids=["prompt apart", "messages alone", "further keys", "white space", "thoughts"],
)
def test_forms_that_are_taken(read, row: dict) -> None:
    assert len(read(row).taken) == 1


def test_generated_text_carries_loss_and_shown_text_does_not(read) -> None:
    thoughtful = {**GOOD, "chosen": "<think> Who? </think>\n" + CHOSEN}
    made = read(thoughtful).taken[0][1]
    assert [segment.text for segment in made.segments if segment.loss] == [
        "<think> Who? </think>\n<search> Ada </search>",
        "<search> Firm </search>",
        "<answer> big town </answer>",
    ]
    assert "".join(s.text for s in made.segments if not s.loss) == f"\n{ADA}\n\n{FIRM}\n"


def test_byte_order_mark_line_ends_and_blank_lines_do_no_harm(read) -> None:
    row = json.dumps(GOOD).encode()
    own = read(b"\xef\xbb\xbf" + row + b"\r", b"", json.dumps({**GOOD, "question": "Where else?"}).encode())
    assert [where.rpartition(", ")[2] for where, _ in own.taken] == ["line 1", "line 3"]


SHORT = "<answer> big town </answer>"


@pytest.mark.parametrize(
    ("row", "reason", "says"),
    [
        (b"{", "not_json", "column 2"),
        (b'"\xff"', "not_utf8", "at byte 2"),
        (b"[" * 100_000, "not_json", "can be read: nested too deeply"),
        (b"9" * 5000, "not_json", "can be read: a number of thousands of digits"),
        (b"[1]", "not_an_object", "must be an object with keys, got a list"),
        ({**GOOD, "question": " "}, "empty", "question: is empty"),
        ({**GOOD, "question": None}, "wrong_type", "question: .*, got null"),
        ({**GOOD, "question": "\ud800"}, "wrong_type", "question: "),
        ({**GOOD, "golden_answers": []}, "empty", "golden_answers: is empty"),
        ({**GOOD, "golden_answers": [""]}, "empty", r"golden_answers\.0: is empty"),
        ({**GOOD, "golden_answers": [float("nan")]}, "wrong_type", r"golden_answers\.0: .*, got NaN"),
        ({**GOOD, "golden_answers": "Big Town"}, "wrong_type", "golden_answers: .*, got a text"),
        ({"question": "q", "golden_answers": ["x"]}, "missing_key", "'chosen' is missing"),
        ({"golden_answers": ["x"], "chosen": SHORT}, "missing_key", "'question' is missing"),
        ({**GOOD, "messages": [{"role": "user", "content": "Another?"}]}, "messages", "does not hold the question"),
        ({**GOOD, "messages": [{"role": "tool", "content": ""}]}, "wrong_type", r"messages\.0\.role"),
        ({**GOOD, "messages": [{"role": "assistant", "content": CHOSEN}]}, "messages", "must be a prompt and one"),
        (
            {**GOOD, "messages": [USER, {"role": "assistant", "content": "x"}]},
            "messages",
            "not what chosen says",
        ),
        ({**GOOD, "chosen": SHORT.replace("</answer>", "")}, "tags", "<answer> is never closed"),
        ({**GOOD, "chosen": "</think>" + SHORT}, "tags", "</think> at character 0 is not balanced"),
        ({**GOOD, "chosen": f"<think>{SHORT}</think>"}, "tags", "<answer> at character 7 is not balanced"),
        ({**GOOD, "chosen": "big town"}, "tags", "order of blocks: ''"),
        ({**GOOD, "chosen": SHORT * 2}, "tags", "order of blocks: 'answer answer'"),
        ({**GOOD, "chosen": f"<search> Ada </search>{SHORT}"}, "tags", "order of blocks: 'search answer'"),
        ({**GOOD, "chosen": f"{ADA}{SHORT}"}, "tags", "order of blocks: 'information answer'"),
        ({**GOOD, "chosen": f"<search> </search>{ADA}{SHORT}"}, "tags", "turn 1 does not end with its search"),
        ({**GOOD, "chosen": f"<search> Ada </search> so {ADA}{SHORT}"}, "tags", "turn 1 does not end with its search"),
        ({**GOOD, "chosen": f"{SHORT} or so"}, "tags", "turn 1 does not end with its answer"),
        ({**GOOD, "chosen": f"<|im_start|>{SHORT}"}, "tags", "chat mark"),
        (
            {**GOOD, "chosen": CHOSEN.replace("Ada works for", "Ada left")},
            "observation",
            r"for 'Ada': 'Doc .*left Firm\.' instead of 'Doc .*works for Firm\.'",
        ),
        ({**GOOD, "chosen": f"<search> Bo </search>{ADA}{SHORT}"}, "observation", "instead of '.*No results"),
        (
            {**GOOD, "chosen": CHOSEN.replace("big town", "sea")},
            "wrong_answer",
            "answers 'sea', none of golden_answers",
        ),
        (
            {**GOOD, "chosen": f"<search> Ada </search>{ADA}" * 4 + SHORT},
            "too_many_turns",
            "5 turns, an episode has 4",
        ),
        ({**GOOD, "chosen": f"<think> {'so ' * 40}</think>{CHOSEN}"}, "too_long", "longer than an episode's"),
    ],
)
def test_faulty_rows_are_refused_or_counted(read, row: Any, reason: str, says: str) -> None:
    with pytest.raises(
        InputError, match=rf"own\.jsonl, line 2: .*{says}.*\(faulty: 1 of 2 .*: 1 {reason}\); "
    ) as error:
        read({**GOOD, "question": "Where is it?"}, row)
    assert "\n" not in str(error.value)
    own = read({**GOOD, "question": "Where is it?"}, row, max_faulty=0.5)
    assert own.faulty == {reason: 1} and own.first.reason == reason and (own.rows, len(own.taken)) == (2, 1)


@pytest.mark.parametrize(
    "question",
    ["Where does Ada work?", "where does ADA work", "Where does Ada live?"],
    ids=["same", "normalised", "near"],
)
def test_a_held_out_question_is_refused_in_each_of_its_forms(read, question: str) -> None:
    texts = Texts(["Who is Bo?", "Where does Ada work?"], [["x"], ["big town"]], [[], []])
    held_out = HeldOut({Path("test.parquet"): texts})
    says = r"line 1: question: .* is in a split that measures: test\.parquet, row 1 .*take it out"
    with pytest.raises(InputError, match=says):
        read({**GOOD, "question": question}, held_out=held_out)
    assert len(read({**GOOD, "question": "Which sea is it?"}, held_out=held_out).taken) == 1


def test_a_question_is_shown_once(read) -> None:
    with pytest.raises(InputError, match=r"line 2: .*comes twice, first at .*own\.jsonl, line 1 .*keep one"):
        read(GOOD, {**GOOD, "question": "where does Ada work"})


def test_a_huge_text_does_not_fill_the_line(read) -> None:
    huge = {**GOOD, "question": "why " * 250_000}
    for rows in ([huge, huge], [{**huge, "messages": [USER]}], [{**GOOD, "chosen": SHORT * 1000}]):
        with pytest.raises(InputError) as error:
            read(*rows)
        assert len(str(error.value)) < 600


def test_the_limit_is_a_share_of_all_rows(read) -> None:
    rows = [{**GOOD, "question": f"Question {letter}"} for letter in "abcdefgh"] + [{}, {}]
    assert len(read(*rows, max_faulty=0.2).taken) == 8
    with pytest.raises(
        InputError, match=r"line 9: key 'question' is missing \(faulty: 2 of 10 .*raise demos\.max_faulty, 0\.19"
    ):
        read(*rows, max_faulty=0.19)


def test_yes_and_no_need_no_support(read) -> None:
    own = read({**GOOD, "golden_answers": ["yes"], "chosen": f"<search> Ada </search>{ADA}<answer> Yes </answer>"})
    assert not own.taken[0][1].found_answer_context


def test_an_answer_without_a_search_is_an_episode_too(read) -> None:
    made = read({**GOOD, "chosen": SHORT}).taken[0][1]
    assert (made.searches, made.hops, made.found_answer_context) == (0, 1, False)


def test_a_question_keeps_the_budget_of_the_prompt(read) -> None:
    # "Asked: Where does Ada work?" has 27 characters.
    assert len(read(GOOD, max_prompt_tokens=27).taken) == 1
    with pytest.raises(InputError, match=r"question: its prompt has 27 tokens, not 26 .*1 too_long"):
        read(GOOD, max_prompt_tokens=26)


@pytest.mark.parametrize("name", [name for name in protocols.PROTOCOLS if name != "search-r1"])
def test_another_protocol_has_no_own_demonstrations(read, setup, name: str) -> None:
    other = replace(setup, protocol=protocols.create(name, ["search"]))
    with pytest.raises(InputError, match=rf"^demos\.files: .* form of search-r1, and episode\.protocol is {name};"):
        read(GOOD, setup=other)


def test_a_search_that_fails_makes_a_row_faulty(read) -> None:
    broken = {**GOOD, "chosen": CHOSEN.replace("<search> Ada", "<search> Broken")}
    with pytest.raises(InputError, match=r"the search for 'Broken' has failed .*: 1 search_failed\)"):
        read(broken)


@pytest.mark.parametrize("query", ["Away", "Dead", "Slow"])
def test_a_search_that_cannot_be_had_now_makes_no_row_faulty(read, query: str) -> None:
    with pytest.raises(UnavailableError, match="tool search cannot be had now"):
        read({**GOOD, "chosen": CHOSEN.replace("<search> Ada", f"<search> {query}")}, max_faulty=1.0)


def test_a_longer_budget_is_kept(read, make_setup) -> None:
    long = {**GOOD, "chosen": f"<think> {'so ' * 40}</think>{CHOSEN}"}
    assert len(read(long, setup=make_setup(max_turn_tokens=200)).taken) == 1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "no such file"),
        (Path.mkdir, "is a folder, not a file"),
        (Path.touch, "the file is empty"),
        (lambda path: path.write_bytes(b"\xef\xbb\xbf\r\n \n"), "holds no rows"),
    ],
)
def test_files_that_are_none(tmp_path: Path, setup, make, says: str) -> None:
    path = tmp_path / "own.jsonl"
    make(path)
    with pytest.raises(InputError, match=rf"own\.jsonl: .*{says}"):
        asyncio.run(
            read_own(
                [path], max_faulty=1.0, held_out=NOTHING, prompt=lambda question: [], max_prompt_tokens=1, setup=setup
            )
        )
