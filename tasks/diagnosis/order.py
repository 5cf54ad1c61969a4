"""The order of the data: rows that RL meets in blocks, so that it sees one kind of question for a long time."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tasks.diagnosis.finding import Finding, Look, Plot
from tasks.diagnosis.run_data import RunData
from tasks.qa.shuffling import TESTS, examine

# Of a fairly shuffled table. Stage validate refuses at 1e-6, for a DAG that stops costs more than a line on a page.
FALSE_ALARM = 1e-4
MEND = "set ingest.shuffle: true, look at the test `order` of stage validate, and run `dvc repro` from ingest on"


def order(data: RunData) -> Finding:
    """Stage validate's tests of the order, on the rows as the steps took them.

    Where the steps took the table from its first row on, the whole table is tested, also what is still to come.
    Otherwise both are: the table, and the rows that were seen. These once by themselves, and once before all others in
    a random order, which shows steps that all took one kind: under a fair shuffle either is one, too.
    """
    look = Look("order", "The order of the data")
    seen = _seen(data)
    if data.rows is None and seen is None:
        look.missing(f"{data.why('rows')}; {data.why('rollouts')}")
        return look.finding()
    for told, table in _as_taken(data.rows, seen).items():
        _judge(look, told, table)
    look.plot = _plot(seen)
    return look.finding()


def _judge(look: Look, told: str, table: pd.DataFrame) -> None:
    source = table["data_source"].astype(str)
    labellings: dict[str, np.ndarray] = {
        "data_source": source.to_numpy(dtype=object),
        "data_source and hops": (source + ", " + table["hops"].astype(str)).to_numpy(dtype=object),
    }
    if "passage" in table:
        labellings["gold passage"] = table["passage"].to_numpy(dtype=object)
    findings = examine(labellings, FALSE_ALARM)
    refused = [one for one in findings if one.refused]
    refused.sort(key=lambda one: (list(labellings).index(one.labelling), TESTS.index(one.test)))
    for one in refused[:3]:
        look.bad(f"{told}: {one}", MEND)
    if not findings:
        look.missing(f"{told}: all {len(table)} rows are of one kind, which can stand in no wrong order")
    elif not refused:
        look.good(
            f"{told}: {len(table):,} rows in an order that a fair shuffle could give; most unlikely: {findings[0]}"
        )


def _seen(data: RunData) -> pd.DataFrame | None:
    """One row a question and step, in the order of the steps."""
    if data.rollouts is None or data.rollouts.empty:
        return None
    firsts = data.rollouts.drop_duplicates(["step", "question_id"])
    return firsts.sort_values("step", kind="stable")[["step", "question_id", "data_source", "hops"]]


def _as_taken(rows: pd.DataFrame | None, seen: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
    """The rows in the order in which RL takes them, by what that order is, in words."""
    if seen is None:
        assert rows is not None
        return {"the table that RL reads": rows}
    # Within a step there is no order: the log sorts by question. Any will do, but a fair one must not be sorted.
    mixed = seen.sample(frac=1, random_state=0).sort_values("step", kind="stable").drop_duplicates("question_id")
    if rows is None:
        return {"the rows that the steps took": mixed}
    by_step = [set(part["question_id"]) for _, part in seen.groupby("step")]
    sizes = np.cumsum([len(ids) for ids in by_step])
    ids = list(rows["id"])
    starts = [0, *sizes[:-1]]
    if all(set(ids[start:end]) == of for start, end, of in zip(starts, sizes, by_step, strict=True)):
        return {"the table, which the steps took from its first row on": rows}
    known = rows.set_index("id")
    rest = rows[~rows["id"].isin(mixed["question_id"])].sample(frac=1, random_state=0)
    taken = known.reindex(mixed["question_id"]).reset_index(names="id")
    for name in ("data_source", "hops"):
        taken[name] = mixed[name].to_numpy()
    return {
        "the rows that the steps took": taken,
        "the rows that the steps took, before all others": pd.concat([taken, rest], ignore_index=True),
        "the table, which is not what the steps took": rows,
    }


def _plot(seen: pd.DataFrame | None) -> Plot | None:
    if seen is None or seen["step"].nunique() < 2:
        return None
    shares = pd.crosstab(seen["step"], seen["data_source"], normalize="index")
    lines = {str(name): [(int(step), float(share)) for step, share in shares[name].items()] for name in shares}
    return Plot("share of a step's questions by data source", lines)
