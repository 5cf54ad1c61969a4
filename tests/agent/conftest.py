import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tasks.agent import environments
from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.episode import Generation, Setup, run_episode
from tasks.agent.protocols import Call, SearchR1
from tasks.agent.toolbox import Passage, Result
from tasks.agent.trajectory import Trajectory

BUDGET = Budget(max_turns=4, max_response_tokens=400, max_turn_tokens=40, max_observation_tokens=60)

# The bytes 0x06 and 0xF1 as byte-level BPE writes them: SmolLM2 lacks these and others.
LACKING = ("\u0106", "\u00f1")

# Qwen3's template in small: schemas in the system's message, results of one turn inside one message of the user.
QWEN = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- '# Tools\n\nYou may call one or more functions. Their signatures:\n<tools>' }}
    {%- for tool in tools %}{{- '\n' + tool | tojson }}{%- endfor %}
    {{- '\n</tools>\n\nA call is a JSON object inside <tool_call></tool_call>.<|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' + message.content }}
        {%- for call in message.tool_calls or [] %}
            {{- '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}
            {{- call.function.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {%- if loop.first or loop.previtem.role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' + message.content + '\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
"""


@pytest.fixture(scope="session")
def qwen_tokenizer(world_texts: list[str]) -> Any:
    """A small tokenizer with the tags of tool calls and Qwen3's template."""
    from tasks.agent.protocols import Hermes
    from tasks.training.tokenizer import train_tokenizer

    made = train_tokenizer(world_texts, 512, Hermes().tokens)
    made.chat_template = QWEN
    return made


@pytest.fixture(scope="session")
def lacking_tokenizer(world_texts: list[str]) -> Any:
    """A tokenizer like SmolLM2's: special tokens beside ChatML's, and one of them for bytes that it lacks."""
    from tasks.training.tokenizer import CHAT_TEMPLATE, END, PAD, START

    made = Tokenizer(models.BPE(unk_token=PAD))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    kept = [letter for letter in pre_tokenizers.ByteLevel.alphabet() if letter not in LACKING]
    marks = [PAD, START, END, "<repo_name>", "<file_sep>"]
    trainer = trainers.BpeTrainer(
        vocab_size=600, special_tokens=marks, initial_alphabet=kept, limit_alphabet=len(kept), show_progress=False
    )
    made.train_from_iterator(world_texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


@pytest.fixture(scope="session")
def smollm2() -> Any:
    """SmolLM2's tokenizer: byte-level BPE with many special tokens, and none of a protocol's tags."""
    from tasks.training.policies import smollm2_tokenizer

    return smollm2_tokenizer()


class Library:
    """A search that always finds the same passages, unless it fails; it knows which trajectories it still serves."""

    names = ("search",)
    schemas: list[dict[str, Any]] = []

    def __init__(self, *passages: Passage, **result: Any) -> None:
        self.result = Result("" if passages else "No results.", passages, **result)
        self.served: set[str] = set()

    async def call(self, trajectory_id: str, calls: Sequence[Call]) -> list[Result]:
        self.served.add(trajectory_id)
        return [self.result for _ in calls]

    async def release(self, trajectory_id: str) -> None:
        self.served.discard(trajectory_id)


class Script:
    """An engine that says what it is told, cut at `max_tokens`; it remembers what it was asked."""

    def __init__(self, tokenizer: Any, *turns: str | list[int], stop: list[str] | None = None) -> None:
        self._stop = SearchR1().stop if stop is None else stop
        self._turns = [t if isinstance(t, list) else tokenizer.encode(t, add_special_tokens=False) for t in turns]
        self.prompts: list[list[int]] = []
        self.limits: list[int] = []

    async def __call__(self, prompt: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
        assert stop == self._stop
        ids = self._turns[len(self.prompts) % len(self._turns)][:max_tokens]
        self.prompts.append(prompt)
        self.limits.append(max_tokens)
        return Generation(ids, [-0.5 - n for n in range(len(ids))])


@pytest.fixture(scope="session")
def library() -> type[Library]:
    """The class of searches that always find the same."""
    return Library


@pytest.fixture(scope="session")
def two_passages() -> Library:
    """A search that finds the passages of a question with two hops."""
    return Library(Passage("p1", "Kashi", "Kashi was born in Rove."), Passage("p2", "Rove", "Rove is a city."))


@pytest.fixture(scope="session")
def script(tokenizer: Any) -> Callable[..., Script]:
    """Makes an engine that says what it is told."""
    return lambda *turns, **stop: Script(tokenizer, *turns, **stop)


@pytest.fixture(scope="session")
def play(
    tokenizer: Any, defaults: Any, question_row: Callable[..., dict[str, Any]], two_passages: Library
) -> Callable[..., Trajectory]:
    """Plays an episode of search-r1; no trajectory is served any more when it has ended."""
    row = question_row("Where was Kashi born?", ["Rove"], ["Kashi"], ["p1"])
    environment = environments.create(defaults.environment)

    def run(script: Any, budget: Budget = BUDGET, tools: Any = two_passages, **setting: Any) -> Trajectory:
        setup = Setup(SearchR1(), environment, tools, Chat(tokenizer), budget, **setting)
        trajectory = asyncio.run(run_episode(row, generate=script, setup=setup))
        assert not tools.served
        return trajectory

    return run


@pytest.fixture(scope="session")
def kinds() -> Callable[[Trajectory], list[str]]:
    """The kinds of a trajectory's segments."""
    return lambda trajectory: [segment.kind for segment in trajectory.segments]
