"""The table of an ablation: a row an arm, its figures as data and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tasks.ablation.comparing import Difference, difference, exact_match, gain
from tasks.ablation.result import REWARD, Result
from tasks.errors import InputError
from tasks.evaluation.intervals import Interval
from tasks.params.arms import BASELINE, CORE


def by_arm(results: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each arm, seeds ascending; the baseline first, then `CORE`, then the rest by name.

    Raises:
        InputError: there is no baseline, or the results are of several profiles.
    """
    profiles = sorted({one.profile for one in results})
    if len(profiles) > 1:
        raise InputError(f"of several profiles: {', '.join(profiles)}", where="results", mend="compare one at a time")
    names = {one.arm for one in results}
    if BASELINE not in names:
        raise InputError(f"no arm {BASELINE!r} to compare with", where="results", mend="run `make ablations`")
    ordered = [name for name in CORE if name in names] + sorted(names - set(CORE))
    return {name: sorted((one for one in results if one.arm == name), key=lambda one: one.seed) for name in ordered}


def rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The figures of every arm as plain data.

    Returns:
        by arm: `{"arm", "seeds", "em": {"base" | "sft" | "rl": {"mean", "low", "high"}}, "em_by_seed", "gain": {...},
        "difference": {"mean", "low", "high", "by_seed", "paired", "verdict"} | None, "hardest": {"hops", "sft", "rl"},
        "searches": {"sft", "rl"}, "format_rate", "reward": {"first", "last"}, "seconds_per_step",
        "generations_per_batch", "commits"}`; the difference is None of the baseline, and where no seed is shared
    """
    arms = by_arm(results)
    return [_row(name, of, arms[BASELINE]) for name, of in arms.items()]


def _row(name: str, results: list[Result], baseline: list[Result]) -> dict[str, Any]:
    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    compared = None if name == BASELINE else difference(results, baseline)
    return {
        "arm": name,
        "seeds": [one.seed for one in results],
        "em": {model: exact_match(results, model).plain() for model in ("base", "sft", "rl")},
        "em_by_seed": {one.seed: mean(one.models["rl"].em) for one in results},
        "gain": gain(results).plain(),
        "difference": None if compared is None else _plain(compared),
        "hardest": {
            "hops": max(results[0].questions.hops),
            **{model: mean([_hardest(one, model) for one in results]) for model in ("sft", "rl")},
        },
        "searches": {model: mean([one.models[model].searches for one in results]) for model in ("sft", "rl")},
        "format_rate": mean([one.models["rl"].format_rate for one in results]),
        "reward": {
            end: mean([one.steps[n].data[REWARD] for one in results]) for end, n in (("first", 0), ("last", -1))
        },
        "seconds_per_step": mean([one.seconds_per_step for one in results]),
        "generations_per_batch": mean([one.generations_per_batch for one in results]),
        "commits": sorted({one.commit for one in results}),
    }


def _plain(found: Difference) -> dict[str, Any]:
    return {
        **found.interval.plain(),
        "by_seed": dict(found.by_seed),
        "paired": found.paired,
        "verdict": found.verdict,
    }


def _hardest(result: Result, model: str) -> float:
    """Exact match on the questions of the most hops."""
    hops = np.array(result.questions.hops)
    return float(np.array(result.models[model].em)[hops == hops.max()].mean())


def markdown(found: Sequence[dict[str, Any]]) -> str:
    """The figures as a table in Markdown, and below it what is no figure of the table's own.

    Args:
        found: what `rows` has returned.
    """
    hops = found[0]["hardest"]["hops"]
    titles = [
        "arm", "EM of RL by seed", "EM of RL", "RL - SFT", "RL - baseline's RL", "verdict", f"EM of {hops} hops",
        "searches", "reward, first > last step", "s a step", "generations a batch",
    ]  # fmt: skip
    lines = [titles, ["---"] * len(titles), *(_cells(row) for row in found)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: dict[str, Any]) -> list[str]:
    compared = row["difference"]
    return [
        row["arm"],
        ", ".join(f"{value:.3f}" for value in row["em_by_seed"].values()),
        _interval(row["em"]["rl"], ".3f"),
        _interval(row["gain"], "+.3f"),
        "-" if compared is None else _interval(compared, "+.3f"),
        _verdict(row),
        f"{row['hardest']['rl']:.3f}",
        f"{row['searches']['rl']:.2f}",
        f"{row['reward']['first']:.3f} > {row['reward']['last']:.3f}",
        f"{row['seconds_per_step']:.1f}",
        f"{row['generations_per_batch']:.2f}",
    ]


def _interval(of: dict[str, Any], form: str) -> str:
    found = Interval(of["mean"], of["low"], of["high"])
    return f"{found.mean:{form}} [{found.low:{form}}, {found.high:{form}}]"


def _verdict(row: dict[str, Any]) -> str:
    compared = row["difference"]
    if compared is None:
        return "" if row["arm"] == BASELINE else "no seed in common with the baseline"
    notes = [] if compared["paired"] == "question" else ["other questions than the baseline's"]
    if len(compared["by_seed"]) == 1:
        notes.append("on this one seed")
    return ", ".join([compared["verdict"], *notes])


def commits(found: Sequence[dict[str, Any]]) -> str:
    """One line that says so when the arms were not all run with one commit of the code; empty when they were."""
    names: dict[str, list[str]] = {}
    for row in found:
        for commit in row["commits"]:
            names.setdefault(commit, []).append(row["arm"])
    if len(names) == 1:
        return ""
    told = "; ".join(f"{commit} {', '.join(of)}" for commit, of in names.items())
    return f"not all of one commit, so the code may differ as well: {told}"
