"""Expectations of Great Expectations' form for what it has none of its own: verl's rows, leakage, order."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pandas as pd
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from tasks.agent.rewards import normalise
from tasks.qa.form import COLUMNS, row_faults
from tasks.qa.shuffling import worst_run, worst_window

_FRAME = "table.whole_frame"


class WholeFrame(TableMetricProvider):
    """The batch itself, for expectations that look at all of it."""

    metric_name = _FRAME
    value_keys = ()

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(cls, execution_engine: PandasExecutionEngine, metric_domain_kwargs: dict, **_: Any) -> pd.DataFrame:  # noqa: N805
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type="table")
        return frame


class _FrameExpectation(BatchExpectation):
    """An expectation of the whole batch; `_judge` says whether it holds and what was observed."""

    metric_dependencies: ClassVar[tuple[str, ...]] = (_FRAME,)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "table")

    def _validate(self, metrics: dict, runtime_configuration: Any = None, execution_engine: Any = None) -> dict:
        success, observed, details = self._judge(metrics[_FRAME])
        return {"success": success, "result": {"observed_value": observed, "details": details}}

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        raise NotImplementedError


class ExpectVerlRows(_FrameExpectation):
    """Every row has the form that verl's data set and the agent read."""

    success_keys: ClassVar[tuple[str, ...]] = ()

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        missing = [column for column in COLUMNS if column not in frame]
        if missing:
            return False, f"missing columns: {', '.join(missing)}", {"missing": missing}
        faults: Counter[str] = Counter()
        first: dict[str, int] = {}
        for number, row in enumerate(frame[list(COLUMNS)].to_dict("records")):
            for fault in row_faults(row):
                faults[fault] += 1
                first.setdefault(fault, number)
        told = [f"{fault} (rows: {count}, first: {first[fault]})" for fault, count in faults.items()]
        return not faults, "; ".join(told) or f"{len(frame)} rows in form", dict(faults)


def _gold_sets(passages: pd.Series) -> list[frozenset[str]]:
    return [frozenset(ids) for ids in passages]


class ExpectQuestionsNotHeldOut(_FrameExpectation):
    """No question, normalised as SQuAD's evaluation does, occurs in a held-out split.

    How many questions need just the passages that a held-out one needs is reported and never fails: many
    honest data sets ask several questions about one paragraph.
    """

    references: list[str]
    success_keys: ClassVar[tuple[str, ...]] = ("references",)

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        held = pd.concat([pd.read_parquet(path, columns=["extra_info"]) for path in self.references])["extra_info"]
        questions = {normalise(info["question"]) for info in held}
        leaked = frame.loc[frame["normalised_question"].isin(questions), "id"]
        golds = {gold for gold in _gold_sets(held.map(lambda info: info["gold_passage_ids"])) if gold}
        shared = sum(gold in golds for gold in _gold_sets(frame["gold_passage_ids"]))
        example = f", first: {leaked.iloc[0]}" if len(leaked) else ""
        observed = f"{len(leaked)} questions also held out{example}; {shared} with the gold passages of a held-out one"
        details = {"leaked": len(leaked), "same_gold_passages": shared, "ids": leaked.head(20).tolist()}
        return not len(leaked), observed, details


class ExpectGoldPassagesToExist(_FrameExpectation):
    """Every gold passage id is the id of a passage."""

    corpus: str
    success_keys: ClassVar[tuple[str, ...]] = ("corpus",)

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        known = set(pd.read_parquet(self.corpus, columns=["id"])["id"])
        lost = [
            (identity, gold)
            for identity, ids in zip(frame["id"], frame["gold_passage_ids"], strict=True)
            for gold in ids
            if gold not in known
        ]
        example = f", first: {lost[0][1]!r} of question {lost[0][0]!r}" if lost else ""
        return not lost, f"{len(lost)} gold passages missing{example}", {"missing": len(lost)}


class ExpectNoLongSingleSourceRun(_FrameExpectation):
    """No run of rows of one source is longer than chance allows in a shuffled table."""

    run_probability: float
    success_keys: ClassVar[tuple[str, ...]] = ("run_probability",)

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        run = worst_run(frame["data_source"].tolist(), self.run_probability)
        details = {"length": run.length, "allowed": run.allowed}
        if frame["data_source"].nunique() == 1:
            return True, f"only one source, {run.source}: any order will do", details
        place = f"rows {run.first_row} to {run.first_row + run.length - 1}"
        observed = f"longest single-source run: {run.length} of {run.source}, {place}; chance allows {run.allowed}"
        return run.length <= run.allowed, observed, details


class ExpectSourcesMixedInWindows(_FrameExpectation):
    """In every window of neighbouring rows each source's share is near its overall share."""

    window: int
    max_share_gap: float
    success_keys: ClassVar[tuple[str, ...]] = ("window", "max_share_gap")

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        worst = worst_window(frame["data_source"].tolist(), self.window)
        place = f"rows {worst.first_row} to {worst.first_row + worst.rows - 1}"
        observed = (
            f"worst window: {place}, {worst.source} with a share of {worst.share:.3f} against {worst.overall:.3f} "
            f"overall; allowed gap {self.max_share_gap:g}"
        )
        return worst.gap <= self.max_share_gap, observed, {"gap": worst.gap}
