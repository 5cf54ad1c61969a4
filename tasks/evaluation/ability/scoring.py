"""Which choice a model finds likeliest: log-probabilities by transformers, with the weights as they were saved.

Decided, and why: transformers instead of vLLM, whose log-probabilities are the same to float noise. It needs no
engine's start, its context is the model's own instead of an episode's budgets, and a question is put through alone,
with its choices as one batch: so its verdict depends on no other question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.errors import InputError

if TYPE_CHECKING:
    import torch

    from tasks.evaluation.ability.questions import Choices


@dataclass(frozen=True)
class Encoded:
    """Token ids of a context and a choice, of which those from `start` on are the choice's."""

    ids: list[int]
    start: int


def encode(tokenizer: Any, context: str, continuation: str) -> Encoded:
    """Encode a context and what continues it as one text, so that its tokens are those that the text has.

    A token that reaches over the end of the context counts for the continuation. Where none does, these are the
    tokens of lm-evaluation-harness's `_encode_pair`, which encodes the context once more by itself.

    Args:
        tokenizer: a fast one of transformers', which knows where in the text a token stands.
        context: not empty.
        continuation: not empty.
    """
    found = tokenizer(context + continuation, return_offsets_mapping=True)
    ends = [end for _, end in found["offset_mapping"]]
    start = next((place for place, end in enumerate(ends) if end > len(context)), len(ends))
    return Encoded(found["input_ids"], start)


def likelihoods(folder: Path, questions: Sequence[Choices]) -> list[list[float]]:
    """The log-probability of every choice given its context, in nats: the sum over its tokens.

    A context that is too long for the model loses its beginning, as in lm-evaluation-harness.

    Args:
        folder: of the model, in Hugging Face's form.
        questions: what is asked.

    Raises:
        InputError: a choice is too long for the model, it or its context is no token of its own, or the tokenizer is
            none of the fast ones.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    if not tokenizer.is_fast:
        mend = "save it as a fast tokenizer, or set evaluate.ability to null"
        raise InputError("the tokenizer does not say where its tokens stand", where=str(folder), mend=mend)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval().to(device)
    longest = model.config.get_text_config().max_position_embeddings
    found = []
    with torch.inference_mode():
        for one in questions:
            encoded = [_cut(encode(tokenizer, one.context, text), longest, one.origin) for text in one.continuations]
            found.append(_sums(model, encoded))
    return found


def _cut(encoded: Encoded, longest: int, origin: str) -> Encoded:
    """The last `longest` tokens."""
    over = max(0, len(encoded.ids) - longest)
    if encoded.start in (0, len(encoded.ids)):
        what = "the model has no token that stands for the context alone, or none for a choice"
        raise InputError(what, where=origin, mend="take the question out")
    if over >= encoded.start:
        what = f"a choice of {len(encoded.ids) - encoded.start} tokens, and the model's context has {longest}"
        raise InputError(what, where=origin, mend="shorten it")
    return Encoded(encoded.ids[over:], encoded.start - over)


def _sums(model: torch.nn.Module, encoded: Sequence[Encoded]) -> list[float]:
    """Sums of log-probabilities, one a sequence; what fills up the shorter ones stands behind, where nobody looks."""
    import torch

    width = max(len(one.ids) for one in encoded)
    first = min(one.start for one in encoded)
    ids = torch.tensor([one.ids + [0] * (width - len(one.ids)) for one in encoded], device=model.device)  # (B, T)
    logits = model(ids, logits_to_keep=width - first + 1).logits  # (B, T - first + 1, V): of what follows each token
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    sums = []
    for row, one in enumerate(encoded):
        places = torch.arange(one.start - first, len(one.ids) - first, device=model.device)
        targets = ids[row, one.start : len(one.ids)]
        sums.append(float(logprobs[row, places, targets].double().sum()))
    return sums
