"""Limits of an episode."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Limits of an episode and what happens at them.

    Attributes:
        max_turns: generated turns; the last cannot call a tool.
        max_response_tokens: of the whole response, generated and shown.
        max_turn_tokens: of one generated turn.
        max_observation_tokens: of what is shown between two turns.
        force_answer: whether the system asks for the answer before the last turn, and once the room is used up.
        correct_invalid: whether a turn that asks for nothing is told so and tried again, instead of ending all.
        max_repeats: how often the very same call may be made; once more ends the episode.
        max_user_turns: words of the user after an answer, where there is an interaction.
        user_seconds: how long each is waited for.
        deadline_seconds: of the whole episode; None: no limit.
        fallback_reward: reward of an episode that the deadline has cut.
    """

    max_turns: int
    max_response_tokens: int
    max_turn_tokens: int
    max_observation_tokens: int
    force_answer: bool = False
    correct_invalid: bool = False
    max_repeats: int = 3
    max_user_turns: int = 1
    user_seconds: float = 10.0
    deadline_seconds: float | None = None
    fallback_reward: float = 0.0
