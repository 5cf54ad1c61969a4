"""Stage `validate`: what is expected of the data, checked by Great Expectations before anything is trained on it.

Decided, and why: training rows are checked for form, nulls, duplicates, leakage, prompt length in the policy's
own tokens, and order; held-out rows for form. The order is checked because a table in blocks, one source
after the other, trains without an error and badly. A failure stops the DAG with one line, and its Data Docs
are left in `.forager/validate/docs`, since the outputs of a failed stage are thrown away.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from tasks.contract import Figures, Stage, main
from tasks.errors import InputError
from tasks.files import write_json
from tasks.qa.form import prompt_fault
from tasks.qa.records import SPLITS, Split

if TYPE_CHECKING:
    from tasks.qa.suite import Outcome

KEPT_DOCS = Path(".forager/validate/docs")
_RUNS, _WINDOWS = "train: expect_no_long_single_source_run", "train: expect_sources_mixed_in_windows"
_ORDER = (_RUNS, _WINDOWS)
_MENDS = {
    _RUNS: "set `ingest.shuffle: true`",
    _WINDOWS: "set `ingest.shuffle: true`, or widen validate.window where it is on",
    "row_count": "bring more training questions, or lower validate.min_rows",
    "prompt_tokens": "raise episode.max_prompt_tokens, or leave the long questions out",
}


def run(stage: Stage) -> Figures:
    """Write `passed.json` and the Data Docs, or refuse the data."""
    folder = stage.input("ingest")
    frames = {split: pd.read_parquet(stage.input("ingest", f"{split}.parquet")) for split in SPLITS}
    lengths = _prompt_lengths(frames, stage.input("policy", "model"))
    stage.say("prompts measured in the policy's tokens")
    # Imported here and not above: Great Expectations takes seconds, and a missing input is told at once.
    from tasks.qa import suite

    outcomes = suite.validate(
        {split: suite.flat(frame, lengths[split]) for split, frame in frames.items()},
        {
            split: suite.expectations(split, folder, stage.params.validate, stage.params.episode.max_prompt_tokens)
            for split in SPLITS
        },
        stage.out / "docs",
    )
    stage.track.log_artifact(stage.out / "docs")
    failed = [outcome for outcome in outcomes if not outcome.passed]
    stage.say(f"expectations: {len(outcomes)}, failed: {len(failed)}")
    if failed:
        raise _refusal(failed, outcomes, stage.out / "docs")
    write_json(stage.out / "passed.json", {"passed": True})
    details = {outcome.name: outcome.details for outcome in outcomes}
    return {
        "passed": True,
        "expectations": [outcome.record for outcome in outcomes],
        "leaked_questions": sum(found.get("leaked", 0) for found in details.values()),
        "longest_run": details[_RUNS]["length"],
        "longest_run_allowed": details[_RUNS]["allowed"],
        "max_window_gap": details[_WINDOWS]["gap"],
    }


def _prompt_lengths(frames: dict[Split, pd.DataFrame], model: Path) -> dict[Split, list[int]]:
    """Tokens of each row's prompt as an episode begins with it; 0 where the prompt is none."""
    # As every stage loads it: the class that the model's configuration asks for may split text in its own way.
    from transformers import AutoTokenizer

    from tasks.agent.episode import prompt_ids

    tokenizer = AutoTokenizer.from_pretrained(model)
    return {
        split: [0 if prompt_fault(prompt) else len(prompt_ids(tokenizer, prompt)) for prompt in frame["prompt"]]
        for split, frame in frames.items()
    }


def _refusal(failed: list[Outcome], outcomes: list[Outcome], docs: Path) -> InputError:
    """The error that names the first failure; where the order is wrong, what both of its measures saw."""
    shutil.rmtree(KEPT_DOCS, ignore_errors=True)
    shutil.copytree(docs, KEPT_DOCS)
    first = failed[0]
    told = [first.observed]
    if first.name in _ORDER:
        told = [outcome.observed for outcome in outcomes if outcome.name in _ORDER]
    others = [outcome.name for outcome in failed[1:] if not (first.name in _ORDER and outcome.name in _ORDER)]
    also = f"; also failed: {', '.join(others)}" if others else ""
    mend = next((mend for part, mend in _MENDS.items() if part in first.name), "see the report")
    return InputError(
        f"failed: {first.name}: {'; '.join(told)}{also}",
        where=first.where,
        mend=f"{mend}; report: {KEPT_DOCS / 'index.html'}",
    )


if __name__ == "__main__":
    main("validate", run)
