"""The rollout log: every trajectory of every RL step and validation, always on.

verl's workers append a line a trajectory while episodes end; that is all that a step ever waits for. Once verl has
logged the step, the stage turns the step's lines into one parquet file in the trajectory contract. docs/rollouts.md
has the columns.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tasks.agent.trajectory import CallRecord, Segment, Trajectory
from tasks.training.rollout_figures import COLUMNS, episode_figures
from tasks.training.steps import Step, whole_lines

_TEXTS = pa.list_(pa.string())
SCHEMA = pa.schema(
    {
        "step": pa.int64(),
        "split": pa.string(),
        "question_id": pa.string(),
        "sample": pa.int64(),
        "environment": pa.string(),
        "data_source": pa.string(),
        "question": pa.string(),
        "golden_answers": _TEXTS,
        "hops": pa.int64(),
        "text": pa.string(),
        "segments": pa.string(),
        "prompt_ids": pa.list_(pa.int64()),
        "response_ids": pa.list_(pa.int64()),
        "response_mask": pa.list_(pa.int8()),
        "response_logprobs": pa.list_(pa.float32()),
        "generated_tokens": pa.int64(),
        "queries": _TEXTS,
        "searches": pa.int64(),
        "passage_ids": pa.string(),
        "calls": pa.string(),
        "tool_latencies": pa.list_(pa.float64()),
        "turns": pa.int64(),
        "invalid_turns": pa.int64(),
        "invalid_reasons": _TEXTS,
        "user_turns": pa.int64(),
        "user_failures": pa.int64(),
        "forced_answer": pa.bool_(),
        "answer": pa.string(),
        "answer_blocks": pa.int64(),
        "cited": _TEXTS,
        "facts": pa.string(),
        "citation_precision": pa.float64(),
        "citation_recall": pa.float64(),
        "copied_example": pa.bool_(),
        "stop_reason": pa.string(),
        "success": pa.float64(),
        "em": pa.float64(),
        "f1": pa.float64(),
        "format_valid": pa.bool_(),
        "reward": pa.float64(),
        "reward_parts": pa.string(),
        "turn_rewards": pa.list_(pa.float64()),
        "no_loss": pa.bool_(),
        "sampling": pa.string(),
    }
)
SUMMARY = ("step", "split", "data_source", "hops", "success", "em", "f1", "reward", "searches", "turns")
_PART = re.compile(r"(?P<split>[a-z]+)_(?P<step>\d+)\.\w+\.jsonl")
_TABLE = re.compile(r"(?P<split>[a-z]+)_(?P<step>\d+)\.parquet")
_SURROGATE = re.compile("[\ud800-\udfff]")


@cache
def _writer(process: int) -> str:
    """A name for this process's files that no process of any machine shares."""
    return uuid4().hex[:12]


def append(folder: Path, trajectory: Trajectory, *, step: int, split: str, sample: int) -> None:
    """Log a trajectory: one line in this process's file of the step, so a kill cuts the last line at most.

    Args:
        folder: the run's rollouts.
        step: of training; a validation's is the step that it follows.
        split: `train` or `validation`.
        sample: number among the trajectories of the same question and step.
    """
    line = _line({"step": step, "split": split, "sample": sample, "trajectory": trajectory})
    with (folder / f"{split}_{step:05d}.{_writer(os.getpid())}.jsonl").open("ab") as file:
        file.write(line)


def _line(entry: dict[str, Any]) -> bytes:
    options = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY
    try:
        return orjson.dumps(entry, option=options)
    except orjson.JSONEncodeError:
        # Half of a surrogate pair, as "\ud83d" in a tool call's JSON brings it: no encoding has it, so it is replaced.
        text = json.dumps(entry, ensure_ascii=False, default=vars)
        return orjson.dumps(json.loads(_SURROGATE.sub("\ufffd", text)), option=options)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of the whole lines; a page that a power failure has lost reads as zeros, which are none."""
    for line in whole_lines(path):
        written = line.strip(b"\0\n")
        if written:
            yield _row(written)


def _row(line: bytes) -> dict[str, Any]:
    """The trajectory contract's row of a line; JSON has no NaN, so one among the log-probabilities is null there."""
    entry = orjson.loads(line)
    fields = entry.pop("trajectory")
    fields["calls"] = [CallRecord(**call) for call in fields["calls"]]
    fields["segments"] = [Segment(**segment) for segment in fields["segments"]]
    for segment in fields["segments"]:
        for place, value in enumerate(segment.logprobs or ()):
            if value is None:
                segment.logprobs[place] = math.nan
    return {**Trajectory(**fields).record(), **entry}


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    aside = path.with_name(f".{path.name}.partial")
    # Token ids and log-probabilities hardly repeat: dictionaries of them cost most of the time.
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), aside, compression="zstd", use_dictionary=False)
    os.replace(aside, path)


class RolloutLog:
    """The rollouts of one RL run.

    Args:
        folder: takes the workers' lines and, `train_00001.parquet` and so on, one file a step.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def rewind(self, whole: int) -> None:
        """Drop what was played after step `whole`, which a resumed run does again; 0: everything."""
        for path in self.folder.iterdir():
            found = _PART.fullmatch(path.name) or _TABLE.fullmatch(path.name)
            if found is None or not whole or int(found["step"]) > whole:
                path.unlink()

    def gather(self, step: int | None = None) -> None:
        """Turn the lines of a step whose trajectories are all written into parquet, or those of every step.

        What a resumed run plays again of a step that is gathered already (it validates the step that it resumes
        from once more) is dropped. A step without one whole line gets no file.
        """
        parts: dict[str, list[Path]] = {}
        for path in sorted(self.folder.iterdir()):
            found = _PART.fullmatch(path.name)
            if found is not None and (step is None or int(found["step"]) == step):
                parts.setdefault(f"{found['split']}_{found['step']}.parquet", []).append(path)
        for name, paths in parts.items():
            if not (self.folder / name).exists():
                rows = {(row["question_id"], row["sample"]): row for path in paths for row in _rows(path)}
                if rows:
                    _write(self.folder / name, [rows[key] for key in sorted(rows)])
            for path in paths:
                path.unlink()

    def figures(self, step: int) -> dict[str, float]:
        """Figures of a step's gathered rollouts, `episode/...`, and of its validation, `val-episode/...`."""
        found: dict[str, float] = {}
        for split, prefix in (("train", "episode"), ("validation", "val-episode")):
            path = self.folder / f"{split}_{step:05d}.parquet"
            if path.exists():
                figures = episode_figures(pd.read_parquet(path, columns=list(COLUMNS)))
                found |= {f"{prefix}/{name}": value for name, value in figures.items()}
        return found

    def beside(self, steps: Sequence[Step]) -> list[Step]:
        """The steps as verl has logged them, each with the figures of its rollouts."""
        return [{**step, "data": {**step["data"], **self.figures(step["step"])}} for step in steps]

    def publish(self, out: Path) -> pd.DataFrame:
        """Copy the gathered files of all steps to `out`; returns a table of all episodes without their texts."""
        out.mkdir(parents=True)
        tables = sorted(path for path in self.folder.iterdir() if _TABLE.fullmatch(path.name))
        for path in tables:
            shutil.copy2(path, out / path.name)
        return pd.concat([pd.read_parquet(path, columns=list(SUMMARY)) for path in tables], ignore_index=True)
