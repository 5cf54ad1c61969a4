"""Episodes through verl's own agent loop class, with a scripted server and a real index and tokenizer."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, DictConfigWrap
from verl.utils.dataset.rl_dataset import RLHFDataset
from verl.workers.rollout.replica import TokenOutput

from tasks.agent.verl_loop import ForagerAgentLoop, TurnOutput
from tasks.training.rollouts import RolloutLog

TURNS = ("<search> Kashi </search>", "<answer> Rove </answer>")


class Server:
    """vLLM's place: says its turns one after the other, every token with the same log-probability."""

    def __init__(self, tokenizer: Any, *turns: str) -> None:
        self._turns = [tokenizer.encode(turn, add_special_tokens=False) for turn in turns or TURNS]

    async def generate(self, **request: Any) -> TokenOutput:
        if not self._turns:
            await asyncio.sleep(60)
        ids = self._turns.pop(0)
        return TokenOutput(token_ids=ids, log_probs=[-0.5] * len(ids))


@pytest.fixture
def play(tmp_path: Path, defaults, tokenizer, question_row, build_index):
    build_index(tmp_path / "index", [("p1", "Kashi", "Kashi was born in Rove.", None)])
    row = question_row("Where was Kashi born?", ["Rove"], ["Kashi"], ["p1"])

    def run(mask_observations: bool = True, *, server=None, **settings):
        path = tmp_path / f"agent-{mask_observations}-{len(list(tmp_path.iterdir()))}.json"
        sections = ("episode", "retrieval", "environment", "tools")
        plain = {name: getattr(defaults, name).model_dump() for name in sections}
        sanity = {"model": "", "folder": str(tmp_path / "sanity"), "episodes": 0, "max_logprob_diff": 1e-3}
        content = {
            **plain, "seed": 0, "mask_observations": mask_observations, "index": str(tmp_path / "index"),
            "rollouts": str(path.with_suffix("")), "sanity": sanity,
            "deadline_seconds": 60.0, "fallback_reward": 0.0, "no_loss_on": ["deadline"],
            "credit": "trajectory", **settings,
        }  # fmt: skip
        path.write_text(json.dumps(content))

        async def one():
            loop = ForagerAgentLoop(
                DictConfigWrap(OmegaConf.create({"actor_rollout_ref": {"rollout": {}}})),
                server or Server(tokenizer), tokenizer, None, RLHFDataset, DictConfigWrap(OmegaConf.create({})),
                settings=str(path),
            )  # fmt: skip
            fields = {key: row[key] for key in ("data_source", "reward_model", "extra_info")}
            sampling = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}
            return await loop.run(sampling, raw_prompt=row["prompt"], global_steps=1, **fields)

        output = asyncio.run(one())
        log = RolloutLog(path.with_suffix(""))
        log.gather(1)
        (record,) = pq.read_table(log.folder / "train_00001.parquet").to_pylist()
        return output, record

    return run


def test_verl_trains_on_what_the_policy_wrote(play, tokenizer) -> None:
    output, record = play(mask_observations=True)
    trained = [token for token, mask in zip(output.response_ids, output.response_mask, strict=True) if mask]
    assert tokenizer.decode(trained) == "".join(TURNS)
    assert output.response_mask == record["response_mask"]
    assert output.reward_score == 1.0
    # The engine's log-probabilities stand where the policy wrote, and 0 where the system did.
    assert output.response_logprobs == [-0.5 * mask for mask in output.response_mask]


def test_without_the_mask_verl_trains_on_observations_too_and_the_record_still_tells_them_apart(play) -> None:
    output, record = play(mask_observations=False)
    assert output.response_mask == [1] * len(output.response_ids)
    assert record["response_ids"] == output.response_ids
    assert 0 < sum(record["response_mask"]) < len(output.response_ids)


def test_a_trajectory_that_is_kept_out_of_the_loss_has_no_trained_token_and_keeps_its_own_mask(play) -> None:
    output, record = play(no_loss_on=["answer"])
    assert output.response_mask == [0] * len(output.response_ids)
    assert sum(record["response_mask"]) > 0 and record["no_loss"]
    assert output.reward_score == 1.0


class Silent:
    """A server that never answers."""

    async def generate(self, **request: Any) -> TokenOutput:
        await asyncio.sleep(60)
        raise AssertionError


def test_a_straggler_that_said_nothing_still_gives_verl_a_token_for_its_reward(play, tokenizer) -> None:
    output, record = play(server=Silent(), deadline_seconds=0.1, fallback_reward=-1.0)
    assert (output.response_ids, output.response_mask, output.response_logprobs) == (
        [tokenizer.eos_token_id],
        [0],
        [0.0],
    )
    names = output.extra_fields["reward_extra_info"].keys()
    assert names == play()[0].extra_fields["reward_extra_info"].keys() >= {"part_em", "part_fallback"}
    assert output.reward_score == -1.0 and output.as_dict()["rm_scores"].tolist() == [-1.0]
    assert (record["stop_reason"], record["response_ids"], record["no_loss"]) == ("deadline", [], True)
    # Step 1 samples with the weights that no step has changed; verl makes an array of these.
    assert [output.extra_fields[f"{end}_global_steps"] for end in ("min", "max")] == [0, 0]


def test_the_engine_says_which_weights_an_episode_was_played_with(play, tokenizer) -> None:
    class Versioned(Server):
        async def generate(self, **request: Any) -> TokenOutput:
            output = await super().generate(**request)
            left = len(self._turns)
            output.extra_fields = {"min_global_steps": 7 - left, "max_global_steps": 7 - left}
            return output

    output, _ = play(server=Versioned(tokenizer))
    ends = [output.extra_fields[f"{end}_global_steps"] for end in ("min", "max")]
    assert ends == [8 - len(TURNS), 7]


def test_what_follows_the_policys_last_token_is_logged_and_not_handed_over(play, tokenizer) -> None:
    cut = {"server": Server(tokenizer, TURNS[0]), "deadline_seconds": 0.3, "no_loss_on": [], "fallback_reward": -1.0}
    output, record = play(**cut)
    assert record["stop_reason"] == "deadline" and record["response_mask"][-1] == 0
    written = sum(record["response_mask"])
    assert output.response_ids == record["response_ids"][:written]
    assert output.response_mask == [1] * written and output.response_logprobs == [-0.5] * written
    # The outcome stands at a token that the policy wrote.
    assert output.as_dict()["rm_scores"].tolist() == [0.0] * (written - 1) + [-1.0]

    whole, record = play(mask_observations=False, **(cut | {"server": Server(tokenizer, TURNS[0])}))
    assert whole.response_ids == record["response_ids"] and len(whole.response_mask) > written


def test_verl_itself_has_no_place_for_an_earlier_reward() -> None:
    """`TurnOutput` is needed as long as this holds."""
    fields = {"prompt_ids": [1], "response_ids": [2, 3, 4], "response_mask": [1, 1, 1], "metrics": {}}
    assert AgentLoopOutput(reward_score=1.0, **fields).as_dict()["rm_scores"].tolist() == [0.0, 0.0, 1.0]
    paid = TurnOutput(reward_score=1.0, turn_rewards={0: 0.5}, **fields).as_dict()
    assert paid["rm_scores"].tolist() == [0.5, 0.0, 1.0] and "turn_rewards" not in paid


TWO = ("<search> Kashi </search>", "<search> Rove </search>", "<answer> Oka </answer>")


def test_with_credit_by_turn_every_earlier_turn_is_paid_at_its_own_last_token(play, tokenizer) -> None:
    output, record = play(credit="turn", server=Server(tokenizer, *TWO))
    assert record["turn_rewards"] == [1.0, 0.0, 0.0]
    first = record["response_mask"].index(0)
    scores = output.as_dict()["rm_scores"].tolist()
    assert {place: score for place, score in enumerate(scores) if score} == {
        first - 1: 1.0,
        len(scores) - 1: pytest.approx(0.1),  # the wrong answer's format
    }
    assert [output.response_mask[place] for place in (first - 1, len(scores) - 1)] == [1, 1]
    assert type(play(server=Server(tokenizer, *TWO))[0]) is AgentLoopOutput


def test_a_last_turn_that_searched_gets_the_outcome_alone(play, tokenizer) -> None:
    server = Server(tokenizer, TURNS[0])
    output, record = play(credit="turn", server=server, deadline_seconds=0.3, no_loss_on=[], fallback_reward=-1.0)
    assert record["turn_rewards"] == [1.0]
    scores = output.as_dict()["rm_scores"].tolist()
    assert scores == [0.0] * (len(scores) - 1) + [-1.0]


def test_no_turn_is_paid_of_a_trajectory_that_is_kept_out_of_the_loss(play, tokenizer) -> None:
    output, _ = play(credit="turn", server=Server(tokenizer, *TWO), no_loss_on=["answer"])
    scores = output.as_dict()["rm_scores"].tolist()
    assert scores == [0.0] * (len(scores) - 1) + [pytest.approx(0.1)] and not any(output.response_mask)
