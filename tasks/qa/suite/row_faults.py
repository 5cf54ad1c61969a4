"""The first thing that keeps verl, the agent or the reward from reading a row as it is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.agent.rewards import SCORERS
from tasks.qa.suite import form
from tasks.qa.suite.answers import answer_fault

_SEARCH = "search"
_TARGET = "reward_model.ground_truth.target"
_SCORER = "reward_model.ground_truth.scorer"
_TRUTHS = (f"{_TARGET}[]", _TARGET, "reward_model.ground_truth[]", "reward_model.ground_truth")


def row_faults(
    batch: pa.RecordBatch,
    columns: Mapping[str, pa.Array],
    prompts: Sequence[Any],
    questions: Sequence[str],
    paths: Mapping[str, str],
    *,
    stage: bool,
) -> list[str | None]:
    """For each row its first fault; None where there is none.

    Args:
        batch: the rows.
        columns: their fields, as `form.resolve` names them.
        prompts: of each row.
        questions: what each row asks.
        paths: where the fields stand.
        stage: whether every field must have a value.
    """
    faults = [form.prompt_fault(prompt) for prompt in prompts]

    def note(wrong: pa.Array, fault: str) -> None:
        for row in np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False)):
            faults[row] = faults[row] or fault

    for field, array in columns.items():
        if field != "answers" and (stage or field in form.NEEDED):
            note(array.is_null(), f"{paths[field].removesuffix('[]')}: null")
    if "question" in columns:
        note(pc.equal(pc.utf8_trim_whitespace(columns["question"]), ""), f"{paths['question']}: blank")
    if "style" in columns:
        note(pc.not_equal(columns["style"], "rule"), f"{paths['style']}: not 'rule'")
    if "hops" in columns:
        note(pc.less(columns["hops"], 1), f"{paths['hops']}: below 1")
    note(_unknown_scorer(batch, columns), f"{_SCORER}: not one of {', '.join(SCORERS)}")
    truths = _truth_faults(batch, columns)
    for row, (prompt, question) in enumerate(zip(prompts, questions, strict=True)):
        faults[row] = faults[row] or form.question_fault(prompt, question) or truths[row]
    return faults


def _unknown_scorer(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.Array:
    """For each row whether environment `search` would not know the scorer that it names; a row may name none."""
    of = form.leaves(batch.schema).get(_SCORER)
    if of is None:
        return pa.nulls(batch.num_rows, pa.bool_())
    named = form.column(batch, _SCORER)
    known = pa.array([*SCORERS, None], pa.string())
    unknown = pc.invert(pc.is_in(named.cast(pa.string()), known)) if form.fits(of, "text") else named.is_valid()
    environment = columns.get("environment")
    return unknown if environment is None else pc.and_(unknown, pc.equal(environment, _SEARCH))


def _truth_faults(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> list[str | None]:
    """For each row what is wrong with its ground truth, which the reward compares answers with.

    Environment `search`, and a `target` without any environment, which is Search-R1's form, score by a list: the
    golden answers themselves. Elsewhere texts must be matchable; of what else it is the environment knows.
    """
    types = form.leaves(batch.schema)
    path = next(path for path in _TRUTHS if path in types)
    place, texts = path.removesuffix("[]"), form.fits(types[path], "text")
    rows, truths = batch.num_rows, form.column(batch, path)
    if path == _TRUTHS[0] and truths.equals(columns["answers"]):
        return [None] * rows
    values = truths.to_pylist() if texts else [None] * rows
    answers = columns["answers"].to_pylist()
    environments = columns["environment"].to_pylist() if "environment" in columns else [None] * rows
    found: list[str | None] = [None] * rows
    for row, (value, golden, environment) in enumerate(zip(values, answers, environments, strict=True)):
        searched = environment == _SEARCH or (environment is None and place == _TARGET)
        if (environment == _SEARCH and path != _TRUTHS[0]) or (searched and not texts):
            found[row] = f"{place}: got {types[place]}, wanted {_TARGET} as a list of texts"
        elif texts:
            given = value if path.endswith("[]") or value is None else [value]
            if given != golden and (fault := _truth_fault(given, golden, searched)):
                found[row] = f"{place}: {fault}"
    return found


def _truth_fault(given: Sequence[str | None] | None, golden: Sequence[str | None] | None, searched: bool) -> str | None:
    fault = answer_fault(given)
    # What is wrong with the golden answers is told of them.
    if fault is None and searched and answer_fault(golden) is None and set(given or ()) != set(golden or ()):
        return "other answers than the golden ones"
    return fault
