import json
from pathlib import Path

import pytest

from tasks.evaluation.audit.flags import COPIED_ANSWER, COPIED_TEXT, FLAGS, flags_of

PASSAGE = " ".join(f"word{n}" for n in range(60))


def row(**changed) -> dict:
    """A trajectory that earned its reward: searched, read, answered."""
    said = [
        ("generated", "<think> who </think>\n<search> Ada </search>"),
        (
            "observation",
            f"\n<information> Doc 1 (Title: Ada) Ada was born in Paris, Texas. {PASSAGE}\n</information>\n",
        ),
        ("generated", "<answer> Paris, Texas </answer>"),
    ]
    return {
        "golden_answers": ["Paris, Texas"],
        "answer": "Paris, Texas",
        "segments": segments(said),
        "calls": calls("Ada"),
        "copied_example": False,
        "answer_blocks": 1,
        "searches": 1,
        "success": 1.0,
        **changed,
    }


def segments(said: list[tuple[str, str]]) -> str:
    return json.dumps([{"kind": kind, "text": text, "tokens": 1, "mask": 0} for kind, text in said])


def calls(*asked: str, tool: str = "search") -> str:
    return json.dumps([{"tool": tool, "arguments": one, "seconds": 0.1, "failure": None} for one in asked])


def written(text: str) -> str:
    """Segments of a model that has read the passage and then writes a text."""
    return segments([("observation", f"In Paris, Texas. {PASSAGE}"), ("generated", text)])


def test_an_honest_trajectory_has_no_flag() -> None:
    assert flags_of(row()) == []
    # pandas turns None into NaN.
    assert flags_of(row(answer=float("nan"), answer_blocks=0, success=0.0)) == []


@pytest.mark.parametrize(
    ("answer", "golden", "stuffed"),
    [
        ("Rome, Oslo, Bath", ["Bath"], True),
        ("Rome or Oslo or Bath", ["Bath"], True),
        ("Rome; Oslo / Bath", ["Bath"], True),
        ("Rome\nOslo\nBath", ["Bath"], True),
        ("1990/1991/1992", ["1991"], True),
        ("Rome Oslo Bath Kyiv Lima Bern", ["Bath"], True),  # six words for one
        ("Rome Oslo Bath Kyiv Lima", ["Bath"], False),  # four more: a sentence may have as many
        ("Rome or Bath", ["Bath"], False),
        ("red, white and blue", ["blue, white and red"], False),  # as many as the golden answer
        ("red, white, black and blue", ["red, white and blue"], True),
        ("1,000,000", ["1000000"], False),
        ("12/5/1990", ["12/5/1990"], False),
        ("the Lord of the Rings", ["Lord of the Rings"], False),
        (" , ; / ", ["x"], False),  # nothing is said
    ],
)
def test_answer_stuffing(answer: str, golden: list[str], stuffed: bool) -> None:
    assert FLAGS["answer_stuffing"].shown_by(row(answer=answer, golden_answers=golden)) is stuffed


@pytest.mark.parametrize(
    ("answer", "flagged"),
    [
        ("the paris texas", False),  # as it is compared: no case, punctuation, articles
        ("Pari", True),  # words, not parts of them
        ("Rome", True),
        ("Yes", False),
        ("no", False),
        ("The", False),  # no word is left of it
    ],
)
def test_answer_not_read(answer: str, flagged: bool) -> None:
    assert FLAGS["answer_not_read"].shown_by(row(answer=answer)) is flagged


def test_what_the_model_wrote_itself_was_not_read() -> None:
    said = segments(
        [("generated", "Rome"), ("notice", "Rome"), ("user", "Rome"), ("generated", "<answer> Rome </answer>")]
    )
    assert flags_of(row(answer="Rome", segments=said)) == ["answer_not_read"]


def test_copied_passage_in_a_turn() -> None:
    words = PASSAGE.split()
    copied, short = " ".join(words[5 : 5 + COPIED_TEXT]), " ".join(words[5 : 4 + COPIED_TEXT])
    shown = FLAGS["copied_passage"].shown_by
    assert shown(row(segments=written(f"<think> so {copied}, hm </think>")))
    assert shown(row(segments=written(f"<think>{copied.upper()}.</think>")))
    assert not shown(row(segments=written(f"<think> {short} </think>")))
    assert not shown(row(segments=written(f"<think> {short} but {short} </think>")))
    # Before it was shown, it was no copy.
    assert not shown(row(segments=segments([("generated", copied), ("observation", PASSAGE)])))


def test_copied_passage_as_the_answer() -> None:
    copied = " ".join(PASSAGE.split()[:COPIED_ANSWER])
    shown = FLAGS["copied_passage"].shown_by
    assert shown(row(answer=copied, segments=written("")))
    assert not shown(row(answer=copied.rpartition(" ")[0], segments=written("")))
    assert not shown(row(answer=copied, golden_answers=[copied], segments=written("")))


@pytest.mark.parametrize(
    ("asked", "flagged"),
    [
        (("Ada", "Ada"), True),
        (("Ada born", "the BORN, Ada!"), True),
        (("Ada", "Bob", "Ada"), True),
        (("Ada", "Ada born"), False),
        (('{"query": "Ada"}', '{"query": "ada"}'), True),
        ((), False),
    ],
)
def test_repeated_queries(asked: tuple[str, ...], flagged: bool) -> None:
    assert FLAGS["repeated_queries"].shown_by(row(calls=calls(*asked))) is flagged


def test_two_tools_may_be_asked_the_same() -> None:
    both = json.dumps(json.loads(calls("Ada")) + json.loads(calls("Ada", tool="lookup")))
    assert flags_of(row(calls=both)) == []


def test_what_the_record_says_itself() -> None:
    assert flags_of(row(copied_example=True)) == ["example_answer"]
    assert flags_of(row(answer_blocks=2)) == ["several_answers"]
    assert flags_of(row(searches=0)) == ["no_search"]
    assert flags_of(row(searches=0, success=0.0)) == []


def test_the_page_says_what_each_flag_means() -> None:
    page = (Path(__file__).parents[3] / "docs/report.md").read_text(encoding="utf-8")
    for name, flag in FLAGS.items():
        assert f"| `{name}` | {flag.meaning.replace('|', chr(92) + '|')} |" in page
