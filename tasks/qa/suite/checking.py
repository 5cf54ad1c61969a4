"""What is expected of each table: its suite, and all that the suite needs to know of the other tables."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from great_expectations import expectations as gxe
from great_expectations.expectations.expectation import Expectation

from tasks.qa.suite import findings, overlap
from tasks.qa.suite.catalogue import Severity
from tasks.qa.suite.corpus import Golds
from tasks.qa.suite.expectations import ExpectFairlyShuffledRows, ExpectShareBySource, ExpectVerlColumns
from tasks.qa.suite.form import open_table, resolve
from tasks.qa.suite.report import DOCS, FINDINGS
from tasks.qa.suite.running import Outcome, named, run
from tasks.qa.suite.survey import Measure, Survey, survey

JOINED = 0.05  # share of a source's answers that may read as joined: less than 0.02 in the field's own sets
IN_GOLD = 0.9  # share of a source's answers that occur in gold passages: above 0.98 in the field's own sets


@dataclass(frozen=True)
class Settings:
    """What the suites depend on.

    Attributes:
        stage: whether the tables are ingest's, with all columns.
        severities: of every expectation.
        false_alarm: see `tasks/qa/shuffling.py`.
        min_rows: fewest rows of the first table.
        say: tells of progress.
        measure: gives the lengths of prompts; None: they are not looked at.
        max_prompt_tokens: most tokens of a prompt.
        corpus: parquet of passages; None: gold passages are not looked at.
        near: whether questions are looked for that are held out but for a word or so.
    """

    stage: bool
    severities: Mapping[str, Severity]
    false_alarm: float
    min_rows: int
    say: Callable[[str], None]
    measure: Measure | None = None
    max_prompt_tokens: int | None = None
    corpus: Path | None = None
    near: bool = True

    def name(self, expectation: Expectation, name: str) -> Expectation:
        """An expectation with its name in the catalogue and what goes with it."""
        return named(expectation, name, self.severities[name], self.stage)


def check(tables: Mapping[str, Path], settings: Settings, folder: Path) -> tuple[list[Outcome], dict[str, int]]:
    """Check tables of rows; write the Data Docs of all, and every row that is not as expected (`findings.py`).

    Args:
        tables: files by name; the first is learnt from, and each is held apart from those that follow.
        folder: takes `DOCS` and `FINDINGS`.

    Returns:
        the outcomes, table by table in the catalogue's order, and the number of rows of each table.

    Raises:
        InputError: a file can't be read.
    """
    whole = {}
    for name, path in tables.items():
        _, faults = resolve(open_table(path).schema_arrow, stage=settings.stage)
        if not faults:
            whole[name] = survey(name, path, stage=settings.stage, measure=settings.measure, say=settings.say)
            settings.say(f"{name}: {len(whole[name].frame):,} rows read")
    golds = None if settings.corpus is None else Golds(settings.corpus, list(whole.values()))
    names = list(tables)
    frames, suites = {}, {}
    for number, (name, path) in enumerate(tables.items()):
        columns = ExpectVerlColumns(path=str(path), stage=settings.stage, description="The columns and their types.")
        suites[name] = [settings.name(columns, "schema")]
        frames[name] = pd.DataFrame()
        if name in whole:
            held_out = [whole[other] for other in names[number + 1 :] if other in whole]
            frames[name] = _with_findings(whole[name], held_out, golds, settings)
            suites[name] += _expectations(number == 0, bool(held_out), settings)
            if held_out:
                settings.say(f"{name}: compared with {', '.join(one.name for one in held_out)}")
    rows = {name: open_table(path).metadata.num_rows for name, path in tables.items()}
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = run(tables, frames, suites, folder / DOCS)
    findings.write(folder / FINDINGS, frames, suites, outcomes)
    return outcomes, rows


def _with_findings(table: Survey, held_out: list[Survey], golds: Golds | None, settings: Settings) -> pd.DataFrame:
    """The table's frame and what was found in comparison: texts that say what is wrong with a row, None elsewhere."""
    told: dict[str, list[str | None]] = {
        "repeated_id": overlap.repeated_ids(table, held_out, by_source=not settings.stage),
        "repeated_question": overlap.repeated_questions(table),
    }
    judged: dict[str, Any] = {}
    if held_out:
        told |= overlap.leaks(table, held_out, alike=settings.near)
        judged["shared_passage"] = overlap.shared_passages(table, held_out)
    if golds is not None:
        told["missing_passage"] = golds.missing(table)
        judged["answer_in_gold"] = golds.hold_answers(table)
    # The Data Docs show texts as HTML, and these hold the user's own.
    for name, texts in told.items():
        judged[name] = [text and html.escape(text, quote=False) for text in texts]
    columns = {name: pd.Series(values, table.frame.index, object) for name, values in judged.items()}
    return table.frame.assign(**columns)


def _expectations(learnt_from: bool, compared: bool, settings: Settings) -> list[Expectation]:
    """What is expected of a table whose columns are right."""

    def null(name: str, column: str, description: str) -> Expectation:
        one = gxe.ExpectColumnValuesToBeNull(column=column, description=description)
        return settings.name(one, name)

    def share(name: str, column: str, side: str, limit: float, description: str) -> Expectation:
        one = ExpectShareBySource(column=column, side=side, limit=limit, description=description)
        return settings.name(one, name)

    within = "" if settings.stage else " in a data_source"
    suite = [
        null("rows", "row_fault", "Every row has what verl, the agent and the reward read."),
        null("answers", "answer_fault", "Every question has answers that can be matched."),
        share("answers-joined", "joined", "at most", JOINED, "Few answers read as several that were joined."),
        null("unique-ids", "repeated_id", f"No id comes twice{within}, over all tables."),
        null("unique-questions", "repeated_question", "No question comes twice, whatever its case and punctuation."),
    ]
    if settings.measure is not None:
        limit = settings.max_prompt_tokens
        between = gxe.ExpectColumnValuesToBeBetween(
            column="prompt_tokens",
            min_value=1,
            max_value=limit,
            description=f"A prompt has at most {limit} of the policy's tokens (episode.max_prompt_tokens).",
        )
        suite.append(settings.name(between, "prompt-tokens"))
    if settings.corpus is not None:
        suite += [
            null("gold-passages", "missing_passage", "Every gold passage is in the corpus."),
            share("answers-in-gold", "answer_in_gold", "at least", IN_GOLD, "Gold passages hold the answers."),
        ]
    if compared:
        suite += [
            null("leakage-exact", "leak_exact", "No question is held out, whatever its case and punctuation."),
            share("leakage-passages", "shared_passage", "at most", 0.0, "No gold passage is a held-out question's."),
        ]
    if compared and settings.near:
        suite += [
            null("leakage-near", "leak_near", "No question is held out but for a word or so, with the same answer."),
            null("leakage-similar", "leak_similar", "No question is held out but for one word of it."),
        ]
    if learnt_from:
        count = gxe.ExpectTableRowCountToBeBetween(min_value=settings.min_rows, description="There are enough rows.")
        order = ExpectFairlyShuffledRows(
            false_alarm=settings.false_alarm, description="The rows stand in an order that a fair shuffle could give."
        )
        suite += [
            settings.name(count, "row-count"),
            settings.name(order, "order"),
        ]
    return suite
