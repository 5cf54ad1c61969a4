"""A checkpoint as verl's FSDP trainer writes it on one device: shards, their mesh, config and tokenizer."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from verl.model_merger.base_model_merger import ModelMergerConfig
from verl.model_merger.fsdp_model_merger import FSDPModelMerger

from tasks.training import merging


@pytest.fixture(scope="module")
def source(make_model) -> Path:
    return make_model(seed=3)


@pytest.fixture(scope="module")
def checkpoint(source: Path, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    model = AutoModelForCausalLM.from_pretrained(source, dtype="auto")
    torch.save(model.state_dict(), folder / "model_world_size_1_rank_0.pt")
    (folder / "fsdp_config.json").write_text('{"FSDP_version": 2, "world_size": 1}')
    shutil.copytree(source, folder / "huggingface", ignore=shutil.ignore_patterns("*.safetensors"))
    return folder


def test_merged_weights_are_byte_equal_to_what_was_trained(source: Path, checkpoint: Path, tmp_path: Path) -> None:
    assert merging.merge(checkpoint, tmp_path / "model") == "float32"
    trained, merged = load_file(source / "model.safetensors"), load_file(tmp_path / "model" / "model.safetensors")
    assert trained.keys() == merged.keys()
    for name, tensor in trained.items():
        assert merged[name].dtype == torch.float32
        assert merged[name].numpy().tobytes() == tensor.numpy().tobytes(), name
    assert json.loads((tmp_path / "model" / "config.json").read_text())["dtype"] == "float32"
    inputs = [[1, 2, 3], list(range(40))]
    one, other = merging.trained_model(checkpoint), merging.saved_model(tmp_path / "model")
    assert merging.max_logit_diff(one, other, inputs) == 0.0
    assert torch.Tensor.bfloat16(torch.ones(1)).dtype == torch.bfloat16  # the patch is gone


def test_verl_itself_still_rounds(checkpoint: Path, tmp_path: Path) -> None:
    # When this fails, TrainingDtypeMerger is no longer needed.
    config = ModelMergerConfig(
        operation="merge",
        backend="fsdp",
        local_dir=str(checkpoint),
        target_dir=str(tmp_path / "model"),
        hf_model_config_path=str(checkpoint / "huggingface"),
    )
    FSDPModelMerger(config).merge_and_save()
    merged = load_file(tmp_path / "model" / "model.safetensors")
    assert {tensor.dtype for tensor in merged.values()} == {torch.bfloat16}


def test_another_model_differs(make_model, checkpoint: Path) -> None:
    other = merging.saved_model(make_model(seed=4))
    assert merging.max_logit_diff(merging.trained_model(checkpoint), other, [[1, 2, 3]]) > 1e-3


def test_shards_that_are_not_the_configs_model_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoint, folder)
    path = folder / "model_world_size_1_rank_0.pt"
    state = torch.load(path, weights_only=True)
    del state["model.norm.weight"]
    torch.save(state, path)
    with pytest.raises(ValueError, match=r"missing.*model\.norm\.weight"):
        merging.trained_model(folder)
