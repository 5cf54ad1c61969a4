"""verl's configuration for RL, from our parameters: one flat list of Hydra overrides.

Every line is one of verl 0.9.1's own keys (verl/trainer/config/ppo_trainer.yaml). The algorithm's are in
`algorithm_config.py`; the section `verl` comes last and wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from pathlib import Path

from safetensors import safe_open

from tasks.params import Episode, Rl
from tasks.training.algorithm_config import algorithm_settings

HERE = Path(__file__).parent


@dataclass(frozen=True)
class RlFiles:
    """Files and folders of one RL run, all absolute."""

    model: Path
    train: Path
    validation: Path
    agent_loop: Path
    checkpoints: Path


def kv_cache_tokens(episode: Episode) -> int:
    """Longest sequence in tokens that the engine must hold."""
    return episode.max_prompt_tokens + episode.max_response_tokens


def bucket_megabytes(model: Path) -> int:
    """Megabytes of the bucket in which weights travel to vLLM: the largest tensor must fit, as float32."""
    largest = 0
    for path in model.glob("*.safetensors"):
        with safe_open(path, "pt") as tensors:
            largest = max(largest, *(prod(tensors.get_slice(name).get_shape()) for name in tensors.keys()))  # noqa: SIM118
    return max(64, ceil(4 * largest / 2**20))


def rl_settings(
    rl: Rl, episode: Episode, files: RlFiles, *, seed: int, dtype: str, gpu: bool, bucket: int
) -> dict[str, object]:
    """Settings for `verl.trainer.main_ppo`, by verl's keys; Hydra adds those with a `+`.

    Args:
        rl: the rl section.
        episode: the episode section: budgets become prompt and response lengths.
        files: what the run reads and writes.
        seed: of training and sampling.
        dtype: `float32` or `bfloat16`, of training and sampling alike.
        gpu: whether a CUDA device is there.
        bucket: megabytes of the bucket in which weights travel to vLLM.
    """
    actor, rollout, model = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
    precision = {"float32": "fp32", "bfloat16": "bf16"}[dtype]
    rollouts = rl.prompts * rl.samples
    micro_batch = min(rl.micro_batch_size, rl.mini_batch)
    length = kv_cache_tokens(episode)
    settings: dict[str, object] = {
        "data.train_files": files.train,
        "data.val_files": files.validation,
        "data.train_batch_size": rl.prompts,
        "data.max_prompt_length": episode.max_prompt_tokens,
        "data.max_response_length": episode.max_response_tokens,
        "data.dataloader_num_workers": 0,
        "data.shuffle": False,  # ingest has shuffled, and validate has checked that very order
        "data.filter_overlong_prompts": False,  # stage validate has measured every prompt
        "data.validation_shuffle": False,
        "data.seed": seed,
        f"{model}.path": files.model,
        f"{model}.use_remove_padding": gpu,
        f"+{model}.override_config.attn_implementation": "sdpa",
        f"{model}.enable_gradient_checkpointing": gpu,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.ppo_micro_batch_size_per_gpu": micro_batch,
        f"{actor}.optim.lr": rl.learning_rate,
        f"{actor}.use_torch_compile": False,
        f"{actor}.fsdp_config.use_torch_compile": False,
        f"{actor}.fsdp_config.seed": seed,
        f"+{actor}.fsdp_config.mixed_precision.param_dtype": precision,
        f"+{actor}.fsdp_config.mixed_precision.reduce_dtype": "fp32",
        f"+{actor}.fsdp_config.mixed_precision.buffer_dtype": "fp32",
        f"{actor}.checkpoint.save_contents": "[model,optimizer,extra]",
        f"{rollout}.name": "vllm",
        f"{rollout}.n": rl.samples,
        f"{rollout}.temperature": rl.temperature,
        f"{rollout}.dtype": dtype,
        f"{rollout}.seed": seed,
        f"{rollout}.calculate_log_probs": True,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.enforce_eager": True,
        f"{rollout}.checkpoint_engine.update_weights_bucket_megabytes": bucket,
        f"{rollout}.free_cache_engine": gpu,
        # A seeded request cut into chunks fails on a CPU: see evaluation/vllm_engine.py.
        f"{rollout}.enable_chunked_prefill": gpu,
        f"{rollout}.max_num_seqs": min(256, max(rollouts, rl.validation_questions)),
        f"{rollout}.max_model_len": length,
        f"{rollout}.max_num_batched_tokens": max(2048, length),
        f"{rollout}.log_prob_micro_batch_size_per_gpu": micro_batch,
        f"{rollout}.val_kwargs.temperature": 0,
        f"{rollout}.val_kwargs.do_sample": False,
        f"{rollout}.agent.num_workers": 1,
        f"{rollout}.agent.default_agent_loop": "forager",
        f"{rollout}.agent.agent_loop_config_path": files.agent_loop,
        "reward.num_workers": 0,  # the episode brings its reward
        "trainer.logger": "[console,file]",
        "trainer.n_gpus_per_node": 1,
        "trainer.nnodes": 1,
        "trainer.total_training_steps": rl.steps,
        "trainer.total_epochs": 1_000_000,  # the number of steps decides
        "trainer.val_before_train": True,
        "trainer.test_freq": rl.validate_every,
        "trainer.save_freq": rl.validate_every,
        "trainer.default_local_dir": files.checkpoints,
        "trainer.resume_mode": "auto",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "trainer.v1.sampler.custom_sampler.path": HERE / "replay_buffer.py",
        "trainer.v1.sampler.custom_sampler.name": "PromptReplayBuffer",
        "+ray_kwargs.ray_init.include_dashboard": False,
    }
    if not gpu:
        settings |= {
            "trainer.device": "cpu",
            f"+{rollout}.enable_sleep_mode": False,
            f"+{rollout}.engine_kwargs.vllm.worker_extension_cls": "tasks.training.vllm_worker.CpuWorkerExtension",
            # Logical resources: verl's placement group asks for a GPU and for more cores than a laptop has.
            "ray_kwargs.ray_init.num_cpus": 16,
            "+ray_kwargs.ray_init.num_gpus": 1,
            "+ray_kwargs.ray_init.object_store_memory": 500_000_000,
        }
    if rl.critic is not None:
        settings |= _critic_settings(settings, micro_batch)
    if rl.kl.route != "none":
        settings |= _reference_settings(settings)
    return settings | algorithm_settings(rl, episode)


def _reference_settings(run: dict[str, object]) -> dict[str, object]:
    """Of the reference policy: it computes as the actor does.

    Left alone it computes in bfloat16, whatever is trained (workers/engine/fsdp/transformer_impl.py:397), and a
    policy that has not moved has a KL above 0.
    """
    actor, reference = "actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config"
    kinds = ("param_dtype", "reduce_dtype", "buffer_dtype")
    return {
        f"{reference}.use_torch_compile": run[f"{actor}.use_torch_compile"],
        **{f"+{reference}.mixed_precision.{kind}": run[f"+{actor}.mixed_precision.{kind}"] for kind in kinds},
    }


def _critic_settings(run: dict[str, object], micro_batch: int) -> dict[str, object]:
    """Of the critic: the policy's weights, trained as the actor is.

    verl 0.9.1's V1 trainer makes the critic's engine of `critic.fsdp` alone (trainer/ppo/v1/trainer_base.py:276), where
    `critic.ppo_micro_batch_size_per_gpu` does not arrive: without these keys its micro-batches are of 32,768 tokens.
    The new head's weights come from torch's first seed, whatever the run's: FSDP's engine reads its own in
    `full_determinism` alone (workers/engine/fsdp/transformer_impl.py:157).
    """
    model, actor = "actor_rollout_ref.model", "actor_rollout_ref.actor"
    as_the_actor = {
        "critic.model.path": f"{model}.path",
        "critic.model.use_remove_padding": f"{model}.use_remove_padding",
        "critic.model.enable_gradient_checkpointing": f"{model}.enable_gradient_checkpointing",
        "+critic.model.override_config.attn_implementation": f"+{model}.override_config.attn_implementation",
        "critic.strategy": f"{actor}.strategy",
        "critic.fsdp.use_torch_compile": f"{actor}.fsdp_config.use_torch_compile",
        "critic.fsdp.seed": f"{actor}.fsdp_config.seed",
        **{
            f"+critic.fsdp.mixed_precision.{kind}": f"+{actor}.fsdp_config.mixed_precision.{kind}"
            for kind in ("param_dtype", "reduce_dtype", "buffer_dtype")
        },
        "critic.ppo_micro_batch_size_per_gpu": f"{actor}.ppo_micro_batch_size_per_gpu",
        "critic.checkpoint.save_contents": f"{actor}.checkpoint.save_contents",
    }
    return {
        **{key: run[source] for key, source in as_the_actor.items()},
        "+critic.fsdp.use_dynamic_bsz": False,
        "+critic.fsdp.micro_batch_size_per_gpu": micro_batch,
        "+critic.fsdp.infer_micro_batch_size_per_gpu": micro_batch,
    }
