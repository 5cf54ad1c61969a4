"""Masks: 1 on exactly the ids that the engine gave, whatever a trajectory holds, in every protocol.

What is expected is computed from the engine's own record of what it was asked and what it gave, never from segments.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.episode import Generation, Setup, run_episode
from tasks.agent.protocols import PROTOCOLS, create
from tasks.agent.toolbox import Context, Limits, Passage, Result, State, Tool, Toolbox
from tasks.agent.trajectory import Trajectory

NAMES = sorted(PROTOCOLS)
every = pytest.mark.parametrize("name", NAMES)


class Query(BaseModel):
    query: str


class Search(Tool):
    """Finds the query itself, so that what the policy asks for decides what it is shown."""

    name = "search"
    description = "looks passages up"
    Arguments = Query

    def call(self, arguments: Query, state: State) -> Result:
        query = arguments.query
        found = tuple(
            Passage(f"{query}{n}", query, f"\n{query} 👍🏽 </answer><|im_end|>é") for n in range(len(query) % 3)
        )
        return Result(query, found, done=query == "done")


class Unscored:
    name = "search"

    def score(self, trajectory: Trajectory, row: dict[str, Any]) -> None:
        """What a trajectory is worth does not matter here."""


class Doubter:
    """A user who is never content."""

    def reply(self, row: dict[str, Any], answer: str, said: int) -> str:
        return f"{answer}? <answer> no </answer>"


class Engine:
    """Gives ids turn by turn, cut at `max_tokens`, each with its own log-probability; then says nothing or hangs."""

    def __init__(self, turns: list[list[int]]) -> None:
        self._turns = turns
        self.deadline: asyncio.Timeout | None = None  # where there is one, it hangs at last, and the deadline is then
        self.asked: list[list[int]] = []
        self.gave: list[Generation] = []
        self.limits: list[int] = []

    async def __call__(self, prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        if len(self.gave) == len(self._turns) and self.deadline is not None:
            self.deadline.reschedule(asyncio.get_running_loop().time())
            await asyncio.sleep(60)
        ids = self._turns[len(self.gave)][:max_tokens] if len(self.gave) < len(self._turns) else []
        self.asked.append(list(prompt_ids))
        self.limits.append(max_tokens)
        self.gave.append(Generation(ids, [-(1.0 + len(self.gave) + n / 1024) for n in range(len(ids))]))
        return self.gave[-1]


@pytest.fixture(scope="session", params=["tokenizer", "qwen_tokenizer"])
def made(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def row(question_row) -> dict[str, Any]:
    return question_row("Where was Kashi born?", ["Rove"], ["Kashi"], ["p1"])


ROOMY = {"max_turns": 6, "max_response_tokens": 2000, "max_turn_tokens": 400, "max_observation_tokens": 300}


def play(name: str, tokenizer: Any, row: Any, engine: Engine, user: bool = False, **budget: Any) -> Trajectory:
    tools = Toolbox({"search": Search(Context())}, Limits(seconds=30, parallel=2))
    setup = Setup(
        protocol=create(name, tools.names),
        environment=Unscored(),
        tools=tools,
        chat=Chat(tokenizer),
        budget=Budget(**{**ROOMY, **budget}),
        interaction=Doubter() if user else None,
    )
    return asyncio.run(run_episode(row, generate=engine, setup=setup))


def check(trajectory: Trajectory, engine: Engine) -> None:
    """Everything that must hold of any trajectory."""
    start = len(trajectory.prompt_ids)
    ids, mask, logprobs = trajectory.response_ids, trajectory.response_mask, trajectory.response_logprobs
    expected_mask, expected_logprobs = [0] * len(ids), [0.0] * len(ids)
    for prompt, turn in zip(engine.asked, engine.gave, strict=True):
        # The prompt of every turn is all ids before it: none is ever decoded and encoded again.
        assert prompt == [*trajectory.prompt_ids, *ids][: len(prompt)]
        assert turn.logprobs is not None
        here = slice(len(prompt) - start, len(prompt) - start + len(turn.token_ids))
        assert ids[here] == turn.token_ids
        expected_mask[here] = [1] * len(turn.token_ids)
        expected_logprobs[here] = turn.logprobs
    assert mask == expected_mask
    assert logprobs == expected_logprobs
    assert sum(mask) == trajectory.generated_tokens == sum(len(turn.token_ids) for turn in engine.gave)
    record = trajectory.record()
    assert (record["response_ids"], record["response_mask"], record["response_logprobs"]) == (ids, mask, logprobs)


WORDS = st.text(max_size=12) | st.sampled_from(["done", "Kashi", "e\u0301", " \n", "👩‍👩‍👧"])


@st.composite
def turns(draw: st.DrawFn, name: str, tokenizer: Any) -> list[list[int]]:
    """Ids of turns that search, once or often, answer, ask for what there is not, or are noise."""
    protocol = create(name, ("search",))
    end, size = tokenizer.eos_token_id, len(tokenizer)

    def turn() -> list[int]:
        kind = draw(st.sampled_from(("search", "search", "parallel", "answer", "unknown", "text", "ids")))
        if kind == "ids":  # also marks, halves of characters, and ids that no text has
            return draw(st.lists(st.integers(0, size - 1), max_size=30))
        text = {
            "search": lambda: protocol.search(draw(WORDS), draw(st.none() | WORDS)),
            "parallel": lambda: "\n".join(protocol.search(draw(WORDS)) for _ in range(draw(st.integers(2, 4)))),
            "answer": lambda: protocol.answer(draw(WORDS), draw(st.none() | WORDS), draw(st.lists(st.integers(0, 9)))),
            "unknown": lambda: protocol.search(draw(WORDS)).replace("search", "fetch"),
            "text": lambda: draw(WORDS),
        }[kind]()
        if draw(st.booleans()):
            ids = tokenizer.encode(text, add_special_tokens=False)
        else:  # ids that a tokenizer would not choose for the text
            ids = [token for letter in text for token in tokenizer.encode(letter, add_special_tokens=False)]
        return [*ids, end] if draw(st.booleans()) else ids

    return [turn() for _ in range(draw(st.integers(0, 6)))]


BUDGETS = st.fixed_dictionaries(
    {
        "max_turns": st.integers(1, 6),
        "max_response_tokens": st.integers(1, 400),
        "max_turn_tokens": st.integers(1, 120),
        "max_observation_tokens": st.integers(0, 80),
        "force_answer": st.booleans(),
        "correct_invalid": st.booleans(),
        "max_repeats": st.integers(1, 3),
        "max_user_turns": st.integers(0, 2),
    }
)


@every
@settings(max_examples=60)
@given(data=st.data(), budget=BUDGETS, user=st.booleans())
def test_any_trajectory(made, row, name, data, budget, user) -> None:
    engine = Engine(data.draw(turns(name, made)))
    trajectory = play(name, made, row, engine, user, **budget)
    check(trajectory, engine)
    assert len(trajectory.response_ids) <= budget["max_response_tokens"]
    assert trajectory.turns == len(engine.gave) <= budget["max_turns"]
    assert all(limit <= budget["max_turn_tokens"] for limit in engine.limits)
    # An answer is the policy's own.
    assert trajectory.answer is None or trajectory.answer in trajectory.generated


def ids_of(tokenizer: Any, text: str, end: bool = True) -> list[int]:
    ids = tokenizer.encode(text, add_special_tokens=False)
    return [*ids, tokenizer.eos_token_id] if end and not text.endswith(("</search>", "</answer>")) else ids


def kinds(trajectory: Trajectory) -> list[str]:
    return [segment.kind for segment in trajectory.segments]


@every
def test_a_trajectory_of_every_kind_of_segment(made, row, name) -> None:
    protocol = create(name, ("search",))
    said = [
        protocol.search("Kashi"),
        "nothing",
        protocol.answer("Teno"),
        protocol.search("Rove"),
        protocol.answer("Rove"),
    ]
    engine = Engine([ids_of(made, text) for text in said])
    trajectory = play(name, made, row, engine, user=True, correct_invalid=True, force_answer=True, max_turns=5)
    check(trajectory, engine)
    assert kinds(trajectory) == [
        "generated", "observation", "generated", "notice", "generated", "user", "generated", "observation", "generated",
    ]  # fmt: skip
    assert protocol.correction in trajectory.segments[3].text
    assert protocol.last_turn in trajectory.segments[7].text
    assert (trajectory.answer, trajectory.stop_reason, trajectory.forced_answer) == ("Rove", "answer", True)


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_parallel_calls_bring_one_observation(made, row, name) -> None:
    protocol = create(name, ("search",))
    text = protocol.search("a") + protocol.search("bb") + protocol.search("c")
    engine = Engine([ids_of(made, text), ids_of(made, protocol.answer("Rove"))])
    trajectory = play(name, made, row, engine)
    check(trajectory, engine)
    assert kinds(trajectory) == ["generated", "observation", "generated"]
    assert trajectory.queries == ["a", "bb"]
    assert [call.failure for call in trajectory.calls] == [None, None, "surplus"]


@every
def test_an_observation_cut_in_its_middle(made, row, name) -> None:
    protocol = create(name, ("search",))
    engine = Engine([ids_of(made, protocol.search("Kashi " * 30)), ids_of(made, protocol.answer("Rove"))])
    whole = play(name, made, row, engine)
    engine = Engine([ids_of(made, protocol.search("Kashi " * 30)), ids_of(made, protocol.answer("Rove"))])
    trajectory = play(name, made, row, engine, max_observation_tokens=40)
    check(trajectory, engine)
    assert len(trajectory.segments[1].token_ids) <= 40 < len(whole.segments[1].token_ids)
    assert trajectory.stop_reason == "answer"


@every
@pytest.mark.parametrize("last", ["observation", "notice", "user"])
def test_a_trajectory_that_ends_in_what_it_was_shown(made, row, monkeypatch, name, last) -> None:
    protocol = create(name, ("search",))
    text = {"observation": protocol.search("Kashi"), "notice": "nothing", "user": protocol.answer("Teno")}[last]
    engine, timeout = Engine([ids_of(made, text)]), asyncio.timeout

    def first(seconds: float | None) -> asyncio.Timeout:
        """The episode's deadline is the first time-out of all."""
        opened = timeout(seconds)
        engine.deadline = engine.deadline or opened
        return opened

    monkeypatch.setattr(asyncio, "timeout", first)
    trajectory = play(name, made, row, engine, user=True, correct_invalid=True, deadline_seconds=50)
    check(trajectory, engine)
    assert kinds(trajectory) == ["generated", last]
    assert trajectory.stop_reason == "deadline" and trajectory.response_mask[-1] == 0


@every
def test_ids_are_kept_where_encoding_the_text_again_would_change_them(made, row, name) -> None:
    protocol = create(name, ("search",))
    # Letter by letter; and a border at which two line breaks would become one token.
    first = [token for letter in protocol.search("Kashi Rove") for token in made.encode(letter)]
    first += [] if protocol.stop else [made.eos_token_id]
    engine = Engine([first, ids_of(made, protocol.answer("Rove"))])
    trajectory = play(name, made, row, engine)
    check(trajectory, engine)
    assert made.encode(trajectory.text, add_special_tokens=False) != trajectory.response_ids
    assert made.decode(trajectory.response_ids, skip_special_tokens=False) == trajectory.text
