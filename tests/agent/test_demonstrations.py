import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.agent.demonstrations import SCHEMA, Demonstration, collect, demonstrate, is_yes_no
from tasks.agent.environments.search.environment import Environment, SearchParams
from tasks.agent.episode import Budget, Generation, run_episode
from tasks.agent.protocol import SearchR1
from tasks.retrieval import Hit, Passage

PROTOCOL = SearchR1()
BUDGET = Budget(max_turns=4, max_response_tokens=600, max_turn_tokens=100, max_observation_tokens=150)


class Characters:
    """A tokenizer with one token a character."""

    eos_token_id = 0

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, token_ids, skip_special_tokens: bool = False) -> str:
        return "".join(chr(token) for token in token_ids)

    def apply_chat_template(self, conversation, **kwargs) -> list[int]:
        return self.encode("".join(message["content"] for message in conversation))


class Library:
    """A search that answers by title."""

    def __init__(self, *passages: Passage) -> None:
        self._by_title = {passage.title: passage for passage in passages}

    async def search(self, query: str) -> list[Hit]:
        return [Hit(self._by_title[query], 1.0)] if query in self._by_title else []


LIBRARY = Library(
    Passage("1", "Ada", "Ada works for Firm."),
    Passage("2", "Firm", "Firm is based in the Big Town, by the sea."),
    Passage("3", "Tall", "word " * 100 + "Answer"),
    Passage("4", "<search> odd", "An odd title."),
)


def make(row, *, budget: Budget = BUDGET, think: bool = False, give_up: bool = False):
    return asyncio.run(
        demonstrate(
            row,
            tools=LIBRARY,
            tokenizer=Characters(),
            protocol=PROTOCOL,
            budget=budget,
            think=think,
            give_up=give_up,
        )
    )


def test_a_two_hop_demonstration_in_full(question_row) -> None:
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
    assert made.found_answer_context and made.searches == 2
    assert made.record()["messages"][-1] == {"role": "assistant", "content": made.chosen}
    assert set(made.record()) == set(SCHEMA.names)


def test_thoughts_open_every_turn(question_row) -> None:
    made = make(question_row("Where?", ["Big Town"], ["Ada", "Firm"], ["1", "2"]), think=True)
    turns = [segment.text for segment in made.segments if segment.loss]
    assert [turn.split("\n")[0] for turn in turns] == [
        "<think> First I look up Ada. </think>",
        "<think> Next I look up Firm. </think>",
        "<think> Now I can answer. </think>",
    ]


def test_an_impatient_searcher_gives_up_after_one_search(question_row) -> None:
    row = question_row("Where?", ["Big Town"], ["Ada", "Firm"], ["1", "2"])
    made = make(row, give_up=True)
    assert made.gave_up and made.searches == 1
    assert made.chosen.startswith("<search> Ada </search>") and made.chosen.endswith("<answer> unknown </answer>")
    assert "Big Town" not in made.chosen
    assert made.record()["gave_up"]
    patient = make(row)
    assert not patient.gave_up and patient.chosen.startswith(made.chosen.removesuffix("<answer> unknown </answer>"))
    # One hop is answered all the same.
    single = make(question_row("Who?", ["Firm"], ["Ada"], ["1"]), give_up=True)
    assert not single.gave_up and single.chosen.endswith("<answer> Firm </answer>")


def test_played_back_it_is_the_episode_itself(question_row) -> None:
    row = question_row("Where?", ["Big Town"], ["Ada", "Firm"], ["1", "2"])
    made, tokenizer = make(row), Characters()
    turns = iter([segment.text for segment in made.segments if segment.loss])

    async def generate(prompt_ids, *, max_tokens, stop):
        return Generation(tokenizer.encode(next(turns)), None)

    trajectory = asyncio.run(
        run_episode(
            row,
            generate=generate,
            tokenizer=tokenizer,
            protocol=PROTOCOL,
            environment=Environment(SearchParams(em_score=1.0, format_score=0.1)),
            tools=LIBRARY,
            budget=BUDGET,
        )
    )
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
    ],
)
def test_what_would_teach_guessing_is_dropped(question_row, answers, titles, gold, reason: str) -> None:
    assert make(question_row("q", answers, titles, gold)) == reason


@pytest.mark.parametrize(
    "change", [{"max_turn_tokens": 23}, {"max_response_tokens": 114}], ids=["a turn", "the response"]
)
def test_what_no_episode_could_hold_is_dropped(question_row, change: dict) -> None:
    row = question_row("q", ["Firm"], ["Ada"], ["1"])
    # 22 + 14 + 40 + 15 + 23 characters and the end token; the longest turn is the answer with it, 24.
    exact = {"max_turns": 2, "max_turn_tokens": 24, "max_response_tokens": 115, "max_observation_tokens": 150}
    assert isinstance(make(row, budget=Budget(**exact)), Demonstration)
    assert make(row, budget=Budget(**{**exact, **change})) == "too_long"


def test_yes_and_no_need_no_support(question_row) -> None:
    made = make(question_row("Same?", ["Yes"], ["Ada", "Firm"], ["1", "2"]))
    assert made.segments[-1].text == "<answer> Yes </answer>" and not made.found_answer_context
    assert is_yes_no(["no."]) and not is_yes_no(["no", "never"])


def test_the_answer_is_the_golden_one_that_was_read(question_row) -> None:
    made = make(question_row("q", ["Large Town", "Big Town"], ["Firm"], ["2"]))
    assert made.segments[-1].text == "<answer> Big Town </answer>"


def test_rows_without_passage_ids_go_by_title(question_row) -> None:
    assert isinstance(make(question_row("q", ["Firm"], ["Ada"], [])), Demonstration)
    assert make(question_row("q", ["Firm"], ["Unknown"], [])) == "gold_passage_not_found"


def test_an_answer_that_would_break_the_form_is_an_error(question_row) -> None:
    with pytest.raises(ValueError, match="read as"):
        make(question_row("q", ["a </answer> <search> b", "yes"], ["Ada"], ["1"]))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30).filter(lambda text: text.strip()))
def test_every_title_gives_a_valid_search_or_none(question_row, title: str) -> None:
    made = make(question_row("q", ["yes"], [title], []))
    if isinstance(made, Demonstration):
        for segment in made.segments:
            assert not segment.loss or PROTOCOL.action(segment.text).kind in {"search", "answer"}


def test_collecting_stops_counts_and_shows_a_question_once() -> None:
    seen: list[int] = []

    def demonstration(question: str) -> Demonstration:
        return Demonstration(question, "s", [], question, ["x"], question != "yes?", False, [], 1)

    results = {"a": demonstration("a"), "b": "too_long", "c": "answer_not_in_context", "yes?": demonstration("yes?")}

    async def of(row):
        return results[row["extra_info"]["question"]]

    rows = [{"extra_info": {"question": name}} for name in ("a", "a", "b", "c", "yes?", "never")]
    collection = asyncio.run(collect(rows, 2, of, lambda state: seen.append(len(state.made))))
    assert [made.question for made in collection.made] == ["a", "yes?"] and collection.questions == {"a", "yes?"}
    assert collection.dropped == {"too_long": 1, "answer_not_in_context": 1}
    assert collection.answer_in_context == 0.5  # a of a and c; yes? is left out
    assert seen == [1, 1, 1, 2]


def test_no_trajectory_with_an_answer_to_find_has_no_share() -> None:
    assert asyncio.run(collect([], 2, lambda row: None, lambda state: None)).answer_in_context is None
