import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.agent.demonstrations import SCHEMA, Demonstration, collect, demonstrate
from tasks.agent.demonstrations.form import is_yes_no
from tasks.agent.episode import Generation, run_episode
from tasks.errors import UnavailableError


@pytest.fixture(scope="session")
def make(setup):
    def of(row, *, think: bool = False, **more):
        return asyncio.run(demonstrate(row, **{"setup": setup, "think": think, **more}))

    return of


def test_a_two_hop_demonstration_in_full(make, question_row) -> None:
    made = make(question_row("Where?", ["big town"], ["Ada", "Firm"], ["1", "2"]))
    assert [(segment.text, segment.loss) for segment in made.segments] == [
        ("<search> Ada </search>", True),
        ("\n<information>", False),
        (" Doc 1 (Title: Ada) Ada works for Firm.\n", False),
        ("</information>\n", False),
        ("<search> Firm </search>", True),
        ("\n<information>", False),
        (" Doc 1 (Title: Firm) Firm is based in the Big Town, by the sea.\n", False),
        ("</information>\n", False),
        ("<answer> big town </answer>", True),
    ]
    assert made.found_answer_context and (made.searches, made.hops, made.query_policy) == (2, 2, "titles")
    assert made.record()["messages"][-1] == {"role": "assistant", "content": made.chosen}
    assert set(made.record()) == set(SCHEMA.names)


def test_thoughts_open_every_turn(make, question_row) -> None:
    made = make(question_row("Where?", ["Big Town"], ["Ada", "Firm"], ["1", "2"]), think=True)
    turns = [segment.text for segment in made.segments if segment.loss]
    assert [turn.split("\n")[0] for turn in turns] == [
        "<think> First I look up Ada. </think>",
        "<think> Next I look up Firm. </think>",
        "<think> Now I can answer. </think>",
    ]


def test_an_impatient_searcher_gives_up_after_one_search(make, question_row) -> None:
    row = question_row("Where?", ["Big Town"], ["Ada", "Firm"], ["1", "2"])
    made = make(row, give_up=True)
    assert made.gave_up and made.searches == 1
    assert made.chosen.startswith("<search> Ada </search>") and made.chosen.endswith("<answer> unknown </answer>")
    assert "Big Town" not in made.chosen
    assert made.record()["gave_up"]
    patient = make(row)
    assert not patient.gave_up and patient.chosen.startswith(made.chosen.removesuffix("<answer> unknown </answer>"))
    # One search is answered all the same.
    for single in (
        make(question_row("Who?", ["Firm"], ["Ada"], ["1"]), give_up=True),
        make(question_row("Who?", ["Firm"], ["Ada", "Firm"], ["1", "2"]), give_up=True, policies=["answer"]),
    ):
        assert not single.gave_up and single.chosen.endswith("<answer> Firm </answer>")


def test_played_back_it_is_the_episode_itself(make, setup, question_row) -> None:
    row = question_row("Where?", ["Big Town"], ["Ada", "Firm"], ["1", "2"])
    made, tokenizer = make(row), setup.chat.tokenizer
    turns = iter([segment.text for segment in made.segments if segment.loss])

    async def generate(prompt_ids, *, max_tokens, stop):
        return Generation(tokenizer.encode(next(turns)), None)

    trajectory = asyncio.run(run_episode(row, generate=generate, setup=setup))
    ids = [token for segment in made.segments for token in tokenizer.encode(segment.text)]
    mask = [int(segment.loss) for segment in made.segments for _ in segment.text]
    assert (trajectory.response_ids, trajectory.response_mask) == (ids, mask)
    assert trajectory.em == 1.0 and trajectory.format_valid


@pytest.mark.parametrize(
    ("answers", "titles", "gold", "reason"),
    [
        (["x"], [], [], "no_titles"),
        (["Big Town"], ["Ada", "Firm", "Ada", "Firm"], ["1"], "too_many_turns"),
        (["Big Town"], ["Ada", "Unknown"], ["1", "2"], "gold_passage_not_found"),
        (["Big Town"], ["Ada", "Firm"], ["1", "3"], "gold_passage_not_found"),
        (["Atlantis"], ["Ada"], ["1"], "answer_not_in_context"),
        (["own"], ["Firm"], ["2"], "answer_not_in_context"),  # a part of a word is no answer
        (["Answer"], ["Tall"], ["3"], "answer_not_in_context"),  # it was cut off
        (["Firm"], [" "], ["1"], "not_in_form"),
        (["Firm"], ["Ada", "Broken"], ["1"], "search_failed"),
        (["Firm"], ["Ada", "Blank"], ["1"], "search_failed"),
        (["Firm"], ["Ada", "Spent"], ["1"], "search_failed"),
        (["a </answer> <search> b"], ["Ada"], ["1"], "not_in_form"),
    ],
)
def test_what_would_teach_guessing_is_dropped(make, setup, question_row, answers, titles, gold, reason: str) -> None:
    assert make(question_row("q", answers, titles, gold)) == reason
    assert not setup.tools.open  # whatever the end, the tools forget it


@pytest.mark.parametrize(("title", "failure"), [("Away", "unavailable"), ("Dead", "worker"), ("Slow", "timeout")])
def test_a_search_that_cannot_be_had_now_drops_nothing(make, setup, question_row, title: str, failure: str) -> None:
    row = question_row("q", ["Firm"], ["Ada", title], ["1"])
    with pytest.raises(UnavailableError, match=rf"tool search cannot be had now: .*\({failure}\)"):
        make(row, policies=["titles", "answer"])
    assert not setup.tools.open


@pytest.mark.parametrize(
    "change", [{"max_turn_tokens": 23}, {"max_response_tokens": 114}], ids=["a turn", "the response"]
)
def test_what_no_episode_could_hold_is_dropped(make, make_setup, question_row, change: dict) -> None:
    row = question_row("q", ["Firm"], ["Ada"], ["1"])
    # 22 + 14 + 40 + 15 + 23 characters and the end token; the longest turn is the answer with it, 24.
    exact = {"max_turns": 2, "max_turn_tokens": 24, "max_response_tokens": 115, "max_observation_tokens": 150}
    assert isinstance(make(row, setup=make_setup(**exact)), Demonstration)
    assert make(row, setup=make_setup(**{**exact, **change})) == "too_long"


def test_the_answer_is_searched_in_one_search(make, question_row) -> None:
    made = make(question_row("Where?", ["Big Town"], [], ["1"]), policies=["answer"])
    assert [segment.text for segment in made.segments if segment.loss] == [
        "<search> Big Town </search>",
        "<answer> Big Town </answer>",
    ]
    # Gold passage 1 was not found, and need not be: the answer was shown.
    assert made.query_policy == "answer" and made.found_answer_context and made.searches == 1
    assert make(question_row("Where?", ["Atlantis"], [], []), policies=["answer"]) == "answer_not_in_context"
    assert make(question_row("Same?", ["no"], ["Ada"], ["1"]), policies=["answer"]) == "yes_no_answer"


def test_the_keywords_are_searched_in_one_search(make, question_row) -> None:
    made = make(question_row("What is by the sea?", ["Big Town"], [], ["1"]), policies=["keywords"])
    assert [segment.text for segment in made.segments if segment.loss] == [
        "<search> sea </search>",
        "<answer> Big Town </answer>",
    ]
    assert made.query_policy == "keywords" and made.found_answer_context and made.searches == 1
    # No passage holds "town sea".
    row = question_row("Which town is by the sea?", ["Big Town"], [], [])
    assert make(row, policies=["keywords"]) == "answer_not_in_context"


@pytest.mark.parametrize(
    ("answers", "titles", "gold", "policies", "policy"),
    [
        (["Firm"], ["Ada"], ["1"], ["titles", "answer"], "titles"),
        (["Firm"], ["Ada"], ["1"], ["answer", "titles"], "answer"),
        (["Firm"], ["Ada"], ["1", "3"], ["titles", "answer"], "answer"),  # passage 3 was not found by title
        (["Firm"], [], [], ["titles", "answer"], "answer"),
        (["yes"], ["Ada"], ["1"], ["answer", "titles"], "titles"),
    ],
)
def test_the_next_policy_is_tried(make, question_row, answers, titles, gold, policies, policy: str) -> None:
    assert make(question_row("q", answers, titles, gold), policies=policies).query_policy == policy


def test_the_reason_is_that_of_the_last_policy_that_could_search(make, question_row) -> None:
    row = question_row("q", ["Atlantis"], [], [])
    assert make(row, policies=["answer", "titles"]) == "answer_not_in_context"
    assert make(question_row("Who?", ["yes"], [], []), policies=["titles", "answer"]) == "yes_no_answer"


def test_yes_and_no_need_no_support_by_titles(make, question_row) -> None:
    made = make(question_row("Same?", ["Yes"], ["Ada", "Firm"], ["1", "2"]))
    assert made.segments[-1].text == "<answer> Yes </answer>" and not made.found_answer_context
    assert is_yes_no(["no."]) and not is_yes_no(["no", "never"])


def test_the_answer_is_the_golden_one_that_was_read(make, question_row) -> None:
    made = make(question_row("q", ["Large Town", "Big Town"], ["Firm"], ["2"]))
    assert made.segments[-1].text == "<answer> Big Town </answer>"


def test_rows_without_passage_ids_go_by_title(make, question_row) -> None:
    assert isinstance(make(question_row("q", ["Firm"], ["Ada"], [])), Demonstration)
    assert make(question_row("q", ["Firm"], ["Unknown"], [])) == "gold_passage_not_found"


@settings(max_examples=60)
@given(
    st.text(max_size=30), st.text(max_size=30), st.lists(st.sampled_from(["titles", "answer", "keywords"]), min_size=1)
)
def test_every_text_gives_valid_turns_or_none(make, setup, question_row, question, title, policies) -> None:
    made = make(question_row(question, ["Firm", title], [title], []), policies=policies)
    if isinstance(made, Demonstration):
        kinds = [setup.protocol.action(segment.text).kind for segment in made.segments if segment.loss]
        assert kinds == ["calls"] * made.searches + ["answer"]


def test_collecting_stops_and_counts() -> None:
    seen: list[int] = []

    def demonstration(question: str) -> Demonstration:
        return Demonstration(question, "s", [], question, ["x"], 1, "titles", question != "yes?", False, [], 1)

    results = {"a": demonstration("a"), "b": "too_long", "c": "answer_not_in_context", "yes?": demonstration("yes?")}

    async def of(row):
        return results[row["extra_info"]["question"]]

    rows = iter([{"extra_info": {"question": name}} for name in ("a", "b", "c", "yes?", "never")])
    collection = asyncio.run(collect(rows, 2, of, lambda state: seen.append(len(state.made))))
    assert [made.question for made in collection.made] == ["a", "yes?"]
    assert collection.dropped == {"too_long": 1, "answer_not_in_context": 1}
    assert collection.answer_in_context == 0.5  # a of a and c; yes? is left out
    assert seen == [1, 1, 1, 2]
    assert len(list(rows)) == 1  # it read no further
    assert asyncio.run(collect(iter([{}]), 0, of, lambda state: None)).made == []


def test_no_trajectory_with_an_answer_to_find_has_no_share() -> None:
    assert asyncio.run(collect([], 2, lambda row: None, lambda state: None)).answer_in_context is None
