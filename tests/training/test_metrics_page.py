"""docs/metrics.md against the names that steps really have."""

import importlib.util
import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pandas as pd
import pytest

from tasks.agent.trajectory import CallRecord, Segment, Trajectory
from tasks.training.rollout_figures import COLUMNS, episode_figures

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
# The names of a run's steps, by what the run had set: each from a real data/rl/steps.jsonl.
RECORDED = json.loads((Path(__file__).parent / "recorded_metrics.json").read_text(encoding="utf-8"))
NAMES = sorted({name for names in RECORDED.values() for name in names})
VERL = Path(importlib.util.find_spec("verl").origin).parent  # found and not imported, which takes seconds
SOURCES = (
    "trainer/ppo/core_algos.py", "trainer/ppo/metric_utils.py", "trainer/ppo/ray_trainer.py",
    "trainer/ppo/rollout_corr_helper.py", "trainer/ppo/v1/trainer_base.py", "workers/utils/losses.py",
)  # fmt: skip


def documented() -> list[str]:
    """Names and prefixes (`timing_s/*`) in the first column of the page's tables."""
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE, re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([\w/*@-]+)`", row) if "/" in name and "." not in name]


def figures() -> list[str]:
    """Names of the figures of rollouts of which each has everything that is counted."""
    segments = [Segment("generated", "x", [1], [-1.0]), Segment("observation", "y", [2])]
    more = {"citation_precision": 1.0, "citation_recall": 1.0, "calls": [CallRecord("search", "a", 0.1)]}
    rows = [
        Trajectory(
            "q", "search", "made", "Q?", ["a"], 1, [1], segments, reward_parts={"em": 1.0}, success=right, **more
        ).record()
        for right in (0.0, 1.0)
    ]
    found = episode_figures(pd.DataFrame([{name: row[name] for name in COLUMNS} for row in rows]))
    return [f"{split}/{name}" for name in found for split in ("episode", "val-episode")]


def test_every_metric_of_a_step_is_on_the_page() -> None:
    patterns = documented()
    missing = [name for name in {*NAMES, *figures()} if not any(fnmatchcase(name, one) for one in patterns)]
    assert not missing, f"docs/metrics.md does not say what these mean: {sorted(missing)}"


@pytest.fixture(scope="module")
def code() -> str:
    """What may name a metric: verl's trainers, losses and helpers, and ours."""
    ours = [ROOT / "tasks/training" / name for name in ("losses.py", "replay_buffer.py")]
    return "".join(path.read_text(encoding="utf-8") for path in (*ours, *(VERL / path for path in SOURCES)))


def test_the_page_names_no_metric_that_there_is_not(code: str) -> None:
    """What no recorded run has, since it comes with other settings, is a word of verl's code or of ours."""
    names = [*NAMES, *figures()]
    unknown = [one for one in documented() if not any(fnmatchcase(name, one) for name in names)]
    assert not [one for one in unknown if one.rstrip("/*_").rpartition("/")[2] not in code]


def test_verls_clip_ratio_is_of_the_longest_response_as_the_page_says() -> None:
    text = (VERL / "trainer/ppo/metric_utils.py").read_text(encoding="utf-8")
    assert 'max_response_length = batch.batch["responses"].shape[-1]' in text
    assert "data = data.to_padded_tensor()" in (VERL / SOURCES[4]).read_text(encoding="utf-8")
