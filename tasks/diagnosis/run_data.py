"""What a run has left of itself, as the causes look at it: every part may be missing, and then says why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from tasks.agent.rewards.answers import holds_answer, normalise
from tasks.diagnosis.finding import Points

GENERATED = "generated"


@dataclass
class RunData:
    """One run of stage `rl`, finished or not.

    Attributes:
        name: what is diagnosed.
        state: how far it went, in words.
        params: sections of the parameters as plain values; missing ones are absent.
        steps: `{"step": n, "data": {metric: value}}`, ascending, verl's metric names.
        rollouts: columns of the rollout log, a row an episode of training; None without any.
        validations: the same of the validations.
        rows: RL's questions in the order of their table: `id, data_source, hops, passage, gold, titles`.
        sanity: the engine's check before the first step.
        index: figures of stage index.
        demos: the demonstrations.
        passages: title by id of the passages that can be found.
        absent: why a part is missing, by the attribute's name.
    """

    name: str
    state: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    rollouts: pd.DataFrame | None = None
    validations: pd.DataFrame | None = None
    rows: pd.DataFrame | None = None
    sanity: Mapping[str, Any] | None = None
    index: Mapping[str, Any] | None = None
    demos: pd.DataFrame | None = None
    passages: Mapping[str, str] | None = None
    absent: dict[str, str] = field(default_factory=dict)

    def param(self, path: str, default: Any = None) -> Any:
        """A parameter by its dotted path; `default` where it is not known."""
        found: Any = self.params
        for key in path.split("."):
            if not isinstance(found, Mapping) or key not in found:
                return default
            found = found[key]
        return found

    def why(self, part: str) -> str:
        """Why a part is missing, in words."""
        return self.absent.get(part, f"there is no {part} of this run")

    def series(self, metric: str) -> Points:
        """Points (step, value) of one of verl's metrics over the training steps."""
        found = [(int(step["step"]), step["data"].get(metric)) for step in self.steps]
        return [(step, float(value)) for step, value in found if isinstance(value, int | float)]

    @cached_property
    def episodes(self) -> pd.DataFrame | None:
        """The training rollouts with what they read, see `read_facts`."""
        return None if self.rollouts is None or self.rollouts.empty else read_facts(self.rollouts, self)

    @cached_property
    def trained(self) -> list[int]:
        """The training steps that there are rollouts of, ascending."""
        return [] if self.rollouts is None else sorted(int(step) for step in self.rollouts["step"].unique())


def in_hops(hops: int) -> str:
    """A number of hops in words."""
    return f"{hops} hop{'s' * (int(hops) != 1)}"


def late(frame: pd.DataFrame, steps: list[int]) -> pd.DataFrame:
    """The episodes of the later half of the steps."""
    return frame[frame["step"] >= steps[len(steps) // 2]]


def early(frame: pd.DataFrame, steps: list[int]) -> pd.DataFrame:
    """The episodes of the earlier half of the steps, the middle one included."""
    return frame[frame["step"] <= steps[(len(steps) - 1) // 2]]


def read_facts(rollouts: pd.DataFrame, data: RunData) -> pd.DataFrame:
    """The rollouts with columns of what was read.

    Added: `right` (success of 1), `parts` (segments as dicts), `asked` (calls as dicts), `found` (a set of ids for
    every search), `gold` (ids) and `titles` of the question, `any_gold`, `all_gold` (None without gold), `shown` (the
    observations' text, normalised) and `answer_shown` (whether a golden answer is in it).
    """
    known = {} if data.rows is None else data.rows.set_index("id")[["gold", "titles"]].to_dict("index")
    frame = rollouts.copy()
    frame["right"] = frame["success"] >= 1
    frame["parts"] = [json.loads(one) for one in frame["segments"]]
    frame["asked"] = [json.loads(one) for one in frame["calls"]]
    frame["found"] = [
        _every_search(json.loads(found), searches)
        for found, searches in zip(frame["passage_ids"], frame["searches"], strict=True)
    ]
    for name in ("gold", "titles"):
        frame[name] = [known.get(question, {}).get(name, []) for question in frame["question_id"]]
    union = [set().union(*found) for found in frame["found"]]
    pairs = list(zip(frame["gold"], union, strict=True))
    frame["any_gold"] = [bool(set(gold) & seen) if gold else None for gold, seen in pairs]
    frame["all_gold"] = [set(gold) <= seen if gold else None for gold, seen in pairs]
    frame["shown"] = [
        normalise(" ".join(part["text"] for part in parts if part["kind"] == "observation")) for parts in frame["parts"]
    ]
    frame["answer_shown"] = [
        any(holds_answer(shown, golden) for golden in answers)
        for shown, answers in zip(frame["shown"], frame["golden_answers"], strict=True)
    ]
    return frame


def _every_search(found: list[list], searches: int) -> list[set[str]]:
    """The ids that each search brought; a search of which nothing is noted brought nothing."""
    return [set(map(str, ids)) for ids in found] + [set()] * (searches - len(found))
