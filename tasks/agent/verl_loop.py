"""The episode as verl's agent loop: a thin adapter between `run_episode` and verl 0.9.1's AgentLoopBase.

verl makes one object for every episode; what is costly (index, environment, settings) is opened once a process.
The reward is computed here, in the episode, so verl needs no reward workers.
"""

from __future__ import annotations

import json
import zlib
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.utils.profiler import simple_timer

from tasks.agent.episode import Generation, run_episode
from tasks.agent.setup import open_setup
from tasks.agent.trajectory import Trajectory
from tasks.params import Playing
from tasks.training import rollouts
from tasks.training.sanity import SanityCheck


class _Room:
    """What all episodes of a process share."""

    def __init__(self, settings: Path, tokenizer: Any) -> None:
        content = json.loads(settings.read_text(encoding="utf-8"))
        self.seed = int(content["seed"])
        self.setup = open_setup(
            Playing.model_validate({name: content[name] for name in Playing.model_fields}),
            index=Path(content["index"]),
            tokenizer=tokenizer,
            deadline_seconds=content["deadline_seconds"],
            fallback_reward=content["fallback_reward"],
        )
        self.no_loss_on = frozenset(content["no_loss_on"])
        self.mask_observations = bool(content["mask_observations"])
        self.pays_turns = content["credit"] == "turn"
        self.rollouts = Path(content["rollouts"])
        self.rollouts.mkdir(parents=True, exist_ok=True)
        self.sanity = SanityCheck(**content["sanity"])


_rooms: dict[str, _Room] = {}


def _room(settings: str, tokenizer: Any) -> _Room:
    """The process's room; all its loops have the same tokenizer."""
    if settings not in _rooms:
        _rooms[settings] = _Room(Path(settings), tokenizer)
    return _rooms[settings]


def _plain(value: Any) -> Any:
    """A row's field as plain lists and dicts: verl hands over numpy arrays."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _trained(trajectory: Trajectory, mask_observations: bool) -> list[int]:
    """1 for a token that verl trains on, shape (n,); the trajectory's own mask stays as it is.

    None of a trajectory that is kept out of the loss (`rl.no_loss_on`).

    Where observations are trained on, what verl reports of the engine against the actor (training/rollout_*,
    rollout_corr/*) means nothing: the engine's log-probability of a token that it did not generate stands as 0.
    The loss is untouched by this: it takes the actor's own log-probabilities (trainer/ppo/v1/trainer_base.py:1654).
    """
    if trajectory.no_loss:
        return [0] * len(trajectory.response_ids)
    return trajectory.response_mask if mask_observations else [1] * len(trajectory.response_ids)


def _handed_over(trajectory: Trajectory, mask_observations: bool) -> int:
    """How many tokens of the response verl gets: those up to the last one that the policy wrote.

    verl puts the reward at the last token (experimental/agent_loop/agent_loop.py:147), and its GAE and REINFORCE++ lose
    one that stands where the mask is 0 (trainer/ppo/core_algos.py:250 and 720): an episode that ends in an observation
    would have no outcome. What follows the policy's last token has no influence on it and no gradient. Where
    observations are trained on, all of them stay.
    """
    mask = trajectory.response_mask
    if not mask_observations:
        return len(mask)
    return max((place for place, written in enumerate(mask, start=1) if written), default=0)


def _earlier_turns(trajectory: Trajectory) -> dict[int, float]:
    """The reward of every turn but the last, which gets the outcome, by the place of the turn's last token.

    Nothing of a trajectory that is kept out of the loss: none of its turns is trained on.
    """
    if trajectory.no_loss:
        return {}
    end, turn, found = 0, 0, dict[int, float]()
    for segment in trajectory.segments:
        end += len(segment.token_ids)
        if segment.kind == "generated":
            if segment.token_ids:
                found[end - 1] = trajectory.turn_rewards[turn]
            turn += 1
    last = max(found, default=0)
    return {place: reward for place, reward in found.items() if place < last}


class TurnOutput(AgentLoopOutput):
    """verl's output with rewards of single turns: verl 0.9.1's has one place for a reward, the last token.

    Attributes:
        turn_rewards: by the place of a token in the response.
    """

    turn_rewards: dict[int, float]

    def as_dict(self) -> dict[str, Any]:
        """As verl's; `rm_scores`, shape (n,), holds the turns' rewards too."""
        output = super().as_dict()
        for place, reward in output.pop("turn_rewards").items():
            output["rm_scores"][place] = reward
        return output


class ForagerAgentLoop(AgentLoopBase):
    """One episode for verl.

    Args:
        settings: path of the JSON file that the rl stage wrote (episode, retrieval, environment, folders).
    """

    def __init__(self, *args: Any, settings: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._room = _room(settings, self.tokenizer)

    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Play one episode; see `tasks.agent.episode.run_episode`.

        Raises:
            RuntimeError: the sanity check has failed, or a training episode came before it.
        """
        room, info = self._room, _plain(kwargs["extra_info"])
        validating = info["split"] == "validation"
        step, sample = int(kwargs["global_steps"]), int(kwargs.get("session_id", 0))
        if not validating:
            room.sanity.require_passed()
        metrics: dict[str, Any] = {"num_preempted": 0}
        server_fields: dict[str, Any] = {}
        request = uuid4().hex
        turn = 0

        async def generate(prompt_ids: list[int], *, max_tokens: int, stop: list[str]) -> Generation:
            nonlocal turn
            # A seed for every request makes sampling independent of the order in which requests arrive.
            seed = zlib.crc32(f"{room.seed}/{step}/{info['id']}/{sample}/{turn}".encode())
            turn += 1
            with simple_timer("generate_sequences", metrics):
                output = await self.server_manager.generate(
                    request_id=request,
                    prompt_ids=prompt_ids,
                    sampling_params={
                        **sampling_params,
                        "stop": stop,
                        "include_stop_str_in_output": True,
                        "max_tokens": max_tokens,
                        "seed": seed,
                    },
                )
            metrics["num_preempted"] += output.num_preempted or 0
            if not server_fields:
                server_fields.update(output.extra_fields)
            elif "max_global_steps" in output.extra_fields:
                server_fields["max_global_steps"] = output.extra_fields["max_global_steps"]
            return Generation(list(output.token_ids), list(output.log_probs) if output.log_probs else None)

        row = {
            "prompt": _plain(list(kwargs["raw_prompt"])),
            "data_source": kwargs["data_source"],
            "reward_model": _plain(kwargs["reward_model"]),
            "extra_info": info,
        }
        trajectory = await run_episode(row, generate=generate, setup=room.setup, step=None if validating else step)
        trajectory.no_loss = not validating and trajectory.stop_reason in room.no_loss_on
        metrics["tool_calls"] = sum(trajectory.tool_latencies)
        trajectory.sampling = {key: sampling_params[key] for key in ("temperature", "top_p", "top_k")}
        rollouts.append(room.rollouts, trajectory, step=step, split=info["split"], sample=sample)
        if validating and step == 0:
            room.sanity.check(info["index"], trajectory)
        kept = _handed_over(trajectory, room.mask_observations)
        ids, mask = trajectory.response_ids[:kept], _trained(trajectory, room.mask_observations)[:kept]
        logprobs = trajectory.response_logprobs[:kept]
        if not ids:
            # verl sets the reward on the last token of the response (agent_loop.py:147): there must be one.
            ids, mask, logprobs = [self.tokenizer.eos_token_id], [0], [0.0]
        paid = room.pays_turns and not validating
        output = partial(TurnOutput, turn_rewards=_earlier_turns(trajectory)) if paid else AgentLoopOutput
        return output(
            prompt_ids=trajectory.prompt_ids,
            response_ids=ids,
            response_mask=mask,
            response_logprobs=logprobs,
            reward_score=trajectory.reward,
            num_turns=2 * trajectory.turns,
            metrics=AgentLoopMetrics(**metrics),
            extra_fields={
                # The weights' versions, which the engine tells with its first turn. An episode that was cut before has
                # none, and verl's metrics fail at a None (trainer/ppo/v1/trainer_base.py:1897).
                "min_global_steps": step - 1,
                "max_global_steps": step - 1,
                **server_fields,
                "turn_scores": [],
                "tool_rewards": [],
                "reward_extra_info": {
                    "success": trajectory.success,
                    "em": trajectory.em,
                    "f1": trajectory.f1,
                    "format_valid": float(trajectory.format_valid),
                    "searches": float(len(trajectory.queries)),
                    # verl asks every episode for the names that its first one has (agent_loop.py:1109).
                    **{f"part_{name}": value for name, value in {"fallback": 0.0, **trajectory.reward_parts}.items()},
                },
            },
        )
