"""Stage `validate`: what is expected of the data, checked by Great Expectations before anything is trained on it.

Decided, and why: a table in blocks, one source after the other, trains without an error and badly, and so does one
whose held-out questions are among the training rows; neither is seen in a loss. So every split is read once, and its
columns, answers, prompt lengths in the policy's own tokens, gold passages, order and overlap with what is held out
are checked. The expectations and their severities are in `tasks/qa/suite/catalogue.py`. An error stops the DAG with
one line; its Data Docs, and every row that is not as expected (`findings.jsonl`), are left in `.forager/validate`,
since the outputs of a failed stage are thrown away.

A table of verl's rows that never went through ingest is checked without any earlier stage by

    python -m tasks.validate --file rows.parquet [--held-out other.parquet]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tasks import params as parameters
from tasks.agent import prompts, protocols
from tasks.agent.chat import Chat
from tasks.agent.toolbox.base import tool_classes
from tasks.contract import Figures, Stage, main
from tasks.errors import InputError, exit_on_input_error
from tasks.files import write_json
from tasks.qa.records import SPLITS
from tasks.qa.suite import catalogue, report

if TYPE_CHECKING:
    from tasks.qa.suite.checking import Settings
    from tasks.qa.suite.running import Outcome
    from tasks.qa.suite.survey import Measure

KEPT = Path(".forager/validate")


def run(stage: Stage) -> Figures:
    """Write `passed.json`, the Data Docs and every row that is not as expected, or refuse the data."""
    tables: dict[str, Path] = {split: stage.input("ingest", f"{split}.parquet") for split in SPLITS}
    corpus, model = stage.input("ingest", "corpus.parquet"), stage.input("policy", "model")
    settings = replace(
        _settings(stage.params.validate, stage.say),
        stage=True,
        measure=prompt_measure(model, stage.params.episode, stage.params.tools),
        max_prompt_tokens=stage.params.episode.max_prompt_tokens,
        corpus=corpus,
    )
    outcomes, rows = _check(tables, settings, stage.out)
    stage.track.log_artifact(stage.out / report.DOCS)
    figures = _figures(outcomes)
    refused = report.refusal(outcomes, KEPT, rows=rows)
    if refused is not None:
        _keep(stage.out)
        # The contract logs the figures of a stage that ends well; here they say what was wrong.
        stage.track.log_figures(figures)
        raise refused
    if rows:
        stage.say(f"every row: {Path('data', stage.name, report.FINDINGS)}")
    write_json(stage.out / "passed.json", {"passed": True})
    return figures


def _settings(section: parameters.Validate, say: Callable[[str], None]) -> Settings:
    """What any table is checked by."""
    # Imported here and not above: Great Expectations takes seconds, and a missing input is told at once.
    from tasks.qa.suite.checking import Settings

    return Settings(
        stage=False,
        severities=catalogue.severities(section.severity),
        false_alarm=section.false_alarm,
        min_rows=section.min_rows,
        say=say,
    )


def _check(tables: Mapping[str, Path], settings: Settings, folder: Path) -> tuple[list[Outcome], bool]:
    """Check tables and print the report; the outcomes, and whether rows are not as expected."""
    from tasks.qa.suite.checking import check

    outcomes, counts = check(tables, settings, folder)
    for line in report.lines(outcomes, counts):
        settings.say(line)
    return outcomes, (folder / report.FINDINGS).stat().st_size > 0


def _figures(outcomes: Sequence[Outcome]) -> Figures:
    """The figures; `values` has a number for every expectation by table: see `Outcome.value`."""
    values: dict[str, dict[str, float]] = {}
    for one in outcomes:
        values.setdefault(one.table, {})[one.name] = one.value
    leaks = [one.value for one in outcomes if one.name in ("leakage-exact", "leakage-near")]
    (order,) = [one.details for one in outcomes if one.name == "order"] or [{"length": 0, "allowed": 0}]
    return {
        "passed": not any(one.severity == "error" and not one.passed for one in outcomes),
        "expectations": [one.record for one in outcomes],
        "values": values,
        "warnings": sum(one.severity == "warning" and not one.passed for one in outcomes),
        "leaked_questions": int(sum(leaks)),
        "longest_run": order["length"],
        "longest_run_allowed": order["allowed"],
    }


def prompt_measure(model: Path, episode: parameters.Episode, tools: parameters.Tools) -> Measure:
    """What counts the tokens of prompts as an episode begins with them.

    Raises:
        InputError: neither the prompt nor the model's chat template says how to call the tools.
    """
    # As every stage loads it: the class that the model's configuration asks for may split text in its own way.
    from transformers import AutoTokenizer

    protocol = protocols.create(episode.protocol, tools.names)
    schemas = [tool.schema() for tool in tool_classes(tools.names).values()] if protocol.calls_tools_by_schema else []
    chat = Chat(AutoTokenizer.from_pretrained(model), schemas)
    if protocol.calls_tools_by_schema and not chat.shows_tools() and not prompts.holds(episode, prompts.TOOLS):
        raise InputError(
            f"protocol {protocol.name} calls tools, and neither the prompt nor the policy's chat template names them",
            where="episode.prompt",
            mend="put {tools} into it, or choose a model whose chat template shows tools",
        )

    def measure(asked: Sequence[Sequence[dict[str, str]]]) -> list[int]:
        return [len(chat.prompt_ids(prompt)) for prompt in asked]

    return measure


def _keep(folder: Path) -> None:
    """Keep the Data Docs and the findings where no stage throws them away."""
    shutil.rmtree(KEPT, ignore_errors=True)
    KEPT.mkdir(parents=True)
    for name in (report.DOCS, report.FINDINGS):
        shutil.move(folder / name, KEPT / name)


def _refuse_empty(held_out: Path) -> None:
    """Nothing that is trained on could be among no questions, and the check would pass."""
    from tasks.qa.suite.form import open_table

    if open_table(held_out).metadata.num_rows == 0:
        raise InputError("holds no rows", where=str(held_out), mend="name the questions that are held out")


def check_file(arguments: Sequence[str]) -> None:
    """Check a table of verl's rows that never went through ingest, and print the report.

    Exit codes: 0 no error, 2 an error or a file that can't be read.
    """
    parser = argparse.ArgumentParser(prog="python -m tasks.validate", description="Check a table of verl's rows.")
    parser.add_argument("--file", type=Path, required=True, metavar="PARQUET", help="what is trained on")
    parser.add_argument("--held-out", type=Path, metavar="PARQUET", help="what it is measured on")
    options = parser.parse_args(arguments)
    with exit_on_input_error("validate"):
        section = parameters.Validate(**parameters.resolve_in_force()["validate"])
        settings = _settings(section, partial(print, flush=True))
        if options.held_out is not None:
            _refuse_empty(options.held_out)
        tables = {"file": options.file} | ({"held-out": options.held_out} if options.held_out else {})
        with tempfile.TemporaryDirectory() as folder:
            outcomes, rows = _check(tables, settings, Path(folder))
            _keep(Path(folder))
        refused = report.refusal(outcomes, KEPT, rows=rows)
        if refused is not None:
            raise refused
        if rows:
            settings.say(f"every row: {KEPT / report.FINDINGS}")


if __name__ == "__main__":
    if sys.argv[1:]:
        check_file(sys.argv[1:])
    else:
        main("validate", run)
