"""The suite of expectations over ingest's splits, run by Great Expectations, with its Data Docs."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

# Great Expectations reads this when it is imported.
os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
import great_expectations as gx
import great_expectations.expectations as gxe
from great_expectations.core import RunIdentifier
from great_expectations.core.expectation_validation_result import ExpectationValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation import Expectation

from tasks.agent.rewards import normalise
from tasks.params import Validate
from tasks.qa.docs import make_local
from tasks.qa.expectations import (
    ExpectGoldPassagesToExist,
    ExpectNoLongSingleSourceRun,
    ExpectQuestionsNotHeldOut,
    ExpectSourcesMixedInWindows,
    ExpectVerlRows,
)
from tasks.qa.form import COLUMNS
from tasks.qa.records import Split


@dataclass(frozen=True)
class Outcome:
    """One expectation's result; `details` are the custom expectations' own figures."""

    split: Split
    name: str
    passed: bool
    observed: str
    where: str
    details: dict[str, Any]

    @property
    def record(self) -> dict[str, Any]:
        """The form in which the figures hold it."""
        return {"name": self.name, "passed": self.passed, "observed": self.observed, "where": self.where}


def flat(frame: pd.DataFrame, prompt_tokens: list[int]) -> pd.DataFrame:
    """Rows with the columns added that expectations look at: parts of `extra_info`, and the prompts' lengths.

    What a row lacks is None here, for the expectations to find.
    """
    info = [one if isinstance(one, dict) else {} for one in frame["extra_info"]]
    questions = [one.get("question") for one in info]
    golds = [one.get("gold_passage_ids") for one in info]
    return frame.assign(
        id=[one.get("id") for one in info],
        question=questions,
        normalised_question=[None if question is None else normalise(question) for question in questions],
        gold_passage_ids=[[] if ids is None else [str(identity) for identity in ids] for ids in golds],
        prompt_tokens=prompt_tokens,
    )


def _form(corpus: Path, max_prompt_tokens: int) -> list[Expectation]:
    """What is expected of every split."""
    return [
        ExpectVerlRows(description="Every row has the form that verl and the agent read."),
        *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in (*COLUMNS, "id", "question")),
        gxe.ExpectColumnValuesToBeUnique(column="id"),
        gxe.ExpectColumnValuesToBeUnique(
            column="normalised_question", description="No question occurs twice, whatever its case and punctuation."
        ),
        gxe.ExpectColumnValuesToBeBetween(
            column="prompt_tokens",
            min_value=1,
            max_value=max_prompt_tokens,
            description=f"A prompt has at most {max_prompt_tokens} of the policy's tokens (episode.max_prompt_tokens).",
        ),
        ExpectGoldPassagesToExist(corpus=str(corpus), description="Every gold passage is in the corpus."),
    ]


def _no_leak(references: list[Path]) -> Expectation:
    names = " or ".join(path.stem for path in references)
    return ExpectQuestionsNotHeldOut(
        references=[str(path) for path in references], description=f"No question occurs in {names} too."
    )


def expectations(split: Split, folder: Path, settings: Validate, max_prompt_tokens: int) -> list[Expectation]:
    """What is expected of a split; `folder` holds ingest's outputs."""
    form = _form(folder / "corpus.parquet", max_prompt_tokens)
    if split == "test":
        return form
    if split == "validation":
        return [*form, _no_leak([folder / "test.parquet"])]
    return [
        gxe.ExpectTableRowCountToBeBetween(min_value=settings.min_rows),
        *form,
        _no_leak([folder / "validation.parquet", folder / "test.parquet"]),
        ExpectNoLongSingleSourceRun(
            run_probability=settings.run_probability,
            description="No single-source run is longer than chance allows.",
        ),
        ExpectSourcesMixedInWindows(
            window=settings.window,
            max_share_gap=settings.max_share_gap,
            description=f"The sources are mixed in every window of {settings.window} rows.",
        ),
    ]


def validate(frames: dict[Split, pd.DataFrame], suites: dict[Split, list[Expectation]], docs: Path) -> list[Outcome]:
    """Run each split's expectations and write the Data Docs of all into `docs`.

    Args:
        frames: rows of each split, as `flat` gives them.
        suites: what is expected of each split.
        docs: a new folder.

    Returns:
        the outcomes, in the order of the suites.

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
    for split, frame in frames.items():
        batch = source.add_dataframe_asset(split).add_batch_definition_whole_dataframe("all")
        suite = context.suites.add(gx.ExpectationSuite(split, expectations=suites[split]))
        definition = context.validation_definitions.add(gx.ValidationDefinition(name=split, data=batch, suite=suite))
        result = definition.run(batch_parameters={"dataframe": frame}, result_format="SUMMARY", run_id=identifier)
        outcomes += [_outcome(split, one) for one in result.results]
    context.build_data_docs(["docs"])
    make_local(docs, [_summary(split, outcomes) for split in frames])
    return outcomes


def _summary(split: Split, outcomes: list[Outcome]) -> tuple[str, int, list[str]]:
    of_split = [outcome for outcome in outcomes if outcome.split == split]
    return split, len(of_split), [f"{one.name}: {one.observed}" for one in of_split if not one.passed]


def _outcome(split: Split, result: ExpectationValidationResult) -> Outcome:
    config = result.expectation_config
    assert config is not None
    column = config.kwargs.get("column")
    _refuse_exception(config.type, result.exception_info)
    found = result.result
    observed = found.get("observed_value")
    if observed is None:
        observed = f"{found['unexpected_count']} of {found['element_count']} rows not as expected"
        if found["unexpected_count"]:
            row, value = found["partial_unexpected_index_list"][0], found["partial_unexpected_list"]
            observed += f", first: row {row}" + (f" with {value[0]!r}" if value else "")
    return Outcome(
        split=split,
        name=f"{split}: {config.type}" + (f" ({column})" if column else ""),
        passed=bool(result.success),
        observed=str(observed),
        where=f"data/ingest/{split}.parquet" + (f", {column}" if column else ""),
        details=found.get("details") or {},
    )


def _refuse_exception(name: str, info: dict[str, Any] | None) -> None:
    """An expectation that could not be evaluated counts as failed there; here the program is wrong, not the data."""
    entries = [info] if info and "raised_exception" in info else list((info or {}).values())
    for entry in entries:
        if entry.get("raised_exception"):
            raise RuntimeError(f"{name} could not be evaluated: {entry['exception_traceback']}")
