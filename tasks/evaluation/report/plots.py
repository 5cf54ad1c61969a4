"""Tables for `dvc plots`, which draws them for several runs side by side; dvc.yaml says how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tasks.evaluation import climb


def write_plots(folder: Path, figures: Mapping[str, Any], validation: climb.Validation) -> None:
    """Write the tables.

    - `climb/KIND.csv`: `step, em, searches`, a row a validation; a file a kind of question, as the profile has them.
    - `models.csv`: `model` and the mean of every figure, a row a model.
    - `slices.csv`: `slice` (with the model's name) and the means of its figures, a row a model and slice.

    Args:
        folder: is made.
        figures: the evaluation's.
        validation: RL's validations, as `climb.read` returns them.
    """
    kinds = folder / "climb"
    kinds.mkdir(parents=True)
    for kind, points in climb.climbs(validation).items():
        rows = [{"step": point.step, "em": point.em.mean, "searches": point.searches} for point in points]
        pd.DataFrame(rows).to_csv(kinds / f"{kind.replace('/', '-')}.csv", index=False)
    models = [{"model": name, **_means(found)} for name, found in figures["models"].items()]
    pd.DataFrame(models).to_csv(folder / "models.csv", index=False)
    slices = [
        {"slice": f"{label}, {name}", **_means(found)}
        for name, labels in figures["slices"].items()
        for label, found in labels.items()
    ]
    pd.DataFrame(slices).sort_values("slice").to_csv(folder / "slices.csv", index=False)


def _means(found: Mapping[str, Any]) -> dict[str, float]:
    return {metric: at["mean"] for metric, at in found.items() if isinstance(at, Mapping)}
