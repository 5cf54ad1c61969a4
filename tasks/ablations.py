"""What an ablation shows: a table with intervals, a picture over the RL steps, and all figures as JSON.

    python -m tasks.ablations [--runs RUN,...] [--results DIR] [--out FILE.png] [--json FILE.json]

It reads the last ablation in MLflow, or the runs that are named, or a folder of results, one JSON file a run.
`make ablations` makes them. docs/ablations.md says how to read them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from tasks.ablation import drawing, result, table, tracked
from tasks.ablation.comparing import CONFIDENCE
from tasks.ablation.result import Result
from tasks.errors import exit_on_input_error
from tasks.evaluation.charts import LIGHT, write_png
from tasks.files import output_file, write_json

PICTURE = Path("docs/images/ablations.png")
FIGURES = Path("docs/results/ablations.json")


def published(results: Sequence[Result], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All figures of an ablation, with what it takes to have them again."""
    seeds = sorted({one.seed for one in results})
    arms = ",".join(row["arm"] for row in rows)
    (profile,) = {one.profile for one in results}
    command = f"python -m flows.ablations --profile {profile} --seeds {','.join(map(str, seeds))} --arms {arms}"
    return {
        "command": command,
        "machines": sorted({one.machine for one in results}),
        "commits": sorted({one.commit for one in results}),
        "profile": profile,
        "questions": len(results[0].questions.id),
        "confidence": CONFIDENCE,
        "arms": list(rows),
    }


def main(arguments: Sequence[str]) -> int:
    """Compare the arms of an ablation: a table, a picture, and the figures."""
    parser = argparse.ArgumentParser(prog="python -m tasks.ablations", description=main.__doc__)
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--runs", default=tracked.LATEST, help="ids of ablations' runs in MLflow, commas between (default: latest)"
    )
    source.add_argument("--results", type=Path, help="a folder of results instead, one JSON file a run")
    parser.add_argument("--out", type=output_file, default=PICTURE, help=f"the PNG file (default {PICTURE})")
    parser.add_argument("--json", type=output_file, default=FIGURES, help=f"the figures' file (default {FIGURES})")
    given = parser.parse_args(arguments)
    with exit_on_input_error("ablations"):
        results = result.read(given.results) if given.results else tracked.read(given.runs.split(","))
        rows = table.rows(results)
        with mpl.rc_context(LIGHT.style()):
            write_png(drawing.draw(results), given.out)
        write_json(given.json, published(results, rows))
    print(f"{table.markdown(rows)}\n")
    if note := table.commits(rows):
        print(note)
    print(given.out)
    print(given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
