import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

from tasks.errors import InputError
from tasks.params import Architecture
from tasks.training import policies

ARCHITECTURE = Architecture(hidden_size=32, layers=2, heads=2, kv_heads=1, vocabulary=512, initializer_range=0.02)


def weights(model) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


def test_from_scratch_is_reproducible_by_seed(tokenizer) -> None:
    one, _ = policies.from_scratch(ARCHITECTURE, tokenizer, 64, 7)
    torch.rand(3)
    same, _ = policies.from_scratch(ARCHITECTURE, tokenizer, 64, 7)
    other, _ = policies.from_scratch(ARCHITECTURE, tokenizer, 64, 8)
    assert weights(one) == weights(same) != weights(other)
    # Embeddings are as many as the tokenizer's tokens; input and output share them.
    assert one.get_input_embeddings().weight.shape == (len(tokenizer), 32)
    assert one.lm_head.weight is one.get_input_embeddings().weight
    assert one.config.eos_token_id == tokenizer.eos_token_id


def test_saved_policy_is_loaded_again(tokenizer, tmp_path: Path) -> None:
    policy = policies.from_scratch(ARCHITECTURE, tokenizer, 64, 0)
    before = weights(policy[0])
    count = policies.save(policy, tmp_path / "model", "float32", [])
    assert count == sum(tensor.numel() for tensor in policy[0].parameters())
    model, loaded = policies.from_source(str(tmp_path / "model"))
    assert weights(model) == before
    text = "<search> Kashi </search><|im_end|>"
    assert loaded.encode(text) == tokenizer.encode(text)
    prompt = [{"role": "user", "content": "Who?"}]
    assert loaded.apply_chat_template(prompt, tokenize=False) == tokenizer.apply_chat_template(prompt, tokenize=False)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["dtype"], config["vocab_size"]) == ("float32", len(tokenizer))
    generation = json.loads((tmp_path / "model" / "generation_config.json").read_text())
    assert generation["eos_token_id"] == tokenizer.eos_token_id


def test_every_text_is_encoded_alike_once_saved_and_loaded(tokenizer, tmp_path: Path) -> None:
    texts = [f"Where was {one}{two} born?" for one in ("Re", "Ze", "Ga", "Se") for two in ("me", "su", "ri", "de")]
    policies.save(policies.from_scratch(ARCHITECTURE, tokenizer, 64, 0), tmp_path, "float32", texts)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert [loaded.encode(text) for text in texts] == [tokenizer.encode(text) for text in texts]
    assert "Reme" not in [loaded.decode([token]) for token in loaded.encode(" Reme")]


def test_a_tokenizer_that_comes_back_as_another_is_refused(tokenizer, tmp_path: Path) -> None:
    # transformers gives a model of type qwen2 Qwen2's tokenizer, whatever was saved. When it no longer does,
    # a policy from scratch may be a Qwen2 again.
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2
    )
    with pytest.raises(InputError, match=r"encodes ' Reme' otherwise .* Qwen2Tokenizer"):
        policies.save((Qwen2ForCausalLM(config), tokenizer), tmp_path, "float32", [" Kasu", " Reme"])


def test_policy_is_saved_in_the_dtype_asked_for(tokenizer, tmp_path: Path) -> None:
    policies.save(policies.from_scratch(ARCHITECTURE, tokenizer, 64, 0), tmp_path, "bfloat16", [])
    assert {tensor.dtype for tensor in load_file(tmp_path / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"


def refused(source: str) -> str:
    with pytest.raises(InputError) as caught:
        policies.from_source(source)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_unknown_source_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused("smolm2")
    assert "'smolm2' is no model" in line and "scratch, smollm2, hf:ID" in line


@pytest.mark.parametrize("config", [None, "{", "{}", '{"model_type": "no-such-model"}', '{"model_type": "t5"}'])
def test_folder_that_is_no_model_is_refused(tmp_path: Path, config: str | None) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    assert str(tmp_path) in refused(str(tmp_path))


def broken_copy(make_model, tmp_path: Path) -> Path:
    folder = tmp_path / "broken"
    shutil.copytree(make_model(), folder)
    return folder


@pytest.mark.parametrize("content", [b"", b"no weights at all", b'\x08\0\0\0\0\0\0\0{"a":1}'])
def test_broken_weights_are_refused(make_model, tmp_path: Path, content: bytes) -> None:
    folder = broken_copy(make_model, tmp_path)
    (folder / "model.safetensors").write_bytes(content)
    assert "the model cannot be loaded: SafetensorError: " in refused(str(folder))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("config.json", "[]", "the configuration cannot be loaded"),
        ("tokenizer_config.json", "{", "the tokenizer cannot be loaded: JSONDecodeError"),
        ("tokenizer_config.json", "[]", "the tokenizer cannot be loaded"),
        ("tokenizer.json", "{", "the tokenizer cannot be loaded: JSONDecodeError"),
        ("tokenizer.json", "{}", "the tokenizer cannot be loaded"),
        ("chat_template.jinja", "{% for", "the chat template cannot be loaded: TemplateSyntaxError"),
    ],
)
def test_the_broken_part_is_named(make_model, tmp_path: Path, name: str, content: str, message: str) -> None:
    folder = broken_copy(make_model, tmp_path)
    (folder / name).write_text(content)
    assert message in refused(str(folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_position_embeddings": "x"}, "the configuration cannot be loaded"),
        ({"num_attention_heads": 0}, "the configuration cannot be loaded: ZeroDivisionError"),
        ({"dtype": "x"}, "the configuration cannot be loaded"),
        ({"hidden_act": "x"}, "the model cannot be loaded"),
        ({"num_hidden_layers": 3}, "weights are missing, model.layers.2."),
        (
            {"intermediate_size": 127},
            "mlp.down_proj.weight has shape (64, 128), by the configuration it would be (64, 127",
        ),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(make_model, tmp_path: Path, change: dict, message: str) -> None:
    folder = broken_copy(make_model, tmp_path)
    config = folder / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | change))
    assert message in refused(str(folder))


def test_pickled_weights_are_refused(make_model, tmp_path: Path) -> None:
    folder = broken_copy(make_model, tmp_path)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert "cannot be loaded" in refused(str(folder))


def test_model_without_a_tokenizer_is_refused(make_model, tmp_path: Path) -> None:
    folder = broken_copy(make_model, tmp_path)
    for path in folder.glob("tokenizer*"):
        path.unlink()
    assert str(folder) in refused(str(folder))


def test_model_without_a_chat_template_is_refused(make_model, tmp_path: Path) -> None:
    folder = broken_copy(make_model, tmp_path)
    (folder / "chat_template.jinja").unlink()
    assert "no chat template" in refused(str(folder))


def test_hub_model_that_is_not_at_hand_is_refused(monkeypatch) -> None:
    # A path-like id that no hub can hold: refused without asking the network.
    assert "hf:" in refused("hf:no/such/model/at/all")
