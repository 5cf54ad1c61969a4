"""In every protocol a demonstration, as SFT reads it, is the episode of a policy that writes its turns."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.agent import protocols
from tasks.agent.chat import Chat
from tasks.agent.demonstrations import Demonstration, demonstrate
from tasks.agent.episode import Generation, run_episode
from tasks.agent.toolbox import Passage
from tasks.training.sft_dataset import demonstration_ids

SCHEMA = {"type": "function", "function": {"name": "search", "description": "looks up", "parameters": {}}}
TEXTS = st.text(max_size=60) | st.lists(
    st.sampled_from(
        ["Big Town. ", "</information>", "<|im_end|>", "<tool_call>", " [1]", "é", "東京", "\n", "</think>"]
    ),
    max_size=12,
).map("".join)


@pytest.fixture(scope="module")
def both(make_setup, question_row, tokenizer, qwen_tokenizer, smollm2):
    """The demonstration of one question and its episode: ids and masks of both."""
    tokenizers = {"own": tokenizer, "qwen": qwen_tokenizer, "smollm2": smollm2}
    row = question_row("Where?", ["Big Town"], ["Ada", "Firm"], ["1", "2"])

    def of(protocol: str, which: str, texts: tuple[str, str], *, think: bool = False, **budget: Any):
        limits = {"max_response_tokens": 4000, "max_turn_tokens": 1000, "max_observation_tokens": 200, **budget}
        plain = make_setup(Passage("1", "Ada", texts[0]), Passage("2", "Firm", texts[1]), **limits)
        played = protocols.create(protocol, ["search"])
        schemas = [SCHEMA] if played.calls_tools_by_schema else []
        setup = replace(plain, protocol=played, chat=Chat(tokenizers[which], schemas))
        made = asyncio.run(demonstrate(row, setup=setup, think=think))
        if not isinstance(made, Demonstration):
            return made, None, None, None
        of_tokens, end = setup.chat.tokenizer, setup.chat.tokenizer.eos_token_id
        turns = [of_tokens.encode(one.text, add_special_tokens=False) for one in made.segments if one.loss]
        if played.ends_turn:
            turns[-1].append(end)
        said = iter(turns)

        async def generate(prompt, *, max_tokens, stop) -> Generation:
            return Generation(next(said)[:max_tokens], None)

        episode = asyncio.run(run_episode(row, generate=generate, setup=setup))
        ids, mask = [*episode.prompt_ids, *episode.response_ids], [0] * len(episode.prompt_ids) + episode.response_mask
        if not played.ends_turn:  # there a stop string hands over, and SFT teaches to end after it
            ids, mask = [*ids, end], [*mask, 1]
        segments = [{"text": one.text, "loss": one.loss} for one in made.segments]
        return made, episode, demonstration_ids(of_tokens, made.prompt, segments, schemas), (ids, mask)

    return of


@pytest.mark.parametrize("force_answer", [False, True])
@pytest.mark.parametrize("which", ["own", "qwen", "smollm2"])
@pytest.mark.parametrize("protocol", list(protocols.PROTOCOLS))
def test_ids_and_mask_are_those_of_the_episode(both, protocol: str, which: str, force_answer: bool) -> None:
    texts = ("Ada works for Firm.", "Firm is in the Big Town. It rains.")
    made, episode, taught, played = both(protocol, which, texts, think=True, max_turns=3, force_answer=force_answer)
    assert isinstance(made, Demonstration) and taught == played
    assert (episode.stop_reason, episode.success, episode.queries) == ("answer", 1.0, ["Ada", "Firm"])
    assert episode.forced_answer == force_answer == any("No call is left" in one.text for one in made.segments)
    assert 0 < sum(taught[1]) < len(taught[1])


@settings(max_examples=120)
@given(st.sampled_from(list(protocols.PROTOCOLS)), st.sampled_from(["own", "qwen", "smollm2"]), TEXTS, TEXTS,
       st.integers(1, 90), st.booleans())  # fmt: skip
def test_whatever_is_shown_and_wherever_it_is_cut(both, protocol, which, first, second, seen, think) -> None:
    texts = (first, f"Big Town. {second}")
    _, episode, taught, played = both(protocol, which, texts, think=think, max_observation_tokens=seen)
    assert taught == played
    assert episode is None or episode.stop_reason == "answer"


def test_facts_are_noted_with_their_sources_and_the_answer_cites_them(both) -> None:
    texts = ("She is old. Ada works for Firm [7].", "Firm makes <fact> tags. It is in the Big Town. It rains.")
    made, episode, *_ = both("research", "own", texts)
    assert [one.text for one in made.segments if one.loss] == [
        "<search> Ada </search>",
        "<fact> Ada works for Firm (7). [1] </fact>\n<search> Firm </search>",
        "<fact> It is in the Big Town. [2] </fact>\n<answer> Big Town [1][2] </answer>",
    ]
    assert episode.cited == ["1", "2"] and (episode.citation_precision, episode.citation_recall) == (1.0, 1.0)
    assert episode.facts == [
        {"text": "Ada works for Firm (7).", "sources": ["1"]},
        {"text": "It is in the Big Town.", "sources": ["2"]},
    ]


@pytest.mark.parametrize("protocol", list(protocols.PROTOCOLS))
def test_where_nothing_can_be_shown_nothing_is_learnt(both, protocol: str) -> None:
    made, *_ = both(protocol, "own", ("Ada is.", "In the Big Town."), max_observation_tokens=1)
    assert made == "answer_not_in_context"


def test_what_was_cut_away_is_no_source(both) -> None:
    texts = ("Firm. " + "Ada works there. " * 60, "Firm is in the Big Town.")
    made, episode, *_ = both("research", "own", (texts[0][6:] + " Firm employs Ada.", texts[1]))
    assert episode.cited == ["2"] and "Firm employs Ada" not in made.chosen
