"""How episodes ended, and what went wrong in them: counts of a model's trajectories."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pandas as pd

COUNTED = {"invalid_turns": "invalid turns", "forced_answer": "forced answers", "copied_example": "copied examples"}


def count(part: pd.DataFrame) -> dict[str, Any]:
    """Count what the trajectories of one model record.

    Returns:
        `{"stopped_by": {REASON: n}, "failed_calls": {FAILURE: n}, "calls": n, "invalid_turns": n, "forced_answer": n,
        "copied_example": n}`; `copied_example` counts answers equal to the prompt's own example.
    """
    calls = [call for text in part["calls"] for call in json.loads(text)]
    failed = Counter(call["failure"] for call in calls if call["failure"] is not None)
    return {
        "stopped_by": {str(reason): int(n) for reason, n in part["stop_reason"].value_counts().sort_index().items()},
        "failed_calls": dict(sorted(failed.items())),
        "calls": len(calls),
        **{name: int(part[name].sum()) for name in COUNTED},
    }
