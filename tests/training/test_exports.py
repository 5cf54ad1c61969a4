import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from tasks.training.exports import set_dtype


def edit_config(folder: Path, **values) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_config_that_names_another_dtype_than_the_weights_is_mended(make_model) -> None:
    folder = make_model()
    weights = folder / "model.safetensors"
    before, names = weights.read_bytes(), sorted(path.name for path in folder.iterdir())
    edit_config(folder, dtype="bfloat16")
    assert AutoModelForCausalLM.from_pretrained(folder, dtype="auto").dtype == torch.bfloat16
    set_dtype(folder, "float32")
    assert AutoModelForCausalLM.from_pretrained(folder, dtype="auto").dtype == torch.float32
    assert weights.read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == names


def test_weights_of_another_dtype_are_recast(make_model) -> None:
    folder = make_model()
    before = load_file(folder / "model.safetensors")
    set_dtype(folder, "bfloat16")
    after = load_file(folder / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], tensor.bfloat16()) for name, tensor in before.items())
    assert AutoModelForCausalLM.from_pretrained(folder, dtype="auto").dtype == torch.bfloat16


def test_one_tensor_of_another_dtype_is_enough(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 4}')
    save_file({"a": torch.ones(2), "b": torch.ones(2, dtype=torch.bfloat16)}, tmp_path / "model-1.safetensors")
    set_dtype(tmp_path, "float32")
    assert {tensor.dtype for tensor in load_file(tmp_path / "model-1.safetensors").values()} == {torch.float32}
    assert json.loads((tmp_path / "config.json").read_text()) == {"hidden_size": 4, "dtype": "float32"}
