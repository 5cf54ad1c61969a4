"""The batches of a run, by hand."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks import params
from tasks.errors import InputError
from tasks.params import Rl
from tasks.training.batches import Batches

ROOT = Path(__file__).parents[2]


def rl(**more: Any) -> Rl:
    content = yaml.safe_load((ROOT / "params/defaults.yaml").read_text())["rl"]
    return Rl.model_validate(params.overlay(content, more))


def verl(**more: Any) -> dict[str, Any]:
    """The part of verl's configuration that says it: 16 questions x 8, 2 updates of 64, micro-batches of 32."""
    network = {
        "ppo_mini_batch_size": 8,
        "ppo_epochs": 1,
        "ppo_micro_batch_size_per_gpu": 32,
        "use_dynamic_bsz": False,
        "ppo_max_token_len_per_gpu": 16384,
    }
    content = {
        "data": {"train_batch_size": 16},
        "actor_rollout_ref": {"actor": network, "rollout": {"n": 8}},
        "critic": network,
        "algorithm": {"filter_groups": {"enable": False}},
        "trainer": {"total_training_steps": 20, "n_gpus_per_node": 1, "nnodes": 1, "critic_warmup": 0},
    }
    return params.overlay(content, more)


def lines(section: Rl, questions: int | None, with_critic: bool = False, **more: Any) -> list[str]:
    batches = Batches.of(verl(**more), questions, critic=with_critic)
    batches.check()
    return list(batches.lines(section))


def actor(**more: Any) -> dict[str, Any]:
    return {"actor_rollout_ref": {"actor": more}}


def test_the_hierarchy():
    assert lines(rl(), 2000) == [
        "16 questions x 8 rollouts = 128 rollouts a step -> 2 optimizer steps of 64 -> 2 micro-batches of 32 each",
        "20 steps = 40 optimizer steps, 2,560 rollouts",
        "320 question visits of 2,000 questions: 16 % of an epoch, each question at most once",
    ]


def test_one_update_and_several_passes():
    first, second, _ = lines(
        rl(), 2000, **actor(ppo_mini_batch_size=16, ppo_epochs=3, ppo_micro_batch_size_per_gpu=128)
    )
    assert first.endswith("-> 3 optimizer steps of 128 (3 passes) -> 1 micro-batch of 128 each")
    assert second == "20 steps = 60 optimizer steps, 2,560 rollouts"
    first, *_ = lines(rl(), 2000, **actor(ppo_mini_batch_size=16))
    assert first.endswith("-> 1 optimizer step of 128 -> 4 micro-batches of 32")


def test_micro_batches_by_tokens():
    first, *_ = lines(rl(), 2000, **actor(use_dynamic_bsz=True))
    assert first.endswith("-> 2 optimizer steps of 64 -> micro-batches of at most 16,384 tokens")


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        # 320 visits; verl drops the rest of an epoch that is no whole batch of 16.
        (320, ["320 question visits of 320 questions: 1.00 epochs, each question once"]),
        (160, ["320 question visits of 160 questions: 2.00 epochs, each question twice"]),
        (100, [
            "320 question visits of 100 questions: 3.33 epochs, each question 3 or 4 times",
            "never played: the last 4 questions, since verl drops what is no whole batch",
        ]),
        (17, [
            "320 question visits of 17 questions: 20.00 epochs, each question 20 times",
            "never played: the last 1 question, since verl drops what is no whole batch",
        ]),
        (None, ["320 question visits; RL's questions are not made yet (data/demos/rl_train.parquet)"]),
    ],
)  # fmt: skip
def test_visits_of_a_question(questions, said):
    assert lines(rl(), questions)[2:] == said


def test_dynamic_sampling_generates_more_and_drops_no_rest():
    section = rl(dynamic_sampling={"metric": "success", "max_batches": 10})
    *_, visits, more = lines(section, 100, algorithm={"filter_groups": {"enable": True}})
    assert visits == "320 question visits of 100 questions: 3.20 epochs, each question 3 or 4 times"
    assert more == (
        "dynamic sampling: groups of equal success are replaced, so a step plays 16 to 160 questions; "
        "the visits above are the fewest"
    )


def test_kept_groups_are_a_share_of_more():
    *_, more = lines(rl(keep_groups=0.3), 2000, data={"gen_batch_size": 1})
    assert more == "kept groups: a step plays 54 questions, and keeps the 16 that deviate most"  # 16 / .3 = 53.3


def test_the_critics_batches_are_its_own():
    *_, last = lines(rl(), 2000, True, critic={"ppo_micro_batch_size_per_gpu": 16}, trainer={"critic_warmup": 5})
    assert last == (
        "critic: 128 rollouts a step -> 2 optimizer steps of 64 -> 4 micro-batches of 16 each; "
        "the policy is trained from step 5 on"
    )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (actor(ppo_mini_batch_size=3), "actor: optimizer steps of 24 rollouts do not divide the 128 of a step"),
        (actor(ppo_micro_batch_size_per_gpu=24), "actor: micro-batches of 24 do not divide the 64 rollouts"),
        ({"critic": {"ppo_micro_batch_size_per_gpu": 24}}, "critic: micro-batches of 24 do not divide the 64 rollouts"),
        ({"trainer": {"n_gpus_per_node": 3}}, "3 GPUs do not share 64 rollouts of an optimizer step evenly"),
        ({"trainer": {"n_gpus_per_node": 2, "nnodes": 2}}, "micro-batches of 32 do not divide the 16 rollouts"),
    ],
)
def test_what_does_not_divide_is_refused(more, words):
    batches = Batches.of(verl(**more), 2000, critic=True)
    with pytest.raises(InputError, match=words):
        batches.check()


@pytest.mark.parametrize(("questions", "refused"), [(15, True), (16, False), (None, False)])
def test_fewer_questions_than_a_batch_are_refused(questions, refused):
    batches = Batches.of(verl(), questions, critic=False)
    if refused:
        with pytest.raises(InputError, match=r"rl\.prompts: 16 questions a step, and there are 15: verl drops"):
            batches.check()
    else:
        batches.check()
