"""What an RL run would be, without one: verl's whole configuration, what of it is not verl's default, the batches."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console

from tasks.errors import InputError
from tasks.params import Params
from tasks.training.batches import Batches
from tasks.training.machine import has_gpu
from tasks.training.made_with import at, changed_since
from tasks.training.overrides import flatten, hydra_overrides
from tasks.training.rl_config import RlFiles, bucket_megabytes, rl_settings
from tasks.training.verl_schema import classes, owned

MODEL = Path("data/sft/model")
ROWS = Path("data/demos/rl_train.parquet")
RUN = Path("checkpoints/FINGERPRINT")  # hashed from the inputs, which may not be there yet
BY_STAGE, BY_USER = "stage rl", "verl"
WIDEST = 60  # characters of a cell; the whole value stands in the configuration above
Row = tuple[str, str, str, str]  # key, value, verl's default, set by


def composed(overrides: Sequence[str]) -> DictConfig:
    """Verl's configuration for RL, as `verl.trainer.main_ppo` composes it."""
    with initialize_config_dir(str(classes.package() / "trainer" / "config"), version_base=None):
        return compose("ppo_trainer", list(overrides))


def check_by_verl(config: DictConfig, *, critic: bool) -> None:
    """Verl's own checks of its start (trainer/main_ppo.py:177), and those of its dataclasses.

    Args:
        config: verl's configuration.
        critic: whether one is trained.

    Raises:
        InputError: one of them fails; the line is verl's.
    """
    from verl.trainer.ppo.utils import need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    checked = config.copy()
    with open_dict(checked):
        del checked.critic.model["_target_"]  # whose object would load the model
    sections = ["algorithm", "actor_rollout_ref.rollout"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # it prints that all is well
            validate_config(checked, use_reference_policy=need_reference_policy(checked), use_critic=critic)
            for section in sections:
                omega_conf_to_dataclass(OmegaConf.select(checked, section))
    except (AssertionError, ValueError, TypeError, NotImplementedError, HydraException) as error:
        said = str(error.__cause__ or error).strip() or type(error).__name__
        raise InputError(f"verl refuses its configuration: {said.splitlines()[0]}") from None


class DryRun:
    """An RL run as the parameters say it, and as far as its inputs are there.

    Args:
        params: all parameters, checked.
        preset: what the preset of `rl.algorithm` sets.

    Raises:
        InputError: verl refuses it, or sizes do not divide.
    """

    def __init__(self, params: Params, preset: Mapping[str, Any]) -> None:
        self.params, self._preset = params, dict(flatten(preset))
        written = params.model_dump(by_alias=True, exclude_unset=True)
        self._changed_since = {path: changed_since(stage, written) for path, stage in ((MODEL, "sft"), (ROWS, "demos"))}
        self.missing = [path for path, changed in self._changed_since.items() if changed or not path.exists()]
        dtype, bucket = params.policy.dtype, 64
        if MODEL not in self.missing:
            dtype = json.loads((MODEL / "config.json").read_text(encoding="utf-8"))["dtype"]
            bucket = bucket_megabytes(MODEL)
        paths = (MODEL, ROWS, RUN / "validation.parquet", RUN / "agent_loop.yaml", RUN / "verl")
        files = RlFiles(*(path.absolute() for path in paths))
        self._settings = rl_settings(
            params.rl, params.episode, files, seed=params.seed, dtype=dtype, gpu=has_gpu(), bucket=bucket
        )
        self.config = composed(hydra_overrides(self._settings, params.verl))
        check_by_verl(self.config, critic=params.rl.critic is not None)
        plain: Any = OmegaConf.to_container(self.config, resolve=True)
        questions = None if ROWS in self.missing else _questions()
        self.batches = Batches.of(plain, questions, critic=params.rl.critic is not None)
        self.batches.check()

    def yaml(self) -> str:
        """Verl's resolved configuration."""
        return OmegaConf.to_yaml(self.config, resolve=True)

    def changes(self) -> list[Row]:
        """What is set and is not verl's default; what people change most comes last, where a terminal ends."""
        return sorted(self._changes(), key=lambda row: _rank(row[3]))

    def _changes(self) -> Iterator[Row]:
        default = composed([])
        mine = dict(flatten(self.params.verl))
        for key in dict.fromkeys([*(one.lstrip("+") for one in self._settings), *mine]):
            value, before = (OmegaConf.select(config, key, default="-") for config in (self.config, default))
            if value != before:
                yield key, _shown(value), _shown(before), BY_USER if key in mine else self._set_by(key)

    def _set_by(self, key: str) -> str:
        owner = owned.owner(owned.RL, key)
        if not owner:
            return BY_STAGE
        content = self.params.model_dump(mode="json", by_alias=True)
        for name in re.findall(r"[a-z_]+(?:\.[a-z_]+)+", owner):
            mine = [one for one in self._preset if f"{one}.".startswith(f"{name}.")]
            if mine and all(at(content, one) == self._preset[one] for one in mine):
                return f"{owner} (preset {self.params.rl.algorithm})"
        return owner

    def notes(self) -> Iterator[str]:
        """What stands for what is not there yet."""
        for path in self.missing:
            changed = self._changed_since[path] if path.exists() else []
            why = f", and what is there was made with another {', '.join(changed)}" if changed else ""
            yield f"not made yet: {path}{why}"
        if MODEL in self.missing:
            dtype = self.params.policy.dtype
            yield f"so {dtype}, of policy.dtype, stands for the model's, and 64 MB for its largest tensor"
        yield f"{RUN.name} stands for the hash that the run's state is filed under"


def _questions() -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(ROWS).num_rows)


def _rank(set_by: str) -> int:
    if set_by == BY_STAGE:
        return 0
    if set_by == BY_USER:
        return 4
    return 3 if set_by.endswith(")") else 2 if set_by.startswith("rl.") else 1


def _shown(value: Any) -> str:
    if OmegaConf.is_config(value):
        text = json.dumps(OmegaConf.to_container(value, resolve=True), ensure_ascii=False)
    elif value is None or isinstance(value, bool):
        text = json.dumps(value)
    else:
        text = str(value).removeprefix(f"{Path.cwd()}/")
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."


def show(run: DryRun) -> None:
    """Print it: the configuration first, then what one looks for, which is what a terminal still shows.

    A reader that has seen enough, such as `head`, may leave.
    """
    console = Console(highlight=False)
    try:
        print(run.yaml())
        if console.is_terminal:
            print("Not verl's default:\n")
        for line in table(run.changes(), console.width if console.is_terminal else None):
            print(line)
        print()
        for line in (*run.notes(), *run.batches.lines(run.params.rl)):
            console.print(line, markup=False, soft_wrap=not console.is_terminal)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter's end would fail on it


def table(rows: Sequence[Row], width: int | None) -> list[str]:
    """Lines that never break a key, since one copies it.

    Args:
        rows: as `DryRun.changes` returns them.
        width: of the terminal; where columns do not fit a row takes two lines. None: no limit.
    """
    heading: Row = ("key", "value", "verl's default", "set by")
    widths = [max(map(len, column)) for column in zip(heading, *rows, strict=True)]
    if width is None or sum(widths) + 2 * (len(widths) - 1) <= width:
        return [
            "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
            for row in (heading, *rows)
        ]
    return [line for key, value, default, by in rows for line in (key, f"    {value}   (verl: {default})   {by}")]
