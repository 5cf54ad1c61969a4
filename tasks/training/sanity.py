"""Before the first step: does the engine generate what the model says?

The first validation, at step 0, runs greedily on the very vLLM server that RL will sample from, with the
weights that verl has just sent there. The same token ids are then put through transformers with the
weights on disk: every generated token must be transformers' own first choice, and the log-probabilities
must agree. A fault of the engine, of the weight transfer or of the masks shows here, and not in step 99.
`python -m tasks.rl --check-engine` does the same without training.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.agent.trajectory import Trajectory

CONTEXT = 24  # tokens shown before the first disagreement


@dataclass(frozen=True)
class SanityCheck:
    """The check's settings; each episode's verdict is a file, so that several processes can take part.

    Attributes:
        model: folder of the weights that training starts from.
        folder: takes one verdict an episode.
        episodes: how many validation episodes are checked.
        max_logprob_diff: largest allowed difference of log-probabilities, in nats.
    """

    model: str
    folder: str
    episodes: int
    max_logprob_diff: float

    def check(self, index: int, trajectory: Trajectory) -> None:
        """Compare one greedy validation episode with transformers and write its verdict."""
        if index >= self.episodes:
            return
        verdict = compare_with_transformers(self.model, trajectory, self.max_logprob_diff)
        verdict["passed"] = verdict["max_logprob_diff"] <= self.max_logprob_diff and verdict["disagreements"] == 0
        path = Path(self.folder) / f"{index:05d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".partial")
        aside.write_text(json.dumps(verdict), encoding="utf-8")
        os.replace(aside, path)

    def verdicts(self) -> list[dict[str, Any]]:
        """The verdicts there are, in the order of the episodes."""
        return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(Path(self.folder).glob("*.json"))]

    def summary(self) -> dict[str, Any]:
        """All verdicts in one: episodes, tokens, largest difference in nats, disagreements, passed."""
        verdicts = self.verdicts()
        return {
            "episodes": len(verdicts),
            "tokens": sum(verdict["tokens"] for verdict in verdicts),
            "max_logprob_diff": max((verdict["max_logprob_diff"] for verdict in verdicts), default=0.0),
            "disagreements": sum(verdict["disagreements"] for verdict in verdicts),
            "passed": len(verdicts) >= self.episodes and all(verdict["passed"] for verdict in verdicts),
        }

    def require_passed(self) -> None:
        """Refuse to train before the check has passed.

        Raises:
            RuntimeError: an episode's verdict is missing or bad.
        """
        _require_passed(self)


@functools.lru_cache(maxsize=8)
def _require_passed(check: SanityCheck) -> None:
    # A failure raises and is not cached, so a later success still counts.
    summary = check.summary()
    if not summary["passed"]:
        raise RuntimeError(f"sanity check: the engine and transformers disagree: {summary}")


@functools.lru_cache(maxsize=1)
def _model(folder: str) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()


@functools.lru_cache(maxsize=1)
def _tokenizer(folder: str) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


def compare_with_transformers(model: str, trajectory: Trajectory, tolerance: float) -> dict[str, Any]:
    """Put a greedy trajectory's ids through transformers.

    Args:
        model: folder of the weights.
        trajectory: what the engine generated greedily, with its log-probabilities.
        tolerance: difference in nats that is float noise, so that a tie may fall either way.

    Returns:
        `tokens` generated; `max_logprob_diff` between engine and transformers in nats; `disagreements`: tokens
        that stand behind transformers' first choice by more than the tolerance; `first`: the first token at
        which either is too large, see `_disagreement`, or None.
    """
    import torch

    ids = torch.tensor([trajectory.prompt_ids + trajectory.response_ids])
    generated = torch.tensor(trajectory.response_mask, dtype=torch.bool)
    if not generated.any():
        return {"tokens": 0, "max_logprob_diff": 0.0, "disagreements": 0, "first": None}
    with torch.no_grad():
        # The logits at position t predict the token at t + 1.
        logits = _model(model)(input_ids=ids).logits[0, len(trajectory.prompt_ids) - 1 : -1].float()
    tokens = ids[0, len(trajectory.prompt_ids) :]
    logprobs = torch.log_softmax(logits, dim=-1)
    expected = logprobs.gather(1, tokens[:, None])[:, 0]
    seen = torch.tensor(trajectory.response_logprobs)
    behind = logprobs.max(dim=-1).values - expected
    difference = (expected - seen).abs()
    # Written so that NaN, which compares as False, counts as too large.
    wrong = generated & ~((difference <= tolerance) & (behind <= tolerance))
    first = int(wrong.nonzero()[0]) if wrong.any() else None
    return {
        "tokens": int(generated.sum()),
        "max_logprob_diff": float(difference[generated].max()),
        "disagreements": int((behind[generated] > tolerance).sum()),
        "first": None if first is None else _disagreement(model, trajectory, first, logprobs[first]),
    }


def _disagreement(model: str, trajectory: Trajectory, position: int, logprobs: Any) -> dict[str, Any]:
    """What engine and transformers say at a token of the response.

    Args:
        model: folder of the weights and of the tokenizer.
        trajectory: the episode.
        position: the token's number in the response, from 0.
        logprobs: transformers' log-probabilities of the token at this place, shape (vocabulary,).
    """
    tokenizer, ids = _tokenizer(model), trajectory.prompt_ids + trajectory.response_ids
    place = len(trajectory.prompt_ids) + position
    turn, start = 0, 0
    for segment in trajectory.segments:
        turn += segment.kind == "generated"
        if position < start + len(segment.token_ids):
            break
        start += len(segment.token_ids)

    def text(tokens: list[int]) -> str:
        return str(tokenizer.decode(tokens, skip_special_tokens=False))

    chosen, best = ids[place], int(logprobs.argmax())
    return {
        "question": trajectory.question,
        "position": position,
        "turn": turn,
        "position_in_turn": position - start,
        "context": text(ids[max(0, place - CONTEXT) : place]),
        "token": {"id": chosen, "text": text([chosen])},
        "engine_logprob": trajectory.response_logprobs[position],
        "transformers_logprob": float(logprobs[chosen]),
        "choice": {"id": best, "text": text([best])},
        "choice_logprob": float(logprobs[best]),
        "vocabulary": len(tokenizer),
    }
