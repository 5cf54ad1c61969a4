"""What a user needs when engine and transformers differ: where, by how much, what it looks like, what to do."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.training.sanity import SanityCheck

Verdict = dict[str, Any]
NOISE = 0.2  # nats; what 16 bits and other kernels differ by at most, as a rule


def report(verdicts: Sequence[Verdict], check: SanityCheck) -> str:
    """The check in words: a line an episode, the first disagreement, causes and cures.

    Args:
        verdicts: of the episodes, in their order; one at least.
        check: the check's settings.
    """
    tokens = sum(verdict["tokens"] for verdict in verdicts)
    lines = [
        f"vLLM against transformers, greedy, same weights: {len(verdicts)} episodes, {tokens} generated tokens, "
        f"tolerance {check.max_logprob_diff:g} nats",
        f"model: {check.model} ({_dtype(check.model)})",
        "",
        "episode  tokens  largest difference  disagreements",
        *(_line(number, verdict) for number, verdict in enumerate(verdicts)),
        "",
    ]
    bad = [number for number, verdict in enumerate(verdicts) if not verdict["passed"]]
    if not bad:
        return "\n".join([*lines, "They agree."])
    first = verdicts[bad[0]]["first"]
    return "\n".join([*lines, *_where(bad[0], first), "", *_causes([verdicts[number] for number in bad])])


def _dtype(model: str) -> str:
    path = Path(model, "config.json")
    return str(json.loads(path.read_text(encoding="utf-8")).get("dtype")) if path.is_file() else "no config.json"


def _line(number: int, verdict: Verdict) -> str:
    said = "agrees" if verdict["passed"] else "DIFFERS"
    difference = verdict["max_logprob_diff"]
    return f"{number:7}  {verdict['tokens']:6}  {difference:13.2e} nats  {verdict['disagreements']:13}  {said}"


def _where(number: int, first: Verdict) -> list[str]:
    token, choice = first["token"], first["choice"]
    apart = abs(first["engine_logprob"] - first["transformers_logprob"])
    return [
        f"First disagreement: episode {number} ({first['question']!r}), token {first['position']} of the response: "
        f"the policy's turn {first['turn']}, its token {first['position_in_turn']} (tokens are counted from 0)",
        f"  after         {first['context']!r}",
        f"  vLLM          {token['text']!r} (id {token['id']}), log-prob {first['engine_logprob']:.4f}; "
        f"transformers gives it {first['transformers_logprob']:.4f}, {apart:.2g} nats apart",
        f"  transformers  {choice['text']!r} (id {choice['id']}), log-prob {first['choice_logprob']:.4f}"
        + (": the same choice" if choice["id"] == token["id"] else ""),
    ]


def _causes(bad: Sequence[Verdict]) -> list[str]:
    """What the pattern points at, then what else there is, in the order to rule out."""
    first = [verdict["first"] for verdict in bad]
    if any(math.isnan(verdict["max_logprob_diff"]) for verdict in bad):
        looks = "NaN: an overflow in 16 bits, or weights that are broken; train in bfloat16 or float32 (policy.dtype)."
    elif any(one["token"]["id"] >= one["vocabulary"] for one in first):
        looks = (
            "vLLM chose an id that the tokenizer has not: rows of a padded vocabulary hold weights of their own; "
            "save the model with as many rows as the tokenizer has tokens."
        )
    elif all(verdict["max_logprob_diff"] <= NOISE and not verdict["disagreements"] for verdict in bad):
        looks = (
            "Every choice is the same and the differences are small: float noise of 16 bits or of other kernels. "
            "Raise rl.sanity.max_logprob_diff to what you accept, or train in float32 (policy.dtype)."
        )
    elif all(one["turn"] == 1 and one["position_in_turn"] == 0 for one in first):
        looks = (
            "Wrong from the very first token on: vLLM holds other weights than the folder, or another tokenizer or "
            "chat template made the prompt."
        )
    elif all(one["turn"] > 1 for one in first):
        looks = (
            "First turns agree and later ones do not: what stands between turns. Prefix caching, chunked prefill and "
            "positions after an observation come first; then ids that were decoded and encoded again."
        )
    else:
        looks = (
            "It agrees for some tokens and then parts: the cache of keys and values. Its dtype, the attention "
            "implementation, a sliding window or rope scaling come first."
        )
    return [
        f"What it looks like: {looks}",
        "",
        "What usually causes a difference, in the order to rule out:",
        "  weights       `python -m tasks.rl --check-engine --model data/policy/model` agrees? Then the engine is",
        "                sound, and this model's folder or its transfer is not: `dvc repro sft` writes it anew.",
        "  dtype         vLLM and transformers both run in config.json's dtype; 16 bits differ by up to 0.2 nats.",
        "  vocabulary    config.json's vocab_size, the rows of the embedding and the tokenizer's length must fit;",
        "                tied embeddings must be tied in both (tie_word_embeddings).",
        "  attention     transformers runs sdpa; a vLLM backend without sliding window or rope scaling differs late.",
        "  batching      chunked prefill, prefix caching, CUDA graphs: switch them off one by one (rl.overrides:",
        "                actor_rollout_ref.rollout.enable_chunked_prefill=False, enable_prefix_caching=False, ...).",
    ]
