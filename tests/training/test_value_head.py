"""The critic's model, and that verl cannot load it by itself."""

import importlib.util
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import verl.utils.model
from transformers import AutoConfig, LlamaConfig, LlamaForCausalLM
from verl.workers.engine.fsdp import transformer_impl

from tasks.training.machine import engine_environment
from tasks.training.value_head import load_valuehead_model


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, pad_token_id=0
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def configured(policy: Path, attention: str):
    return AutoConfig.from_pretrained(policy, num_labels=1, attn_implementation=attention)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_policys_weights_lie_under_a_head_of_one_value_a_token(policy: Path, attention: str) -> None:
    critic = load_valuehead_model(str(policy), torch.float32, configured(policy, attention), False)
    body = LlamaForCausalLM.from_pretrained(policy).model.state_dict()
    assert critic.config._attn_implementation == attention
    assert all(torch.equal(critic.model.state_dict()[name], value) for name, value in body.items())
    assert critic(torch.arange(5)[None]).logits.shape == (1, 5, 1)
    assert critic.score.weight.dtype == torch.float32


def test_its_weights_have_the_dtype_that_is_asked_for(policy: Path) -> None:
    critic = load_valuehead_model(str(policy), torch.bfloat16, configured(policy, "sdpa"), False)
    assert {parameter.dtype for parameter in critic.parameters()} == {torch.bfloat16}


def test_verl_asks_for_flash_attention_whatever_is_configured() -> None:
    # When this fails, tasks/training/value_head.py can go.
    source = (Path(importlib.util.find_spec("verl").submodule_search_locations[0]) / "utils/model.py").read_text()
    loading = source[source.index("def load_valuehead_model") : source.index("_architecture_to_auto_class")]
    assert loading.count('attn_implementation="flash_attention_2"') == 2
    assert "model_config._attn_implementation" not in loading


def test_verls_engine_takes_the_function_from_its_module_when_it_builds_a_critic() -> None:
    assert verl.utils.model.load_valuehead_model is load_valuehead_model
    assert not hasattr(transformer_impl, "load_valuehead_model")
    assert "from verl.utils.model import load_valuehead_model" in inspect.getsource(transformer_impl.FSDPEngine)


LOADED = """
import sys
import verl
from verl.trainer.ppo import core_algos
from verl.utils import model
print(sorted(name for name in core_algos.ADV_ESTIMATOR_REGISTRY if name.startswith("forager")))
print(sorted(name for name in core_algos.POLICY_LOSS_REGISTRY if name.startswith("forager")))
print(model.load_valuehead_model.__module__, "colorsys" in sys.modules)
"""


def test_every_process_of_verl_loads_what_is_ours_and_then_what_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "VERL_USE_EXTERNAL_MODULES"
    own = ["tasks.training.cpu_platform", "tasks.training.verl_extensions"]
    monkeypatch.delenv(name, raising=False)
    assert engine_environment()[name].split(",") == own
    monkeypatch.setenv(name, "colorsys")
    variables = engine_environment()
    assert variables[name].split(",") == [*own, "colorsys"]
    shown = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert shown.stdout.splitlines()[-3:] == [
        "['forager_grpo', 'forager_reinforce_plus_plus', 'forager_rloo', 'forager_turn_grpo']",
        "['forager_off_policy_mask']",
        "tasks.training.value_head True",
    ], shown.stderr
