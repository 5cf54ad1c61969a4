"""Benchmarks that are commands of their own: `evaluate.outside` names them, the last line that they print is scores."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tasks.errors import CrashError, InputError
from tasks.evaluation.jobs import Model
from tasks.files import read_json, write_json
from tasks.params.judging import Outside
from tasks.processes import CommandError, end_leftovers, last_lines, run_supervised

PLACE = "{model}"
MARK = "FORAGER_BENCHMARK"  # in the environment of a benchmark's processes
_SAID = 5  # lines of a benchmark that has failed
_SHOWN = 200
# MLflow's metrics and the gate's expressions take such names.
_NAME = re.compile(r"[A-Za-z0-9_-]+")


def check(wanted: Mapping[str, Outside], models: Mapping[str, Model]) -> None:
    """Refuse what can't be run, before anything is played.

    Args:
        wanted: `evaluate.outside`.
        models: by name.

    Raises:
        InputError: a benchmark's name is no name of a figure, its program isn't there, it measures a model that there
            isn't, or its command doesn't name the model's folder.
    """
    for name, one in wanted.items():
        where = f"evaluate.outside.{name}"
        if not _NAME.fullmatch(name):
            raise InputError("not a name of a figure", where=where, mend="use letters, digits, - and _")
        unknown = [model for model in one.models if model not in models]
        if unknown:
            raise InputError(
                f"no model {unknown[0]!r}", where=f"{where}.models", mend=f"there are: {', '.join(models)}"
            )
        if not any(PLACE in word for word in one.command):
            raise InputError(
                f"the command does not say which model: {PLACE} is in no word", where=f"{where}.command", mend="add it"
            )
        if shutil.which(one.command[0]) is None:
            mend = "install it, or write its whole path"
            raise InputError(f"no program {one.command[0]!r}", where=f"{where}.command", mend=mend)


def run(
    wanted: Mapping[str, Outside], models: Mapping[str, Model], *, folder: Path, say: Callable[[str], None]
) -> dict[str, dict[str, dict[str, float]]]:
    """Run every benchmark on its models; what an earlier, killed run has finished is not run again.

    Args:
        wanted: `evaluate.outside`, checked.
        models: by name; their folders are absolute.
        folder: keeps scores and what the commands print.
        say: takes a line of progress.

    Returns:
        `{BENCHMARK: {MODEL: {SCORE: number}}}`

    Raises:
        CrashError: a command could not be started, failed, ran out of time, or printed no scores; the line says which
            and its last words.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, one in wanted.items():
        for model in one.models:
            # Under the digest as well: a champion may have changed since.
            kept = folder / f"{name}-{models[model].place}.json"
            if not kept.exists():
                say(f"outside: {name} of {model}")
                write_json(kept, _run(name, model, one, models[model].folder, folder))
            scores = read_json(kept)
            say(f"outside: {name} of {model}: " + ", ".join(f"{key} {value:g}" for key, value in scores.items()))
            found.setdefault(name, {})[model] = scores
    return found


def _run(name: str, model: str, wanted: Outside, at: Path, folder: Path) -> dict[str, float]:
    log, printed = folder / f"{name}-{model}.log", folder / f"{name}-{model}.stdout"
    command = [word.replace(PLACE, str(at)) for word in wanted.command]
    log.unlink(missing_ok=True)
    try:
        run_supervised(
            command, log=log, stdout=printed, timeout=wanted.seconds, environment={MARK: str(folder.absolute())}
        )
        return read_scores(printed.read_bytes())
    except CommandError as error:
        told = str(error).partition("\n")[0]
    except OSError as error:
        told = f"cannot be started: {error}"
    except ValueError as error:
        told = f"{error}; output: {printed}"
    finally:
        # What a benchmark leaves running would hold memory that the next one needs.
        end_leftovers(folder.absolute(), mark=MARK)
    words = "\n".join(line[-_SHOWN:] for line in last_lines(log, _SAID).splitlines()) if log.exists() else ""
    raise CrashError(f"benchmark {name} of {model}: {told}" + (f"\nits last words:\n{words}" if words else ""))


def read_scores(printed: bytes) -> dict[str, float]:
    """Scores out of what a benchmark has printed: an object of numbers in JSON, as the last line that isn't blank.

    Raises:
        ValueError: there is none; the message says what is there instead.
    """
    lines = printed.decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), None)
    if last is None:
        raise ValueError("printed nothing, and its last line should be scores as JSON")
    try:
        scores = json.loads(last)
    except (ValueError, RecursionError):
        raise ValueError(f"its last line is not JSON: {last[:_SHOWN]!r}") from None
    if not isinstance(scores, dict) or not scores:
        raise ValueError(f"its last line is not {{score: number, ...}}: {last[:_SHOWN]!r}")
    return {key: _score(key, value) for key, value in scores.items()}


def _score(key: str, value: Any) -> float:
    if not _NAME.fullmatch(key):
        raise ValueError(f"score {key[:_SHOWN]!r} is not a name of letters, digits, - and _")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"score {key!r} is not a number: {json.dumps(value)[:_SHOWN]}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"score {key!r} is not a finite number: {str(value)[:_SHOWN]}")
    return number
