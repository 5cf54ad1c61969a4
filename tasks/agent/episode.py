"""The episode: from a question to a scored trajectory. RL, SFT's checks and evaluation all run this function.

Token-in/token-out: generated ids are appended as the engine gave them and are never decoded and encoded again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from tasks.agent.environments import Environment
from tasks.agent.protocol import SearchR1
from tasks.agent.trajectory import Segment, Trajectory


class Tokenizer(Interface):
    """The part of a Hugging Face tokenizer that an episode needs."""

    eos_token_id: int

    def encode(self, text: str, add_special_tokens: bool = ...) -> list[int]: ...
    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = ...) -> str: ...
    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any: ...


@dataclass(frozen=True)
class Generation:
    """One turn from an engine: ids of shape (n,), their log-probabilities of shape (n,) or None."""

    token_ids: list[int]
    logprobs: list[float] | None


class Generator(Interface):
    """An engine: continues `prompt_ids` until a stop string (kept in the output), the end token or `max_tokens`."""

    async def __call__(self, prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation: ...


@dataclass(frozen=True)
class Budget:
    """Limits of an episode, in turns and tokens."""

    max_turns: int
    max_response_tokens: int
    max_turn_tokens: int
    max_observation_tokens: int


def prompt_ids(tokenizer: Tokenizer, prompt: Sequence[dict[str, str]]) -> list[int]:
    """Token ids of a chat prompt with the opening of the assistant's turn, shape (n,)."""
    return list(
        tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, tokenize=True, return_dict=False)
    )


def observation_ids(tokenizer: Tokenizer, protocol: SearchR1, passages: Sequence[Any], limit: int) -> list[int]:
    """Token ids of an observation, its body cut to `limit` tokens in all so that both tags stay whole."""
    opening, body, closing = (
        tokenizer.encode(part, add_special_tokens=False) for part in protocol.observation(passages)
    )
    return opening + body[: max(0, limit - len(opening) - len(closing))] + closing


async def run_episode(
    row: dict[str, Any],
    *,
    generate: Generator,
    tokenizer: Tokenizer,
    protocol: SearchR1,
    environment: Environment,
    tools: Any,
    budget: Budget,
) -> Trajectory:
    """Play one question.

    A turn that ends in a search gets its observation; an answer ends the episode; a turn that does
    neither ends it too, as invalid. The last turn allowed cannot search.

    Args:
        row: a row of the data contract (`extra_info`, `prompt`, `data_source`, `environment`).
        generate: the engine.
        tools: what the environment's `open_tools` returned; `search(query) -> list of hits`.
        budget: limits of the episode.

    Returns:
        the scored trajectory; its response never exceeds `budget.max_response_tokens`.
    """
    info = row["extra_info"]
    trajectory = Trajectory(
        question_id=info["id"],
        environment=environment.name,
        data_source=row["data_source"],
        question=info["question"],
        golden_answers=list(info["golden_answers"]),
        hops=int(info["hops"]),
        prompt_ids=prompt_ids(tokenizer, row["prompt"]),
    )
    used = 0
    while True:
        left = budget.max_response_tokens - used
        if left <= 0:
            trajectory.stop_reason = "length"
            break
        limit = min(left, budget.max_turn_tokens)
        turn = await generate(trajectory.prompt_ids + trajectory.response_ids, max_tokens=limit, stop=protocol.stop)
        ids = turn.token_ids
        text = tokenizer.decode(ids, skip_special_tokens=False)
        trajectory.segments.append(Segment("generated", text, ids, turn.logprobs))
        trajectory.turns += 1
        used += len(ids)
        action = protocol.action(text)
        if action.kind == "answer":
            trajectory.answer, trajectory.stop_reason = action.text, "answer"
            break
        if action.kind == "invalid":
            ended = bool(ids) and ids[-1] == tokenizer.eos_token_id
            trajectory.stop_reason = "end" if ended else "length" if len(ids) >= limit else "invalid"
            break
        if trajectory.turns >= budget.max_turns:
            trajectory.stop_reason = "turns"
            break
        start = time.perf_counter()
        hits = await tools.search(action.text)
        trajectory.tool_latencies.append(time.perf_counter() - start)
        trajectory.queries.append(action.text)
        trajectory.passage_ids.append([str(hit.passage.id) for hit in hits])
        seen = observation_ids(tokenizer, protocol, [hit.passage for hit in hits], budget.max_observation_tokens)
        if used + len(seen) >= budget.max_response_tokens:
            trajectory.stop_reason = "length"
            break
        shown = tokenizer.decode(seen, skip_special_tokens=False)
        trajectory.segments.append(Segment("observation", shown, seen))
        used += len(seen)
    environment.score(trajectory, row, protocol)
    return trajectory
