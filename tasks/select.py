"""Which questions of an RL run have taught most? Learning-impact selection (LIMR), as a data set of its own.

    python -m tasks.select [--rollouts DIR] [--random] [--out FILE]

A question whose success rises as that of all questions does is taken to have taught most (Li et al. 2025, arXiv
2502.11886). The file serves ingest's reader `jsonl` and `demos.rl_questions`. Decided: the curve is of successes,
not of the shaped reward, whose parts for form would let every curve rise. `--random` writes as many questions drawn
by seed instead: a selection is worth what it gains over that. docs/selection.md has more.

Exit codes: 0; 2: wrong input.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tasks.quiet  # noqa: F401  before any engine is imported
from tasks import params, tracking
from tasks.errors import InputError, exit_on_input_error
from tasks.files import output_file
from tasks.params import Params
from tasks.selection import curves, impact, table

ROLLOUTS = Path("data/rl/rollouts")
LIMR, RANDOM = Path("data/sources/limr.jsonl"), Path("data/sources/random.jsonl")
TRAIN, RL_TRAIN = Path("data/ingest/train.parquet"), Path("data/demos/rl_train.parquet")


def select(settings: Params, rollouts: Path, out: Path, *, at_random: bool) -> None:
    """Write the selection, say what it is, and keep it in MLflow.

    Raises:
        InputError: the log is missing or of fewer than two whole epochs, or nothing tells the questions apart.
    """
    own = rollouts.resolve() == ROLLOUTS.resolve()
    found = curves.read(rollouts, asked=_asked(settings) if own else None)
    values = impact.impacts(found.shares)
    if np.ptp(values) == 0:
        raise InputError(
            f"all {len(found.ids)} questions have the same impact, {values[0]:g}: nothing tells them apart",
            where=str(rollouts),
            mend="take a run in which some questions are learnt and others are not",
        )
    theta, share = settings.select.theta, settings.select.share
    taken = impact.chosen(found.ids, values, theta=theta, share=share)
    if not taken:
        raise InputError(
            f"no question has an impact of at least {theta:g}; the highest is {values.max():.3f}",
            where="select.theta",
            mend="lower it, or set select.share",
        )
    best = len(taken)
    if at_random:
        taken = impact.control(found.ids, best, settings.seed)
    unknown = table.write(out, found, values, taken, table.rows_by_id(TRAIN))
    for line in summary(found, values, taken):
        print(f"select: {line}", flush=True)
    how = f"the best {share:g}" if share is not None else f"impact >= {theta:g}"
    if at_random:
        print(f"select: {len(taken)} drawn at random, as many as the selection has ({how}: {best})", flush=True)
    else:
        print(f"select: {len(taken)} of {len(found.ids)} questions taken ({how})", flush=True)
    if unknown:
        print(f"select: {unknown} of them are not in {TRAIN}: written without titles and passages", flush=True)
    figures = {"questions": len(found.ids), "taken": len(taken), "epochs": found.shares.shape[1], "short": found.short}
    sections = {"seed": settings.seed, "select": settings.select.model_dump(mode="json"), "random": at_random}
    with tracking.stage_run("select", sections, settings.profile, ("ingest", "rl") if own else ()) as run:
        run.log_figures({**figures, "impact_mean": float(values[taken].mean())})
        run.log_data(out, str(out), "select", hashlib.sha256(out.read_bytes()).hexdigest())
        run.log_artifact(out)
    print(out)


def summary(found: curves.Curves, values: np.ndarray, taken: Sequence[int]) -> list[str]:
    """Lines on the epochs, the impacts, and the mean success of those taken and of the others, by epoch."""
    n, epochs = found.shares.shape
    others = sorted(set(range(n)) - set(taken))
    least, low, middle, high, most = np.quantile(values, (0, 0.25, 0.5, 0.75, 1))
    lines = [
        f"{n} questions in {epochs} whole epochs; {found.short} with fewer visits are left out, "
        f"{found.late} later visits are not counted",
        f"impact {least:.2f} to {most:.2f}; quartiles {low:.2f}, {middle:.2f}, {high:.2f}",
    ]
    for name, part in (("all", range(n)), ("taken", taken), ("others", others)):
        if part:
            curve = " > ".join(f"{mean:.2f}" for mean in found.shares[list(part)].mean(axis=0))
            lines.append(f"success by epoch, {name}: {curve}")
    return lines


def _asked(settings: Params) -> int | None:
    """How many questions an epoch of this workspace's run has, where its rows say so.

    verl's loader drops what does not fill a step, and without shuffling these are the same questions every time
    (trainer/ppo/v1/trainer_base.py:747, `drop_last`).
    """
    if not RL_TRAIN.is_file():
        return None
    import pyarrow.parquet as pq

    rows = int(pq.read_metadata(RL_TRAIN).num_rows)
    return rows - rows % settings.rl.prompts


def main(arguments: Sequence[str]) -> int:
    """Select, by the parameters in force."""
    parser = argparse.ArgumentParser(prog="python -m tasks.select", description="The questions that taught RL most.")
    parser.add_argument("--rollouts", type=Path, default=ROLLOUTS, help=f"a run's rollout log (default {ROLLOUTS})")
    parser.add_argument("--random", action="store_true", help="as many questions drawn at random, for a control")
    parser.add_argument("--out", type=output_file, help=f"the file (default {LIMR}; with --random {RANDOM})")
    options = parser.parse_args(arguments)
    with exit_on_input_error("select"):
        settings = params.typed(params.resolve_in_force(), where="params")
        out = options.out or (RANDOM if options.random else LIMR)
        select(settings, options.rollouts, out, at_random=options.random)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
