"""Where a model comes from: version > stage runs > parameters > data hashes > git commit.

    python -m tasks.lineage              the champion
    python -m tasks.lineage 3            version 3
    python -m tasks.lineage RUN_ID       a flow's, a stage's or a release action's run

A stage that was skipped keeps the run that made its outputs, so the chain holds for cached stages too. A run that
this workspace's MLflow does not know was made in another clone and came with dvc.lock and metrics/.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import yaml
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from tasks import params, tracking
from tasks.contract import UPSTREAM
from tasks.errors import InputError, exit_on_input_error
from tasks.release import registry


def defaults() -> dict[str, str]:
    """The default parameters as MLflow keeps them: dotted names and text."""
    content = yaml.safe_load(params.DEFAULTS.read_text(encoding="utf-8"))
    return {key: _text(value) for key, value in tracking.flatten(content)}


def _text(value: Any) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)


def changed_params(record: tracking.Record, default: dict[str, str]) -> dict[str, str]:
    """Parameters of a run that differ from the defaults."""
    return {key: value for key, value in sorted(record.params.items()) if default.get(key) != value}


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _add_stage(tree: Tree, stage: str, run_id: str, hashes: dict[str, str], default: dict[str, str]) -> None:
    record = tracking.find_run(run_id)
    if record is None:
        node = tree.add(f"[bold]{stage}[/]  run {run_id}  [yellow]foreign (another clone)[/]")
    else:
        took = f"{record.seconds:.0f} s" if record.seconds is not None else "no end"
        node = tree.add(f"[bold]{stage}[/]  run {run_id}  {record.status.lower()}  {_when(record.started)}  {took}")
        node.add(f"git commit {record.tags.get('git.commit', 'unknown')}")
        changed = changed_params(record, default)
        section = node.add(f"parameters: {len(record.params)}, of them not the default: {len(changed)}")
        for key, value in changed.items():
            section.add(escape(f"{key} = {value}  (default {default.get(key, 'none')})"))
        for path, digest in sorted(record.data.items()):
            node.add(f"read {path}  {digest}")
    for path, digest in sorted(hashes.items()):
        if path == f"data/{stage}":
            node.add(f"made {path}  {digest}")


def _add_stages(tree: Tree, tags: dict[str, str], hashes: dict[str, str], last: str | None = None) -> None:
    default = defaults()
    runs = {key.removeprefix("run."): value for key, value in tags.items() if key.startswith("run.")}
    runs |= {key.removeprefix("parent."): value for key, value in tags.items() if key.startswith("parent.")}
    if last is not None:
        runs[last] = tags["_run_id"]
    ordered = [stage for stage in UPSTREAM if stage in runs] + [stage for stage in runs if stage not in UPSTREAM]
    for stage in ordered:
        _add_stage(tree, stage, runs[stage], hashes, default)


def _hashes(tags: dict[str, str]) -> dict[str, str]:
    return {key.removeprefix("hash."): value for key, value in tags.items() if key.startswith("hash.")}


def version_tree(version: registry.Version) -> Tree:
    """The chain of a registered version."""
    aliases = f" ({', '.join(version.aliases)})" if version.aliases else ""
    tree = Tree(f"[bold]{registry.MODEL} version {version.number}[/]{aliases}  {_when(version.created)}")
    tree.add(f"model {version.tags['model.path']}  {version.tags['model.hash']}")
    tree.add(f"profile {version.tags['profile']}, git commit {version.tags['git.commit']}")
    _add_stages(tree, version.tags, _hashes(version.tags))
    return tree


def run_tree(record: tracking.Record) -> Tree:
    """The chain of a run: of a flow or a release the stages' runs, of a stage the runs it builds on and itself."""
    stage = record.tags.get("stage")
    kind = f"stage {stage}" if stage else record.tags.get("kind", "run")
    tree = Tree(f"[bold]{kind}[/]  run {record.run_id}  {record.status.lower()}  {_when(record.started)}")
    tree.add(f"profile {record.tags.get('profile', 'unknown')}, git commit {record.tags.get('git.commit', 'unknown')}")
    _add_stages(tree, {**record.tags, "_run_id": record.run_id}, _hashes(record.tags), last=stage)
    return tree


def resolve(name: str) -> Tree:
    """The chain of what `name` means.

    Raises:
        InputError: there is no such version or run.
    """
    if name == registry.CHAMPION:
        version = registry.by_alias(registry.CHAMPION)
        if version is None:
            raise InputError("there is no champion yet", mend="name a run instead; the gate has released none here")
        return version_tree(version)
    if name.isdecimal() and len(name) < 32:
        version = registry.by_number(int(name))
        if version is None:
            raise InputError(f"there is no version {name} of {registry.MODEL}")
        return version_tree(version)
    record = tracking.find_run(name)
    if record is None:
        raise InputError(
            f"no version, alias or run of this workspace: {name!r}", mend="say champion, a version's number or a run id"
        )
    return run_tree(record)


def main(arguments: Sequence[str]) -> int:
    """Print the chain of the champion, a version or a run."""
    with exit_on_input_error("lineage"):
        if len(arguments) > 1:
            raise InputError("one name at most", mend="python -m tasks.lineage [champion|VERSION|RUN_ID]")
        # Into a pipe or a file a line is never broken.
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 240)
        console.print(resolve(arguments[0] if arguments else registry.CHAMPION))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
