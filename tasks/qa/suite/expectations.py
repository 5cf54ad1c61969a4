"""Expectations of Great Expectations' form for what it has none of its own: nested columns, order, shares by source."""

from __future__ import annotations

import html
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from great_expectations.execution_engine import PandasExecutionEngine
from great_expectations.expectations.expectation import BatchExpectation
from great_expectations.expectations.metrics.metric_provider import metric_value
from great_expectations.expectations.metrics.table_metric_provider import TableMetricProvider

from tasks.qa.shuffling import TESTS, Finding, examine
from tasks.qa.suite.form import open_table, resolve

_FRAME = "table.whole_frame"
_LABELLINGS = ("data_source", "data_source and hops", "gold passage")


class WholeFrame(TableMetricProvider):
    """The batch itself, for expectations that look at all of it."""

    metric_name = _FRAME
    value_keys = ()

    @metric_value(engine=PandasExecutionEngine)
    def _pandas(cls, execution_engine: PandasExecutionEngine, metric_domain_kwargs: dict, **_: Any) -> pd.DataFrame:  # noqa: N805
        frame, _, _ = execution_engine.get_compute_domain(metric_domain_kwargs, domain_type="table")
        return frame


class _FrameExpectation(BatchExpectation):
    """An expectation of the whole batch; `_judge` says what was observed, how much of it is wrong, and details."""

    metric_dependencies: ClassVar[tuple[str, ...]] = (_FRAME,)
    domain_keys: ClassVar[tuple[str, ...]] = ("batch_id", "table")

    def _validate(self, metrics: dict, runtime_configuration: Any = None, execution_engine: Any = None) -> dict:
        success, observed, details = self._judge(metrics[_FRAME])
        # The Data Docs show it as HTML.
        return {
            "success": success,
            "result": {"observed_value": html.escape(observed, quote=False), "details": details},
        }

    @abstractmethod
    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        """Whether the batch is as expected, what was observed, and figures."""


class ExpectVerlColumns(_FrameExpectation):
    """The parquet file has the columns, down to the nested ones, that verl and the agent read."""

    path: str
    stage: bool
    success_keys: ClassVar[tuple[str, ...]] = ("path", "stage")

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        _, faults = resolve(open_table(Path(self.path)).schema_arrow, stage=self.stage)
        details: dict[str, Any] = {"value": len(faults)}
        if faults:
            details["brief"] = f"{len(faults)} of its columns"
        return not faults, "; ".join(faults) or "all columns there", details


class ExpectFairlyShuffledRows(_FrameExpectation):
    """The rows stand in an order that a fair shuffle could have given: see `tasks/qa/shuffling.py`."""

    false_alarm: float
    success_keys: ClassVar[tuple[str, ...]] = ("false_alarm",)

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        source = frame["data_source"]
        labels = (source, _with_hops(source, frame["hops"]), frame["passage"])
        findings = examine(dict(zip(_LABELLINGS, labels, strict=True)), self.false_alarm)
        refused = [finding for finding in findings if finding.refused]
        runs = [one for one in findings if one.test == "run" and one.labelling == _LABELLINGS[0]]
        details: dict[str, Any] = {"value": len(refused), **_longest(runs, len(frame))}
        # What was seen in the sources themselves, and the runs, say most.
        refused.sort(key=lambda one: (_LABELLINGS.index(one.labelling), TESTS.index(one.test)))
        told = refused[:2] or runs or findings[:1]
        observed = "; ".join(map(str, told)) or "one source, one number of hops: any order will do"
        if refused:
            first = refused[0]
            details["brief"] = f"{first.test} of {first.labelling}, from row {first.first_row} on"
        return not refused, observed, details


def _with_hops(source: pd.Series, hops: pd.Series) -> np.ndarray:
    return (source.astype(str) + ", " + hops.astype(str)).where(source.notna()).to_numpy(dtype=object)


def _longest(runs: list[Finding], rows: int) -> dict[str, int]:
    """Length of the longest run of one source, and what chance allows; under one source that is the whole table."""
    if not runs:
        return {"length": rows, "allowed": rows}
    return {"length": runs[0].count, "allowed": int(runs[0].chance)}


class ExpectShareBySource(_FrameExpectation):
    """For every source the share of rows in which a column is true, among those where it is not null, has a limit.

    A text is true when it is not empty.
    """

    column: str
    limit: float
    side: Literal["at least", "at most"]
    success_keys: ClassVar[tuple[str, ...]] = ("column", "limit", "side")

    def _judge(self, frame: pd.DataFrame) -> tuple[bool, str, dict[str, Any]]:
        shares, counts = self._shares(frame)
        if shares.empty:
            return True, "no row of which it can be said", {"value": 0}
        limit = f"{self.side} {self.limit:g}"
        told = {name: f"{name}: {share:.3f} of {counts[name]}" for name, share in shares.items()}
        observed = f"{', '.join(told.values())}; {limit}"
        worst = shares.min() if self.side == "at least" else shares.max()
        details: dict[str, Any] = {"value": float(worst)}
        odd = self.odd(frame)
        if len(odd):
            first = f"first: row {odd.index[0]}"
            observed += f"; {first}"
            wrong = self._beyond(shares)
            details["brief"] = f"{', '.join(told[name] for name in shares.index[wrong])}; {limit}; {first}"
        return odd.empty, observed, details

    def odd(self, frame: pd.DataFrame) -> pd.Series:
        """The column's values in the rows by which sources are beyond the limit."""
        shares, _ = self._shares(frame)
        values = frame[self.column].dropna()
        of_wrong = _sources(frame)[values.index].isin(shares.index[self._beyond(shares)])
        return values[of_wrong & (values.astype(bool) == (self.side == "at most"))]

    def _shares(self, frame: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
        """The share of every source, and of how many rows."""
        values = frame[self.column].dropna()
        groups = values.astype(bool).groupby(_sources(frame)[values.index])
        return groups.mean(), groups.size()

    def _beyond(self, shares: pd.Series) -> pd.Series:
        return shares < self.limit if self.side == "at least" else shares > self.limit


def _sources(frame: pd.DataFrame) -> pd.Series:
    return frame["data_source"].fillna("(none)")
