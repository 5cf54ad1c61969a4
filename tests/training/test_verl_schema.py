"""verl's own keys against the schema of the verl that is installed."""

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks import params
from tasks.errors import InputError
from tasks.training.rl_config import RlFiles, rl_settings
from tasks.training.sft_config import sft_overrides
from tasks.training.verl_schema import check_verl, classes, owned
from tasks.training.verl_schema.tree import find, tree

ACTOR, ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
ROOT = Path(__file__).parents[2]
FILES = RlFiles(*map(Path, ("/m", "/t", "/v", "/l", "/c")))


def line(settings: dict[Any, Any], section: str = "verl") -> str:
    with pytest.raises(InputError) as caught:
        check_verl(section, settings, "here")
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (f"{ACTOR}.entropy_checkpoint", f"'verl.{ACTOR}.entropy_checkpointing'"),
        (f"{ACTOR}.optim.weight_decayy", f"'verl.{ACTOR}.optim.weight_decay'"),
        ("actor_rollout_ref.actorr.optim.weight_decay", f"'verl.{ACTOR}.optim.weight_decay'"),
        ("actor.grad_clip", f"'verl.{ACTOR}.grad_clip'"),  # as the user's other tools have it
        (f"{ACTOR}.weight_decay", f"'verl.{ACTOR}.optim.weight_decay' or "),  # the right leaf at a wrong place
        (f"{ROLLOUT}.server.timeot", f"'verl.{ROLLOUT}.server.timeout'"),  # of a dataclass alone
        (f"{ROLLOUT}.engine_kwargs.vlm.x", f"'verl.{ROLLOUT}.engine_kwargs.vllm'"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(key, meant):
    said = line({key: 1})
    assert said.startswith(f"here: verl has no key 'verl.{key}'; did you mean {meant}")


def test_a_key_that_is_like_none_is_refused_with_those_there_are():
    assert "verl has no key 'verl.zzz'; its keys are: model_engine, actor_rollout_ref, data, " in line({"zzz": 1})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({f"{ACTOR}.use_dynamic_bsz": 1}, "use_dynamic_bsz: must be true or false, got 1"),
        ({f"{ACTOR}.grad_clip": True}, "grad_clip: must be a number, got True"),
        ({f"{ACTOR}.grad_clip": "big"}, "grad_clip: must be a number, got 'big'"),
        ({f"{ACTOR}.grad_clip": "1e-5"}, "a number has a dot before its exponent and no quotes: 1.0e-05"),
        ({f"{ACTOR}.grad_clip": None}, "grad_clip: must be a number, got None"),
        ({f"{ACTOR}.ppo_max_token_len_per_gpu": 1.5}, "must be a whole number, got 1.5"),
        ({f"{ACTOR}.optim.betas": 0.9}, "betas: must be a list, got 0.9"),
        ({ACTOR: {"grad_clip": {"x": 1}}}, "grad_clip: must be a number, got keys"),
        ({f"{ACTOR}.optim": 3}, "optim: holds keys, got 3; its keys are: optimizer, "),
        ({f"{ACTOR}.optim": None}, "optim: holds keys, got None"),
        ({f"{ACTOR}.optim": {}}, "optim: {} changes nothing; name the keys"),
        ({f"{ROLLOUT}.custom": {"a": [date(2026, 1, 2)]}}, "datetime.date(2026, 1, 2) is no value of verl's; put text"),
        ({f"{ROLLOUT}.custom": {"a": b"hi"}}, "b'hi' is no value of verl's"),
        ({f"{ROLLOUT}.custom": {"a": {1, 2}}}, "{1, 2} is no value of verl's"),
        ({f"{ACTOR}.grad_clip": "${"}, f"verl.{ACTOR}.grad_clip: "),
        (
            {f"{ACTOR}.grad_clip": "${no_such.key}"},
            f"verl.{ACTOR}.grad_clip: Interpolation key 'no_such.key' not found",
        ),
        ({f"{ACTOR}.grad_clip": f"${{{ACTOR}.grad_clip}}"}, "grad_clip: Recursive interpolation"),
        ({f"{ACTOR}.grad_clip": "${trainer.project_name}"}, "grad_clip: must be a number, got 'verl_examples'"),
        ({f"{ROLLOUT}.custom": {"a": ["${no_such.key}"]}}, "Interpolation key 'no_such.key' not found"),
        ({f"{ROLLOUT}.prometheus.port": "???"}, "??? is OmegaConf's sign"),
        ({"a b": 1}, "'a b' cannot be a name"),
        ({1: 2}, "'1' cannot be a name"),
        ({"": 2}, "'' cannot be a name"),
        ({f"{ROLLOUT}.custom": {"null": 1}}, "'null' cannot be a name"),
        ({f"{ROLLOUT}.custom": {"x": [{"a=b": 1}]}}, "'a=b' cannot be a name"),
        ({f"{ACTOR}.grad_clip": 1, "actor_rollout_ref": {"actor": {"grad_clip": 2}}}, "stands here 2 times"),
    ],
)
def test_a_value_that_verl_does_not_take_is_refused(settings, words):
    assert words in line(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {f"{ACTOR}.grad_clip": 1},  # a whole number is a number
        {f"{ACTOR}.ppo_max_token_len_per_gpu": "${data.max_prompt_length}"},
        {ACTOR: {"optim": {"betas": [0.9, 0.95]}, "optim.lr_scheduler_type": "cosine"}},
        {f"{ROLLOUT}.cudagraph_capture_sizes": None},
        {f"{ACTOR}.data_loader_seed": "${data.seed}"},  # null by default, and the stage sets it
        {f"{ROLLOUT}.server.timeout": 5.0},  # the YAML lacks it, the dataclass knows it
        {f"{ROLLOUT}.engine_kwargs.vllm.any_thing.at-all": [1]},
        {f"{ROLLOUT}.custom": {"mine": {"x": 1}}},
        {f"{ACTOR}.fsdp_config.mixed_precision.cast_forward_inputs": True},
        {"actor_rollout_ref.model.override_config": {"attn_implementation": "eager"}},
        {"ray_kwargs.ray_init.log_to_driver": False},
        {"algorithm.rollout_correction.rollout_is_batch_normalize": True},
        {f"{ACTOR}.policy_loss.clip_cov_ratio": 0.001},
        {f"{ROLLOUT}.gpu_memory_utilization": 0.6, f"{ROLLOUT}.enforce_eager": False},
    ],
)
def test_what_verl_knows_is_accepted(settings):
    check_verl("verl", settings, None)


def test_the_schema_of_sft_is_its_own():
    check_verl("sft.verl", {"optim": {"weight_decay": 0.1}, "optim.lr_warmup_steps_ratio": 0.2}, None)
    assert "did you mean 'sft.verl.optim.weight_decay'?" in line({"optim.weight_decy": 0.1}, "sft.verl")
    assert "sft.verl.optim.lr: set by sft.learning_rate;" in line({"optim.lr": 0.1}, "sft.verl")
    assert "sft.verl.checkpoint.save_contents: set by stage sft," in line(
        {"checkpoint": {"save_contents": []}}, "sft.verl"
    )


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (f"{ACTOR}.optim.lr", "set by rl.learning_rate; set that, and leave this out"),
        ("algorithm.rollout_correction.rollout_is", "set by rl.rollout_correction;"),
        ("algorithm.kl_ctrl.horizon", "set by rl.kl.coefficient, rl.kl.target and rl.kl.horizon;"),
        ("algorithm.turn_weight", "set by rl.credit.level and rl.credit.weight;"),
        ("trainer.total_training_steps", "set by rl.steps;"),
        ("trainer.logger", "set by stage rl, which relies on it; leave it out"),
        ("reward.custom_reward_function.path", "set by environment.reward;"),
        (f"{ROLLOUT}.agent.agent_loop_config_path", "set by stage rl,"),
    ],
)
def test_what_ours_set_is_refused_with_the_key_to_use(key, words):
    assert f"verl.{key}: {words}" in line({key: 1})


def test_the_check_runs_wherever_parameters_are_resolved(workspace):
    (workspace / "params/mine.yaml").write_text(f"extends: tiny\nverl: {{{ACTOR}: {{grad_clp: 1.0}}}}\n")
    with pytest.raises(InputError, match=rf"params/mine\.yaml.*did you mean 'verl\.{ACTOR}\.grad_clip'"):
        params.resolve("mine")
    with pytest.raises(InputError, match=r"--set over.*sft\.verl\.optim\.lr: set by sft\.learning_rate"):
        params.resolve("tiny", {"sft": {"verl": {"optim.lr": 1.0}}})
    assert params.resolve("tiny", {"verl": {f"{ACTOR}.grad_clip": 0.5}})["verl"] == {f"{ACTOR}.grad_clip": 0.5}


@pytest.mark.parametrize(
    ("key", "value", "rl", "why"),
    [
        ("critic.grad_clip", 2.0, {"algorithm": "ppo"}, "no critic is trained"),
        ("actor_rollout_ref.ref.fsdp_config.param_offload", True, {"kl": {"route": "loss"}}, "no reference policy"),
        ("algorithm.filter_groups.max_inflight_gen_batches", 2, {"dynamic_sampling": {}}, "nothing is sampled anew"),
        (
            "algorithm.rollout_correction.rollout_is_batch_normalize",
            True,
            {"rollout_correction": {"mode": "decoupled", "weights": "token"}},
            "there are no weights",
        ),
        (f"{ACTOR}.policy_loss.clip_cov_ratio", 0.001, {"loss": "clip_cov"}, "loss clip_cov's (rl.loss: vanilla)"),
        (f"{ACTOR}.policy_loss.kl_cov_ratio", 0.001, {"loss": "kl_cov", "updates": 2}, "loss kl_cov's"),
        (f"{ROLLOUT}.engine_kwargs.sglang.x", 1, None, "the engine is vllm"),
        (f"{ACTOR}.policy_loss.dro_beta", 1.0, None, "loss dro's"),
    ],
)
def test_a_key_that_cannot_act_is_refused_and_taken_where_it_can(workspace, key, value, rl, why):
    with pytest.raises(InputError, match=rf"verl\.{re.escape(key)}: cannot act: .*{re.escape(why)}.*; leave it out"):
        params.resolve("tiny", {"verl": {key: value}})
    if rl is not None:
        assert params.resolve("tiny", {"verl": nested(key, value), "rl": rl})["verl"] == nested(key, value)


def test_neither_torch_nor_verl_is_imported_and_nothing_without_settings():
    code = (
        "import sys; from tasks.training.verl_schema import check_verl; check_verl('verl', {}, None); "
        "assert 'hydra' not in sys.modules; check_verl('verl', {'actor_rollout_ref.actor.grad_clip': 1.0}, None); "
        "assert not {'torch', 'verl', 'vllm', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_every_class_that_verls_yaml_names_is_found_but_for_none():
    targets = set()
    for name in ("ppo_trainer", "sft_trainer_engine"):
        waiting = [tree(name).default]
        while waiting:
            node = waiting.pop()
            targets |= {node["_target_"].rpartition(".")[2]} if "_target_" in node else set()
            waiting += [below for below in node.values() if isinstance(below, dict)]
    assert len(targets) > 30
    assert {target for target in targets if not classes.is_class(target)} == set()
    assert list(classes.fields("FSDPOptimizerConfig"))[:2] == ["lr", "lr_warmup_steps_ratio"]  # of its base
    assert classes.fields("NoSuchConfig") == {}


# Who owns what, against the settings that the stages really make.

ALGORITHMS = sorted(path.stem for path in (ROOT / "params/presets/algorithms").glob("*.yaml"))
# Each key of ours, and a value under which verl's keys differ from those of the settings beside it.
MOVES: list[tuple[str, Any, dict[str, Any]]] = [
    ("rl.learning_rate", 0.5, {}),
    ("rl.prompts", 32, {}),
    ("rl.samples", 4, {}),
    ("rl.updates", 2, {}),
    ("rl.epochs", 2, {}),
    ("rl.steps", 99, {}),
    ("rl.validate_every", 1, {}),
    ("rl.temperature", 0.7, {}),
    ("rl.micro_batch_size", 16, {}),
    ("rl.entropy_coefficient", 0.5, {}),
    ("rl.std_normalisation", False, {}),
    ("rl.advantage", "rloo", {}),
    ("rl.credit.level", "turn", {}),
    ("rl.credit.weight", 0.9, {"rl": {"credit": {"level": "turn"}}}),
    ("rl.loss", "gpg", {}),
    ("rl.aggregation", "seq-mean-token-sum-norm", {}),
    ("rl.clip.low", 0.1, {"rl": {"updates": 2}}),
    ("rl.clip.high", 0.3, {"rl": {"updates": 2}}),
    ("rl.clip.dual", 4.0, {"rl": {"updates": 2}}),
    ("rl.off_policy_mask", 0.1, {"rl": {"updates": 2}}),
    ("rl.kl.coefficient", 0.5, {"rl": {"kl": {"route": "loss"}}}),
    ("rl.kl.estimator", "k1", {"rl": {"kl": {"route": "loss"}}}),
    ("rl.kl.coefficient", 0.5, {"rl": {"kl": {"route": "reward"}}}),
    ("rl.kl.estimator", "k1", {"rl": {"kl": {"route": "reward"}}}),
    ("rl.kl.target", 0.2, {"rl": {"kl": {"route": "reward"}}}),
    ("rl.kl.horizon", 5, {"rl": {"kl": {"route": "reward", "target": 0.1}}}),
    ("rl.dynamic_sampling", {"metric": "success", "max_batches": 3}, {}),
    ("rl.keep_groups", 0.5, {}),
    ("rl.rollout_correction", {"mode": "decoupled", "weights": "token"}, {}),
    ("rl.gamma", 0.9, {"rl": {"algorithm": "ppo"}}),
    ("rl.lam", 0.9, {"rl": {"algorithm": "ppo"}}),
    ("rl.critic.learning_rate", 0.5, {"rl": {"algorithm": "ppo"}}),
    ("rl.critic.warmup_steps", 3, {"rl": {"algorithm": "ppo"}}),
    ("seed", 7, {}),
    ("seed", 7, {"rl": {"algorithm": "ppo"}}),
    ("episode.max_prompt_tokens", 300, {}),
    ("episode.max_response_tokens", 2000, {"rl": {"algorithm": "dr_grpo"}}),
]  # fmt: skip


def settings_of(top: dict[str, Any], gpu: bool = False, dtype: str = "float32") -> dict[str, object]:
    defaults = yaml.safe_load((ROOT / "params/defaults.yaml").read_text())
    algorithm = top.get("rl", {}).get("algorithm", "grpo")
    preset = yaml.safe_load((ROOT / f"params/presets/algorithms/{algorithm}.yaml").read_text())
    content = params.overlay(params.overlay(defaults, preset), top)
    one = params.parse({"profile": "test", **content}, "test")
    found = rl_settings(one.rl, one.episode, FILES, seed=one.seed, dtype=dtype, gpu=gpu, bucket=64)
    return {key.lstrip("+"): value for key, value in found.items()}


def nested(key: str, value: Any) -> dict[str, Any]:
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


@pytest.mark.parametrize(("key", "value", "beside"), MOVES)
def test_what_a_key_of_ours_moves_is_owned_by_it(key, value, beside):
    before, after = settings_of(beside), settings_of(params.overlay(beside, nested(key, value)))
    moved = {one for one in {**before, **after} if before.get(one) != after.get(one)}
    owners = {one: owned.owner(owned.RL, one) for one in moved}
    mine = {one for one, owner in owners.items() if owner is not None}
    assert mine, f"{key} moves nothing that is owned"
    assert {one: owner for one, owner in owners.items() if owner is not None and key not in owner} == {}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_key_that_stage_rl_sets_has_an_owner_and_is_verls(algorithm):
    for gpu in (False, True):
        for key in settings_of({"rl": {"algorithm": algorithm}}, gpu, "bfloat16" if gpu else "float32"):
            assert any(f"{key}.".startswith(f"{one}.") for one in owned.RL), key


def test_every_key_that_stage_sft_sets_has_an_owner(defaults):
    files = {"model": Path("/m"), "train": Path("/t"), "validation": Path("/v"), "checkpoints": Path("/c")}
    for gpu in (False, True):
        for one in sft_overrides(defaults.sft, defaults.episode, **files, seed=5, dtype="float32", gpu=gpu):
            key = one.lstrip("+").partition("=")[0]
            assert any(f"{key}.".startswith(f"{owner}.") for owner in owned.SFT), key


@pytest.mark.parametrize(("owners", "config"), [(owned.RL, "ppo_trainer"), (owned.SFT, "sft_trainer_engine")])
def test_no_owner_is_of_a_key_that_verl_or_we_have_not(owners, config):
    ours = {"algorithm.turn_weight", f"{ACTOR}.policy_loss.off_policy_delta"}  # added by our own code
    assert {key for key in owners if find(tree(config), key) is None} <= ours


def test_owners_that_are_keys_of_ours_exist():
    defaults = yaml.safe_load((ROOT / "params/defaults.yaml").read_text())
    null = {"rl.critic.learning_rate", "rl.critic.warmup_steps"}  # null by default
    for owner in {*owned.RL.values(), *owned.SFT.values()} - {None, owned.STAGE}:
        for name in set(re.findall(r"[a-z_]+(?:\.[a-z_]+)+", owner)) - null:
            node = defaults
            for part in name.split("."):
                node = node[part]
