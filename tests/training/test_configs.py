"""Our overrides against verl's real configurations: every key exists, every value arrives."""

from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_module
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf
from safetensors.torch import save_file
from torch.utils.data import SequentialSampler
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo.utils import create_rl_sampler, need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from tasks.training.overrides import hydra_overrides
from tasks.training.rl_config import RlFiles, bucket_megabytes, kv_cache_tokens, rl_settings
from tasks.training.sft_config import sft_overrides

FILES = RlFiles(Path("/m"), Path("/t.parquet"), Path("/v.parquet"), Path("/loop.yaml"), Path("/c"))


def composed(name: str, overrides: list[str]):
    # Hydra refuses a key that is not there unless it is added with `+`, and one added twice.
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose(name, overrides)


def rl_lines(defaults, dtype: str = "float32", gpu: bool = False, files: RlFiles = FILES, **verl) -> list[str]:
    configured = rl_settings(defaults.rl, defaults.episode, files, seed=5, dtype=dtype, gpu=gpu, bucket=64)
    return hydra_overrides(configured, verl)


def rl_config(defaults, **asked):
    return composed("ppo_trainer", rl_lines(defaults, **asked))


def sft_lines(defaults, dtype: str = "float32", gpu: bool = False, **verl) -> list[str]:
    return sft_overrides(
        defaults.sft.model_copy(update={"verl": verl}), defaults.episode, model=Path("/m"), train=Path("/t.parquet"),
        validation=Path("/v.parquet"), checkpoints=Path("/c"), seed=5, dtype=dtype, gpu=gpu,
    )  # fmt: skip


def sft_config(defaults, **asked):
    return composed("sft_trainer_engine", sft_lines(defaults, **asked))


def mismatches(config, settings: list[str]) -> list[str]:
    """Settings whose value in the composed configuration is another one; a value is YAML, as in Hydra's grammar."""
    wrong = []
    for setting in settings:
        key, _, value = setting.lstrip("+").partition("=")
        got = OmegaConf.select(config, key, throw_on_missing=True)
        wanted = OmegaConf.select(config, value[2:-1]) if value.startswith("${") else OmegaConf.create(f"x: {value}").x
        if got != wanted:
            wrong.append(f"{key}: {got!r} != {wanted!r}")
    return wrong


@pytest.mark.parametrize(("dtype", "gpu"), [("float32", False), ("bfloat16", True)])
def test_every_rl_setting_arrives(defaults, dtype: str, gpu: bool, monkeypatch) -> None:
    config = rl_config(defaults, dtype=dtype, gpu=gpu)
    assert mismatches(config, rl_lines(defaults, dtype=dtype, gpu=gpu)) == []
    # And verl's own checks accept it, without a critic and a reference model.
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    assert not need_critic(config) and not need_reference_policy(config)
    validate_config(config, use_reference_policy=False, use_critic=False)
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    assert omega_conf_to_dataclass(rollout).n == defaults.rl.samples
    assert rollout.dtype == dtype
    assert actor.fsdp_config.mixed_precision.param_dtype == {"float32": "fp32", "bfloat16": "bf16"}[dtype]
    assert actor.fsdp_config.model_dtype == "fp32"  # master weights


def test_what_must_hold_of_the_rl_configuration(defaults) -> None:
    config = rl_config(defaults)
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    assert rollout.max_model_len == config.data.max_prompt_length + config.data.max_response_length
    assert rollout.max_model_len == kv_cache_tokens(defaults.episode)
    assert actor.ppo_mini_batch_size == config.data.train_batch_size  # one on-policy update a step
    assert actor.ppo_epochs == 1
    assert config.trainer.save_freq == config.trainer.test_freq  # every checkpoint is measured
    assert config.trainer.val_before_train and rollout.val_kwargs.n == 1  # the sanity check needs both
    assert config.trainer.use_v1
    assert rollout.val_kwargs.temperature == 0
    assert config.algorithm.norm_adv_by_std_in_grpo is True
    assert config.trainer.max_actor_ckpt_to_keep is None  # the best of all checkpoints is kept
    assert Path(config.trainer.v1.sampler.custom_sampler.path).is_file()


def test_rows_come_in_the_files_order_and_a_resumed_run_goes_on_behind_its_last_step(defaults) -> None:
    # As verl's trainer makes and saves it: trainer/ppo/v1/trainer_base.py, _init_dataloader and _save_checkpoint.
    def loader() -> StatefulDataLoader:
        sampler = create_rl_sampler(rl_config(defaults).data, rows)
        assert isinstance(sampler, SequentialSampler)
        return StatefulDataLoader(rows, batch_size=4, num_workers=0, drop_last=True, sampler=sampler)

    rows = list(range(10))
    first = loader()
    steps = iter(first)
    assert next(steps).tolist() == [0, 1, 2, 3]
    resumed = loader()
    resumed.load_state_dict(first.state_dict())
    assert [batch.tolist() for batch in resumed] == [[4, 5, 6, 7]]
    assert [batch.tolist() for batch in resumed] == [[0, 1, 2, 3], [4, 5, 6, 7]]  # the next epoch, in the same order


def test_questions_that_dynamic_sampling_took_and_threw_away_are_not_taken_again_by_a_resumed_run(defaults) -> None:
    # verl fetches one by one then: trainer/ppo/v1/trainer_base.py:735. A step that took 4 and 3 more ends after 7.
    def loader() -> StatefulDataLoader:
        sampler = create_rl_sampler(rl_config(defaults).data, rows)
        return StatefulDataLoader(rows, batch_size=1, num_workers=0, drop_last=True, sampler=sampler)

    rows = list(range(10))
    first = loader()
    taken = iter(first)
    assert [next(taken).item() for _ in range(7)] == list(range(7))
    resumed = loader()
    resumed.load_state_dict(first.state_dict())
    assert [batch.item() for batch in resumed] == [7, 8, 9]


@pytest.mark.parametrize(("dtype", "gpu"), [("float32", False), ("bfloat16", True)])
def test_every_sft_setting_arrives(defaults, dtype: str, gpu: bool) -> None:
    config = sft_config(defaults, dtype=dtype, gpu=gpu)
    assert mismatches(config, sft_lines(defaults, dtype=dtype, gpu=gpu)) == []
    assert config.trainer.save_freq == config.trainer.test_freq
    assert "hf_model" in config.checkpoint.save_contents
    assert config.trainer.max_ckpt_to_keep is None  # a check may be behind the trainer
    assert Path(config.data.custom_cls.path).is_file()
    assert omega_conf_to_dataclass(config.engine).strategy == "fsdp2"
    assert config.engine.mixed_precision.param_dtype == {"float32": "fp32", "bfloat16": "bf16"}[dtype]


def test_overrides_come_last_and_win(defaults) -> None:
    assert rl_config(defaults, data={"seed": 9}).data.seed == 9
    assert sft_config(defaults, optim={"lr": 0.5}).optim.lr == 0.5


def test_a_key_of_ours_that_verl_has_not_would_be_refused() -> None:
    with pytest.raises(ConfigCompositionException, match="no_such_key"):
        composed("ppo_trainer", hydra_overrides({"algorithm.no_such_key": 1}))


def test_paths_with_odd_characters_survive_hydras_grammar(defaults) -> None:
    odd = Path("/tmp/a b/x=1,(y) [z] {u}: it's")
    files = RlFiles(odd / "m", odd / "t.parquet", odd / "v.parquet", odd / "loop.yaml", odd / "c")
    config = rl_config(defaults, files=files)
    assert config.data.train_files == str(odd / "t.parquet")
    assert config.trainer.default_local_dir == str(odd / "c")
    assert config.actor_rollout_ref.model.path == str(odd / "m")


def test_the_bucket_holds_the_largest_tensor(tmp_path):
    save_file({"small": torch.zeros(4), "large": torch.zeros(49152, 576)}, tmp_path / "model.safetensors")
    assert bucket_megabytes(tmp_path) == 108  # 49152 x 576 x 4 bytes; vLLM's transfer refuses a tensor beyond it
