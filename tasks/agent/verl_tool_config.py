"""The file that makes verl's own ToolAgentLoop use our tools: `python -m tasks.agent.verl_tool_config OUT.yaml`.

OUT.yaml is for `actor_rollout_ref.rollout.multi_turn.tool_config_path`. Beside it lies OUT.json with what the tools are
opened from, the sections of the profile in force and the index; verl's workers
read it when they open `tasks.agent.verl_tools.ForagerTool`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tasks import params as parameters
from tasks.errors import InputError, exit_on_input_error
from tasks.files import write_json, write_text_aside
from tasks.params import Playing

_READ = ("hermes", "qwen3_coder")  # formats that verl's loop has in common with us


def write_tool_config(path: Path, content: Mapping[str, Any]) -> None:
    """Write the file that names the tools, and beside it the one that they are opened from.

    Args:
        path: the YAML file to write; the other has its name and ends in `.json`.
        content: the sections that episodes are played by as plain values, and `index`, the index' folder.

    Raises:
        InputError: verl's ToolAgentLoop cannot read the protocol, or the tools' server is not there yet.
    """
    protocol, tools = content["episode"]["protocol"], content["tools"]
    if protocol not in _READ:
        raise InputError(
            f"verl's ToolAgentLoop cannot read {protocol!r}", where="episode.protocol", mend=" or ".join(_READ)
        )
    if tools["server"] == "start":
        raise InputError(
            "no stage starts the server for verl's own loop",
            where="tools.server",
            mend="start one with python -m tasks.tool_server and name its address, or say null",
        )
    if path.suffix not in (".yaml", ".yml"):
        raise InputError("must end in .yaml", where=str(path))
    settings = path.absolute().with_suffix(".json")
    write_json(settings, content)
    made = [
        {
            "class_name": "tasks.agent.verl_tools.ForagerTool",
            "config": {"type": "native", "name": name, "settings": str(settings)},
        }
        for name in tools["names"]
    ]
    write_text_aside(path, yaml.safe_dump({"tools": made}, sort_keys=False))


def run(arguments: Sequence[str] | None = None) -> None:
    """The command's body; ends with code 2 and one line when the parameters are none for verl's loop."""
    parser = argparse.ArgumentParser("python -m tasks.agent.verl_tool_config", description=__doc__)
    parser.add_argument("out", type=Path, metavar="OUT.yaml")
    parser.add_argument("--index", type=Path, default=Path("data/index"), help="folder of the retrieval index")
    given = parser.parse_args(arguments)
    with exit_on_input_error("verl_tool_config"):
        if not given.index.is_dir():
            raise InputError("no such folder", where=str(given.index), mend="run `dvc repro index`")
        content = parameters.resolve_in_force()
        sections = {name: content[name] for name in Playing.model_fields}
        write_tool_config(given.out, {**sections, "index": str(given.index.absolute())})


if __name__ == "__main__":
    run()
