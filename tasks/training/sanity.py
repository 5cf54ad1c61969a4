"""Before the first step: does the engine generate what the model says?

The first validation, at step 0, runs greedily on the very vLLM server that RL will sample from, with the
weights that verl has just sent there. The same token ids are then put through transformers with the
weights on disk: every generated token must be transformers' own first choice, and the log-probabilities
must agree. A fault of the engine, of the weight transfer or of the masks shows here, and not in step 99.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.agent.trajectory import Trajectory


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
        path = Path(self.folder) / f"{index}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_suffix(".partial")
        aside.write_text(json.dumps(verdict), encoding="utf-8")
        os.replace(aside, path)

    def verdicts(self) -> list[dict[str, Any]]:
        """The verdicts there are."""
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


def compare_with_transformers(model: str, trajectory: Trajectory, tolerance: float) -> dict[str, Any]:
    """Put a greedy trajectory's ids through transformers.

    Args:
        model: folder of the weights.
        trajectory: what the engine generated greedily, with its log-probabilities.
        tolerance: difference in nats that is float noise, so that a tie may fall either way.

    Returns:
        `tokens` generated; `max_logprob_diff` between engine and transformers in nats; `disagreements`: tokens
        that stand behind transformers' first choice by more than the tolerance.
    """
    import torch

    ids = torch.tensor([trajectory.prompt_ids + trajectory.response_ids])
    with torch.no_grad():
        # The logits at position t predict the token at t + 1.
        logits = _model(model)(input_ids=ids).logits[0, len(trajectory.prompt_ids) - 1 : -1].float()
    tokens = ids[0, len(trajectory.prompt_ids) :]
    generated = torch.tensor(trajectory.response_mask, dtype=torch.bool)
    chosen = logits.gather(1, tokens[:, None])[:, 0]
    expected = torch.log_softmax(logits, dim=-1).gather(1, tokens[:, None])[:, 0][generated]
    seen = torch.tensor(trajectory.response_logprobs)[generated]
    behind = (logits.max(dim=-1).values - chosen)[generated]
    return {
        "tokens": int(generated.sum()),
        "max_logprob_diff": float((expected - seen).abs().max()),
        "disagreements": int((behind > tolerance).sum()),
    }
