"""Keys of verl's that are not the user's to set: ours set them, or a stage relies on what it has set.

An owner is the key of ours to use instead, or STAGE. It owns what stands below its key as well, unless a longer key
says otherwise; None hands a key back to the user. tests/training/test_verl_schema.py holds this against the settings:
every key that a stage sets stands here, and with the key of ours that moves it.
"""

from __future__ import annotations

from collections.abc import Mapping

STAGE = ""
_ACTOR, _ROLLOUT, _MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.model"
_BUDGET = "episode.max_prompt_tokens and episode.max_response_tokens"

RL: dict[str, str | None] = {
    f"{_ACTOR}.optim.lr": "rl.learning_rate",
    f"{_ACTOR}.ppo_mini_batch_size": "rl.prompts / rl.updates",
    f"{_ACTOR}.ppo_micro_batch_size": "rl.micro_batch_size",
    f"{_ACTOR}.ppo_micro_batch_size_per_gpu": "rl.micro_batch_size",
    f"{_ACTOR}.ppo_epochs": "rl.epochs",
    f"{_ACTOR}.policy_loss.loss_mode": "rl.loss, rl.off_policy_mask and rl.rollout_correction",
    f"{_ACTOR}.policy_loss.rollout_correction": "rl.rollout_correction",
    f"{_ACTOR}.calculate_entropy": STAGE,  # every step's figures have the entropy
    f"{_ACTOR}.loss_agg_mode": "rl.aggregation",
    f"{_ACTOR}.loss_scale_factor": "rl.aggregation, with episode.max_response_tokens",
    f"{_ACTOR}.clip_ratio": "rl.clip.low",
    f"{_ACTOR}.clip_ratio_low": "rl.clip.low",
    f"{_ACTOR}.clip_ratio_high": "rl.clip.high",
    f"{_ACTOR}.clip_ratio_c": "rl.clip.dual",
    f"{_ACTOR}.entropy_coeff": "rl.entropy_coefficient",
    f"{_ACTOR}.use_kl_loss": "rl.kl.route",
    f"{_ACTOR}.kl_loss_coef": "rl.kl.coefficient",
    f"{_ACTOR}.kl_loss_type": "rl.kl.estimator",
    f"{_ACTOR}.strategy": STAGE,  # merge reads FSDP's shards, and FSDP2's alone run on a CPU
    f"{_ACTOR}.checkpoint": STAGE,
    f"{_ACTOR}.fsdp_config.seed": "seed",
    f"{_ACTOR}.fsdp_config.mixed_precision.param_dtype": "policy.dtype",
    "actor_rollout_ref.ref.log_prob_micro_batch_size": "rl.micro_batch_size",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": "rl.micro_batch_size",
    "actor_rollout_ref.hybrid_engine": STAGE,
    f"{_MODEL}.path": "policy.source",
    f"{_ROLLOUT}.name": STAGE,
    f"{_ROLLOUT}.n": "rl.samples",
    f"{_ROLLOUT}.temperature": "rl.temperature",
    f"{_ROLLOUT}.dtype": "policy.dtype",
    f"{_ROLLOUT}.seed": "seed",
    f"{_ROLLOUT}.prompt_length": "episode.max_prompt_tokens",
    f"{_ROLLOUT}.response_length": "episode.max_response_tokens",
    f"{_ROLLOUT}.max_model_len": _BUDGET,
    f"{_ROLLOUT}.log_prob_micro_batch_size": "rl.micro_batch_size",
    f"{_ROLLOUT}.log_prob_micro_batch_size_per_gpu": "rl.micro_batch_size",
    f"{_ROLLOUT}.calculate_log_probs": STAGE,  # the engine is compared with the trainer every step
    f"{_ROLLOUT}.val_kwargs": STAGE,  # greedy, once: the check of the engine before the first step
    f"{_ROLLOUT}.agent": STAGE,
    f"{_ROLLOUT}.enable_sleep_mode": STAGE,
    f"{_ROLLOUT}.tensor_model_parallel_size": STAGE,
    f"{_ROLLOUT}.engine_kwargs.vllm.worker_extension_cls": STAGE,
    "algorithm.adv_estimator": "rl.advantage and rl.credit.level",
    "algorithm.norm_adv_by_std_in_grpo": "rl.std_normalisation",
    "algorithm.gamma": "rl.gamma",
    "algorithm.lam": "rl.lam",
    "algorithm.turn_weight": "rl.credit.weight",
    "algorithm.use_kl_in_reward": "rl.kl.route",
    "algorithm.kl_penalty": "rl.kl.estimator",
    "algorithm.kl_ctrl": "rl.kl.coefficient, rl.kl.target and rl.kl.horizon",
    "algorithm.filter_groups": "rl.dynamic_sampling",
    "algorithm.rollout_correction": "rl.rollout_correction",
    "algorithm.rollout_correction.rollout_is_batch_normalize": None,  # ours has no such key
    "critic.enable": "rl.critic",
    "critic.optim.lr": "rl.critic.learning_rate",
    "critic.ppo_mini_batch_size": "rl.prompts / rl.updates",
    "critic.model.path": "policy.source",
    "critic.model.tokenizer_path": "policy.source",
    "data.train_files": "demos and rl.questions",
    "data.val_files": "rl.validation_questions",
    "data.train_max_samples": "rl.questions",
    "data.val_max_samples": "rl.validation_questions",
    "data.train_batch_size": "rl.prompts",
    "data.gen_batch_size": STAGE,
    "data.max_prompt_length": "episode.max_prompt_tokens",
    "data.max_response_length": "episode.max_response_tokens",
    "data.dataloader_num_workers": STAGE,
    "data.shuffle": "ingest.shuffle",
    "data.validation_shuffle": STAGE,
    "data.filter_overlong_prompts": STAGE,
    "data.seed": "seed",
    "reward": "environment.reward",
    "reward_model": "environment.reward",
    "custom_reward_function": "environment.reward",
    "sandbox_fusion": "environment.reward",
    "model_engine": STAGE,
    "trainer.logger": STAGE,
    "trainer.n_gpus_per_node": STAGE,
    "trainer.nnodes": STAGE,
    "trainer.device": STAGE,
    "trainer.total_training_steps": "rl.steps",
    "trainer.total_epochs": "rl.steps",
    "trainer.val_before_train": STAGE,  # the check of the engine plays in it
    "trainer.val_only": STAGE,
    "trainer.test_freq": "rl.validate_every",
    "trainer.save_freq": "rl.validate_every",
    "trainer.critic_warmup": "rl.critic.warmup_steps",
    "trainer.default_local_dir": STAGE,
    "trainer.default_hdfs_dir": STAGE,
    "trainer.del_local_ckpt_after_load": STAGE,
    "trainer.max_actor_ckpt_to_keep": "rl.keep",
    "trainer.resume_mode": STAGE,
    "trainer.resume_from_path": STAGE,
    "trainer.use_v1": STAGE,
    "trainer.v1.trainer_mode": STAGE,
    "trainer.v1.sampler": STAGE,
    "trainer.v1.sampler.sampler_kwargs.max_batches": "rl.dynamic_sampling.max_batches",
    "trainer.v1.sampler.sampler_kwargs.keep_groups": "rl.keep_groups",
    "ray_kwargs.ray_init.num_gpus": STAGE,
    # Speed and memory alone: what a stage sets suits most machines, and none of its figures rests on it.
    f"{_MODEL}.use_remove_padding": None,
    f"{_MODEL}.enable_gradient_checkpointing": None,
    f"{_MODEL}.override_config.attn_implementation": None,
    f"{_ACTOR}.use_torch_compile": None,
    f"{_ACTOR}.fsdp_config.use_torch_compile": None,
    f"{_ACTOR}.fsdp_config.mixed_precision.reduce_dtype": None,
    f"{_ACTOR}.fsdp_config.mixed_precision.buffer_dtype": None,
    f"{_ROLLOUT}.enforce_eager": None,
    f"{_ROLLOUT}.free_cache_engine": None,
    f"{_ROLLOUT}.enable_chunked_prefill": None,
    f"{_ROLLOUT}.max_num_seqs": None,
    f"{_ROLLOUT}.max_num_batched_tokens": None,
    f"{_ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes": None,
    "transfer_queue.backend.SimpleStorage.num_data_storage_units": None,
    "ray_kwargs.ray_init.num_cpus": None,
    "ray_kwargs.ray_init.object_store_memory": None,
    "ray_kwargs.ray_init.include_dashboard": None,
}

SFT: dict[str, str | None] = {
    "data.train_files": STAGE,
    "data.val_files": STAGE,
    "data.custom_cls": STAGE,
    "data.train_batch_size": "sft.batch_size",
    "data.micro_batch_size_per_gpu": None,
    "data.use_dynamic_bsz": None,
    "data.num_workers": None,
    "data.max_length": _BUDGET,
    "data.train_max_samples": "demos.questions",
    "data.val_max_samples": "demos.validation",
    "model.path": "policy.source",
    "model.use_remove_padding": None,
    "model.enable_gradient_checkpointing": None,
    "model.override_config.attn_implementation": None,
    "engine.strategy": STAGE,
    "engine.seed": "seed",
    "engine.use_torch_compile": None,
    "engine.mixed_precision.param_dtype": "policy.dtype",
    "engine.mixed_precision.reduce_dtype": None,
    "engine.mixed_precision.buffer_dtype": None,
    "optim.lr": "sft.learning_rate",
    "optim.lr_scheduler_type": None,
    "optim.lr_warmup_steps_ratio": None,
    "checkpoint": STAGE,
    "trainer.logger": STAGE,
    "trainer.n_gpus_per_node": STAGE,
    "trainer.nnodes": STAGE,
    "trainer.device": STAGE,
    "trainer.total_training_steps": "sft.max_steps",
    "trainer.total_epochs": "sft.max_steps",
    "trainer.save_freq": "sft.check_every",
    "trainer.test_freq": "sft.check_every",
    "trainer.default_local_dir": STAGE,
    "trainer.default_hdfs_dir": STAGE,
    "trainer.max_ckpt_to_keep": STAGE,  # a check may be behind the trainer
    "trainer.resume_mode": STAGE,
    "trainer.resume_from_path": STAGE,
}


def owner(owners: Mapping[str, str | None], key: str) -> str | None:
    """Whose a key of verl's is: a key of ours, STAGE, or None when it is the user's."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        above = ".".join(parts[:length])
        if above in owners:
            return owners[above]
    return None
