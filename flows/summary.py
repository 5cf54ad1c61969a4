"""What a run of the flow ends with: stages and their times, the models' scores, the decision, where to look next."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from flows.environment import addresses
from flows.stage import Result
from tasks import tracking

# The figures that say most about a stage, by their dotted names in metrics/STAGE.json.
KEY_FIGURES: dict[str, tuple[str, ...]] = {
    "ingest": ("rows.train", "rows.validation", "rows.test"),
    "policy": ("parameters", "vocabulary"),
    "validate": ("passed", "leaked_questions"),
    "index": ("passages", "lowest_recall_at_3"),
    "demos": ("n", "answer_in_context"),
    "sft": ("format_rate", "success_rate", "pass_at_4", "stopped_by"),
    "rl": ("steps", "seconds_per_step", "score_first", "score_last", "selected_step"),
    "merge": ("max_logit_diff", "dtype"),
    "rft": ("n", "steps", "loss_first", "loss_last"),
    "evaluate": ("models.rl.n", "models.rl.em.mean", "comparisons.rl-sft.em.mean", "comparisons.rft-rl.em.mean"),
    "gate": ("decision",),
}
PLACES = (
    ("report", "data/evaluate/report.html"),
    ("data docs", "data/validate/docs/index.html"),
    ("trajectories", "data/evaluate/trajectories.parquet"),
)
CLIMB = "The climb: exact match on validation questions during RL (searches a question)"
_CLIMB_GAP = 2  # characters between the climb's columns
_CLIMB_WIDTH = 100  # characters of the climb in Prefect's UI


def metrics_of(stage: str) -> dict[str, Any]:
    """A stage's latest figures; empty for a stage that writes none."""
    path = Path("metrics", f"{stage}.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def figure(content: dict[str, Any], dotted: str) -> Any:
    """The value at a dotted name, or None."""
    value: Any = content
    for part in dotted.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def shown(value: Any) -> str:
    """A figure in few characters; counts by source are added up."""
    if isinstance(value, dict):
        return shown(sum(value.values()))
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def clock(seconds: float) -> str:
    """Seconds as `3.2 s` or `4 min 05 s`."""
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"


@dataclass(frozen=True)
class Line:
    """One stage in the summary; `earlier` holds the seconds of the run that made its present outputs."""

    stage: str
    state: str
    seconds: float
    earlier: float | None
    figures: str


@dataclass(frozen=True)
class Summary:
    """Everything a run of the flow has to say at its end."""

    lines: list[Line]
    seconds: float
    decision: dict[str, Any] | None
    models: dict[str, Any]
    validation: dict[str, Any]
    run_id: str
    settings: Mapping[str, str]

    @classmethod
    def collect(
        cls,
        results: Sequence[Result],
        seconds: float,
        decision: dict[str, Any] | None,
        run_id: str,
        settings: Mapping[str, str],
    ) -> Summary:
        """Put the results together with the stages' figures and, for skipped stages, their earlier times.

        Args:
            settings: the parameters that were set for this run over its profile, by dotted key.
        """
        lines = []
        for result in results:
            metrics = metrics_of(result.stage)
            found = [(name, figure(metrics, name)) for name in KEY_FIGURES.get(result.stage, ())]
            text = ", ".join(f"{_short(name)} {shown(value)}" for name, value in found if value is not None)
            known = tracking.find_run(metrics["run_id"]) if result.state != "Ran" and "run_id" in metrics else None
            lines.append(Line(result.stage, result.state, result.seconds, known.seconds if known else None, text))
        models, validation = metrics_of("evaluate").get("models", {}), metrics_of("rl").get("validation", {})
        return cls(lines, seconds, decision, models, validation, run_id, settings)

    def rows(self) -> list[dict[str, Any]]:
        """The stages' table for Prefect."""
        return [
            {"stage": x.stage, "state": x.state, "seconds": round(x.seconds, 1), "figures": x.figures}
            for x in self.lines
        ]

    def failed(self) -> list[dict[str, Any]]:
        """The gate's checks that did not pass."""
        return [check for check in (self.decision or {}).get("checks", []) if not check["passed"]]

    def singly(self) -> str:
        """The parameters that were set over the profile, in one line; empty without any."""
        pairs = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        return f"over the profile: {pairs}" if pairs else ""

    def reason(self) -> str:
        """The decision in one line."""
        if self.decision is None:
            return "completed; this DAG has no gate"
        errors = [check["name"] for check in self.failed() if check["severity"] == "error"]
        return f"{self.decision['decision']}: " + (f"failed {', '.join(errors)}" if errors else "every check passed")

    def scores(self) -> Iterator[tuple[str, ...]]:
        """One row a model: name, questions, then figures as mean and interval."""
        for name, model in self.models.items():
            cells = (_interval(model.get(key)) for key in ("em", "f1", "format_rate", "searches", "turns"))
            yield (name, shown(model.get("n", "")), *cells)

    def climb(self, width: int) -> list[tuple[str, ...]]:
        """The climb as a heading and one row a kind of question, one column a validation; empty without validations.

        Where not all of them fit in `width` characters, as many as do are shown, evenly spaced; the first and the
        last always are.
        """
        steps = sorted(self.validation, key=int)
        columns = min(len(steps), max(2, width // len("step 0  ")))  # no column is narrower
        rows = self._climb_at(steps, columns)
        while columns > 2 and _width(rows) > width:
            columns -= 1
            rows = self._climb_at(steps, columns)
        return rows

    def _climb_at(self, steps: Sequence[str], columns: int) -> list[tuple[str, ...]]:
        if not steps:
            return []
        steps = [steps[n * (len(steps) - 1) // max(1, columns - 1)] for n in range(columns)]
        kinds = dict.fromkeys(kind for step in steps for kind in self.validation[step])
        # Beside a single kind, the row of all questions would say the same again.
        rows = [kind for kind in kinds if kind != "all" or len(kinds) > 2]
        return [
            ("questions", *(f"step {step}" for step in steps)),
            *((kind, *(_climbed(self.validation[step].get(kind)) for step in steps)) for kind in rows),
        ]

    def places(self) -> Iterator[tuple[str, str]]:
        """Where to look next."""
        for name, path in PLACES:
            if Path(path).is_file():
                yield name, path
        mlflow = addresses().get("mlflow")
        yield "MLflow", f"{mlflow or 'make ui'}   run {self.run_id}"
        yield "lineage", f"make lineage   or: .venv/bin/python -m tasks.lineage {self.run_id}"
        yield "outputs", ".forager/logs/STAGE.log"

    def show(self) -> None:
        """Print the summary on the terminal."""
        console = Console(highlight=False)
        stages = Table(title="Stages", title_justify="left", title_style="bold")
        for name, justify in (("stage", "left"), ("state", "left"), ("time", "right"), ("key figures", "left")):
            stages.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
        for line in self.lines:
            earlier = f" (ran {clock(line.earlier)})" if line.earlier is not None else ""
            style = "green" if line.state == "Ran" else "cyan" if line.state == "Restored" else "dim"
            stages.add_row(line.stage, f"[{style}]{line.state}[/]", f"{clock(line.seconds)}{earlier}", line.figures)
        console.print(stages)
        if climb := self.climb(console.width):
            # Not the table's title, which would be broken to the width of a table of few columns.
            console.print(f"[bold]{CLIMB}[/]")
            # Without lines between the columns, five or six validations fit on 80 characters.
            table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
            for name in climb[0]:
                table.add_column(name, justify="left" if name == "questions" else "right")
            for row in climb[1:]:
                table.add_row(*row)
            console.print(table)
        if self.models:
            models = Table(title="Held-out questions, mean and interval", title_justify="left", title_style="bold")
            for name in ("model", "n", "EM", "F1", "format", "searches", "turns"):
                models.add_column(name, justify="left" if name == "model" else "right")
            for row in self.scores():
                models.add_row(*row)
            console.print(models)
        console.print(f"total time {clock(self.seconds)}")
        if singly := self.singly():
            console.print(singly, markup=False)
        if self.decision is not None:
            colour = "green" if self.decision["decision"] == "released" else "red"
            console.print(f"[bold {colour}]{self.reason()}[/]")
        for check in self.failed():
            console.print(f"  {_failed(check)}", markup=False)
        places = Table.grid(padding=(0, 2))
        for name, place in self.places():
            places.add_row(f"  {name}", place)
        console.print("[bold]Where to look next[/]")
        console.print(places)

    def markdown(self) -> str:
        """The same for Prefect's UI."""
        text = [
            f"**{self.reason()}**, {clock(self.seconds)}",
            *([f"\n`{singly}`"] if (singly := self.singly()) else []),
            "",
            "| stage | state | time | figures |",
            "| --- | --- | --- | --- |",
        ]
        text += [f"| {x.stage} | {x.state} | {clock(x.seconds)} | {x.figures} |" for x in self.lines]
        if climb := self.climb(_CLIMB_WIDTH):
            text += ["", f"{CLIMB}:", "", f"| {' | '.join(climb[0])} |", "| --- " * len(climb[0]) + "|"]
            text += [f"| {' | '.join(row)} |" for row in climb[1:]]
        if self.models:
            text += [
                "",
                "| model | n | EM | F1 | format | searches | turns |",
                "| --- | --- | --- | --- | --- | --- | --- |",
            ]
            text += [f"| {' | '.join(row)} |" for row in self.scores()]
        text += ["", *(f"- {_failed(check)}" for check in self.failed())]
        text += ["", *(f"- {name}: {place}" for name, place in self.places())]
        return "\n".join(text)


def _short(dotted: str) -> str:
    parts = [part for part in dotted.split(".") if part not in ("mean", "models", "comparisons")]
    return " ".join(parts[-2:])


def _failed(check: dict[str, Any]) -> str:
    """A check that did not pass: what was asked, and what is short and by how much."""
    return f"{check['severity']}: {check['name']}: `{check['expression']}`: {check['reason']}"


def _width(rows: Sequence[Sequence[str]]) -> int:
    """Characters that the rows take as a table on the terminal."""
    return sum(max(map(len, column)) + _CLIMB_GAP for column in zip(*rows, strict=True)) - _CLIMB_GAP


def _climbed(value: dict[str, float] | None) -> str:
    """Exact match and searches as `.12 (1.0)`."""
    return f"{value['em']:.2f} ({value['searches']:.1f})".removeprefix("0") if value else "-"


def _interval(value: dict[str, float] | None) -> str:
    if not value or value.get("mean") is None:
        return "-"
    if value.get("low") is None or value.get("high") is None:
        return f"{value['mean']:.3f}"
    return f"{value['mean']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"
