"""The episode: from a question to a scored trajectory. RL, SFT's checks and evaluation all run this function.

Token-in/token-out: generated ids are appended as the engine gave them and are never decoded and encoded again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal
from typing import Protocol as Interface
from uuid import uuid4

from tasks.agent.answering import read_answer
from tasks.agent.budget import Budget
from tasks.agent.chat import Chat
from tasks.agent.environments import Environment, turn_rewards
from tasks.agent.fitting import shown
from tasks.agent.interactions import Interaction
from tasks.agent.protocols import Action, Call, Observation, Protocol
from tasks.agent.toolbox import Tools
from tasks.agent.toolbox.bounded import bounded
from tasks.agent.trajectory import CallRecord, Segment, StopReason, Trajectory

log = logging.getLogger("forager.episode")

RELEASE_SECONDS = 1.0  # that an episode's end waits for its tools to free what they remember


@dataclass(frozen=True)
class Generation:
    """One turn from an engine: ids of shape (n,), their log-probabilities of shape (n,) or None."""

    token_ids: list[int]
    logprobs: list[float] | None


class Generator(Interface):
    """An engine: continues `prompt_ids` until a stop string (kept in the output), the end token or `max_tokens`."""

    async def __call__(self, prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation: ...


@dataclass(frozen=True)
class Setup:
    """What all episodes of a run share.

    Attributes:
        protocol: how tools are asked for.
        environment: what an episode is worth.
        tools: what may be called.
        chat: the policy's tokenizer and template.
        budget: limits.
        interaction: who answers an answer; None: nobody.
        example_answer: the answer that the prompt gives as an example.
    """

    protocol: Protocol
    environment: Environment
    tools: Tools
    chat: Chat
    budget: Budget
    interaction: Interaction | None = None
    example_answer: str | None = None


async def run_episode(row: dict[str, Any], *, generate: Generator, setup: Setup, step: int | None = None) -> Trajectory:
    """Play one question.

    A turn that calls tools gets its observation; an answer ends the episode, unless a user has something to say
    to it; a turn that does neither ends it too, as invalid, or is corrected. The last turn cannot call.

    Args:
        row: a row of the data contract (`extra_info`, `prompt`, `data_source`, `environment`).
        generate: the engine.
        setup: everything else.
        step: the training step, for rewards that change over training.

    Returns:
        the scored trajectory; its response never exceeds `budget.max_response_tokens`.
    """
    info = row["extra_info"]
    trajectory = Trajectory(
        question_id=info["id"],
        environment=setup.environment.name,
        data_source=row["data_source"],
        question=info["question"],
        golden_answers=list(info["golden_answers"]),
        hops=int(info["hops"]),
        prompt_ids=setup.chat.prompt_ids(row["prompt"]),
        step=step,
    )
    episode = _Episode(trajectory, row, generate, setup)
    deadline = asyncio.timeout(setup.budget.deadline_seconds)
    try:
        async with deadline:
            trajectory.stop_reason = await episode.play()
    except TimeoutError:
        if not deadline.expired():
            raise
        trajectory.stop_reason = "deadline"
    finally:
        # What hangs in a tool's release goes on by itself; nobody waits for it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await setup.tools.release(episode.id)
    read_answer(trajectory, row, setup.protocol, episode.numbers, setup.example_answer)
    setup.environment.score(trajectory, row)
    trajectory.turn_rewards = turn_rewards(setup.environment, trajectory, row)
    if trajectory.stop_reason == "deadline":
        trajectory.reward = setup.budget.fallback_reward
        trajectory.reward_parts = {**dict.fromkeys(trajectory.reward_parts, 0.0), "fallback": trajectory.reward}
    return trajectory


class _Episode:
    """An episode under way.

    Attributes:
        id: of the trajectory, for the tools.
        numbers: number by passage id, of the passages that were shown with a lasting number.
    """

    def __init__(self, trajectory: Trajectory, row: dict[str, Any], generate: Generator, setup: Setup) -> None:
        self.id = uuid4().hex
        self._trajectory, self._row, self._generate, self._setup = trajectory, row, generate, setup
        self._used = 0
        self._ended = False  # whether the last turn closed with the end token
        self.numbers: dict[str, int] = {}
        self._calls: Counter[str] = Counter()

    async def play(self) -> StopReason:
        """Turn after turn until one ends it; returns why."""
        budget = self._setup.budget
        if self._asks_for_answer_next():
            self._force()
        while True:
            left = budget.max_response_tokens - self._used
            if left <= 0:
                return "length"
            limit = min(left, budget.max_turn_tokens)
            action, cut = await self._turn(limit)
            reason = await self._react(action, cut)
            if reason is not None:
                return reason

    @property
    def _last_turn(self) -> bool:
        """Whether the turn to come is the last."""
        return self._trajectory.forced_answer or self._trajectory.turns + 1 >= self._setup.budget.max_turns

    async def _turn(self, limit: int) -> tuple[Action, bool]:
        """Let the policy write a turn; what it asks for, and whether the token limit cut it."""
        trajectory, protocol, tokenizer = self._trajectory, self._setup.protocol, self._setup.chat.tokenizer
        prompt = trajectory.prompt_ids + trajectory.response_ids
        turn = await self._generate(prompt, max_tokens=limit, stop=protocol.stop)
        ids = turn.token_ids
        text = tokenizer.decode(ids, skip_special_tokens=False)
        trajectory.segments.append(Segment("generated", text, ids, turn.logprobs))
        trajectory.turns += 1
        self._used += len(ids)
        self._ended = bool(ids) and ids[-1] == tokenizer.eos_token_id
        return protocol.action(self._handed_over(text, ids)), not self._ended and len(ids) >= limit

    def _handed_over(self, text: str, ids: list[int]) -> str:
        """A turn's text up to the stop string at which the engine handed over.

        The string may end inside the last token (`>.` is one in many vocabularies), which vLLM keeps whole.
        """
        ends = [text.rfind(stop) + len(stop) for stop in self._setup.protocol.stop if stop in text]
        end = max(ends, default=len(text))
        if end == len(text):
            return text
        before = self._setup.chat.tokenizer.decode(ids[:-1], skip_special_tokens=False)
        return text[:end] if len(before) < end else text

    async def _react(self, action: Action, cut: bool) -> StopReason | None:
        """Carry out what a turn asks for; the reason when the episode ends with it."""
        last = self._trajectory.forced_answer or self._trajectory.turns >= self._setup.budget.max_turns
        if action.kind == "answer":
            return "answer" if last else await self._answered(action.text)
        if action.kind == "invalid":
            reason: StopReason = "end" if self._ended else "length" if cut else "invalid"
            self._trajectory.invalid_turns += 1
            self._trajectory.invalid_reasons.append(action.text)
            if last or not self._setup.budget.correct_invalid:
                return reason
            return None if self._correct() else "length"
        if last:
            return "turns"
        return await self._call(action.calls)

    def _correct(self) -> bool:
        """Tell the policy that its turn asked for nothing; False where not even that fits."""
        protocol, asks = self._setup.protocol, self._asks_for_answer_next()
        words = f"{protocol.correction} {protocol.last_turn}" if asks else protocol.correction
        said = self._append(protocol.say(words, "notice"), "notice")
        self._trajectory.forced_answer |= said and asks
        return said

    def _asks_for_answer_next(self) -> bool:
        return self._setup.budget.force_answer and self._last_turn

    def _force(self) -> bool:
        """Ask for the answer; False where not even that fits."""
        said = self._append(self._setup.protocol.say(self._setup.protocol.last_turn, "notice"), "notice")
        self._trajectory.forced_answer |= said
        return said

    async def _call(self, calls: tuple[Call, ...]) -> StopReason | None:
        """Run a turn's calls and show what they bring."""
        trajectory, protocol, budget = self._trajectory, self._setup.protocol, self._setup.budget
        records = [CallRecord(call.tool, _asked(call)) for call in calls]
        self._calls.update(record.key for record in records)
        if max(self._calls[record.key] for record in records) > budget.max_repeats:
            trajectory.calls += [replace(record, failure="repeated") for record in records]
            trajectory.tool_latencies += [0.0] * len(records)
            return "repeat"
        results = await self._setup.tools.call(self.id, calls)
        for call, record, result in zip(calls, records, results, strict=True):
            trajectory.calls.append(replace(record, seconds=result.seconds, failure=result.failure))
            trajectory.tool_latencies.append(result.seconds)
            if result.failure is None and (call.tool == "search" or result.passages):
                trajectory.queries.append(_query(call))
                trajectory.passage_ids.append([passage.id for passage in result.passages])
        if any(result.done for result in results):
            return "tool"
        notice = protocol.last_turn if self._asks_for_answer_next() else ""
        numbers = dict(self.numbers)
        seen = shown(
            results,
            numbers,
            notice,
            protocol=protocol,
            chat=self._setup.chat,
            limit=budget.max_observation_tokens,
            turn_ended=self._ended,
        )
        if self._append(seen, "observation"):
            # A passage that the budget has cut away was not shown, and cannot be cited.
            legible = protocol.numbered(trajectory.segments[-1].text)
            self.numbers |= {key: number for key, number in numbers.items() if number in legible}
            trajectory.forced_answer |= bool(notice)
            return None
        return None if budget.force_answer and self._force() else "length"

    async def _answered(self, answer: str) -> StopReason | None:
        """An answer ends the episode, unless the user has a word to say to it."""
        setup, trajectory = self._setup, self._trajectory
        if setup.interaction is None or trajectory.user_turns >= setup.budget.max_user_turns:
            return "answer"
        word = await self._word_of_user(setup.interaction, answer)
        if word is None or not self._append(setup.protocol.say(word, "user"), "user"):
            return "answer"
        trajectory.user_turns += 1
        return None

    async def _word_of_user(self, user: Interaction, answer: str) -> str | None:
        """What the user says; nothing when it hangs or breaks, which is counted."""
        reply = partial(user.reply, self._row, answer, self._trajectory.user_turns)
        try:
            word: object = await bounded(reply, self._setup.budget.user_seconds)
        except TimeoutError:
            log.warning("the interaction did not answer in time")
        except Exception:
            log.exception("the interaction has failed")
        else:
            if word is None or isinstance(word, str):
                return word
            log.warning("the interaction said something that is no text: %r", type(word))
        self._trajectory.user_failures += 1
        return None

    def _append(self, observation: Observation, kind: Literal["observation", "notice", "user"]) -> bool:
        """Append what is said to the policy; False, and nothing appended, where no room for a turn would be left."""
        chat, budget = self._setup.chat, self._setup.budget
        ids = chat.observation_ids(observation, budget.max_observation_tokens, turn_ended=self._ended)
        if self._used + len(ids) >= budget.max_response_tokens:
            return False
        text = chat.tokenizer.decode(ids, skip_special_tokens=False)
        self._trajectory.segments.append(Segment(kind, text, ids, passage_ids=list(observation.passage_ids)))
        self._used += len(ids)
        return True


def _asked(call: Call) -> str:
    """What a call asks for, as text: arguments by name in the order of their names."""
    return call.text if call.arguments is None else json.dumps(dict(call.arguments), ensure_ascii=False, sort_keys=True)


def _query(call: Call) -> str:
    """What a call searches for: its text, its argument `query`, or all of its arguments."""
    query = (call.arguments or {}).get("query")
    return query if isinstance(query, str) else _asked(call)
