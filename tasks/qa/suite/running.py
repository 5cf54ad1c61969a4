"""Suites run by Great Expectations over frames, with their Data Docs, and what came of each expectation."""

from __future__ import annotations

import html
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations.core import RunIdentifier
from great_expectations.core.expectation_validation_result import ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import Expectation
from great_expectations.expectations.metadata_types import FailureSeverity

from tasks.qa.suite.catalogue import CATALOGUE, Severity
from tasks.qa.suite.docs import make_local


@dataclass(frozen=True)
class Outcome:
    """One expectation's result.

    Attributes:
        table: name of the table.
        name: of the expectation, as in the catalogue.
        value: number of rows that are not as expected; of row-count the rows, of a share the worst source's.
        observed: the same in words, with the first row.
        brief: `observed` without what the rows hold.
        where: the file.
        details: figures of its own.
        mend: how to put it right.
    """

    table: str
    name: str
    passed: bool
    severity: Severity
    value: float
    observed: str
    brief: str
    where: str
    details: dict[str, Any]
    mend: str

    @property
    def record(self) -> dict[str, Any]:
        """The form in which the figures hold it."""
        return {
            "name": f"{self.table}: {self.name}",
            "passed": self.passed,
            "severity": self.severity,
            "observed": self.observed,
            "where": self.where,
        }


def named(expectation: Expectation, name: str, severity: Severity, stage: bool) -> Expectation:
    """Give an expectation its name in the catalogue, its severity and its mend, which the Data Docs show."""
    expectation.severity = FailureSeverity.CRITICAL if severity == "error" else FailureSeverity.WARNING
    mend = CATALOGUE[name].told(stage)
    expectation.meta = {"name": name, "severity": severity, "mend": mend}
    expectation.notes = f"{name} ({severity}). To mend it: {mend}."
    return expectation


def run(
    tables: Mapping[str, Path], frames: dict[str, pd.DataFrame], suites: dict[str, list[Expectation]], docs: Path
) -> list[Outcome]:
    """Run each table's suite and write the Data Docs of all.

    Args:
        tables: the file of each table.
        frames: what its suite looks at.
        suites: expectations that `named` has named.
        docs: a new folder.

    Returns:
        the outcomes, table by table in the catalogue's order.

    Raises:
        RuntimeError: an expectation could not be evaluated.
    """
    # Great Expectations tells of each batch and each page; what matters is in the outcomes.
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    context.add_data_docs_site(
        site_name="docs",
        site_config={
            "class_name": "SiteBuilder",
            "site_index_builder": {"class_name": "DefaultSiteIndexBuilder"},
            "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(docs.absolute())},
        },
    )
    source = context.data_sources.add_pandas("ingest")
    identifier = RunIdentifier(run_name="validate")
    outcomes = []
    for name, frame in frames.items():
        batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all")
        suite = context.suites.add(gx.ExpectationSuite(name, expectations=suites[name]))
        definition = context.validation_definitions.add(gx.ValidationDefinition(name=name, data=batch, suite=suite))
        result = definition.run(batch_parameters={"dataframe": frame}, result_format="SUMMARY", run_id=identifier)
        of_table = [_outcome(name, tables[name], len(frame), one) for one in result.results]
        outcomes += sorted(of_table, key=lambda one: list(CATALOGUE).index(one.name))
    context.build_data_docs(["docs"])
    make_local(docs, [_summary(name, outcomes) for name in frames])
    return outcomes


def _summary(table: str, outcomes: list[Outcome]) -> tuple[str, int, list[tuple[Severity, str]]]:
    of_table = [outcome for outcome in outcomes if outcome.table == table]
    told = [(one.severity, f"{one.name}: {one.observed}; {one.mend}") for one in of_table if not one.passed]
    return table, len(of_table), told


def _outcome(table: str, path: Path, rows: int, result: ExpectationValidationResult) -> Outcome:
    config = result.expectation_config
    assert config is not None and config.meta is not None
    _refuse_exception(config.type, result.exception_info)
    found = result.result
    details = found.get("details") or {}
    if "value" in details:
        value, observed = details["value"], html.unescape(found["observed_value"])
        brief = details.get("brief", observed)
    elif "observed_value" in found:
        value, observed = found["observed_value"], f"{found['observed_value']} rows"
        brief = observed
    else:
        value, brief = found["unexpected_count"], f"{found['unexpected_count']} of {rows} rows"
        if value:
            brief += f"; first: row {found['partial_unexpected_index_list'][0]}"
        observed = f"{brief}, {html.unescape(str(found['partial_unexpected_list'][0]))}" if value else brief
    return Outcome(
        table=table,
        name=config.meta["name"],
        passed=bool(result.success),
        severity=config.meta["severity"],
        value=float(value),
        observed=_line(observed),
        brief=_line(brief),
        where=str(path),
        details=details,
        mend=config.meta["mend"],
    )


def _line(text: str) -> str:
    """In one line: a source's name may hold what would break it."""
    return " ".join(text.splitlines())


def _refuse_exception(name: str, info: dict[str, Any] | None) -> None:
    """An expectation that could not be evaluated counts as failed there; here the program is wrong, not the data."""
    entries = [info] if info and "raised_exception" in info else list((info or {}).values())
    for entry in entries:
        if entry.get("raised_exception"):
            raise RuntimeError(f"{name} could not be evaluated: {entry['exception_traceback']}")
