"""The command that writes what verl's own loop takes; test_verl_tools.py has verl open it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks import params
from tasks.agent.verl_tool_config import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "protocols.md"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A project's folder with an index and a profile of its own."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    (tmp_path / "data" / "index").mkdir(parents=True)
    (tmp_path / "params" / "profile.yaml").write_text("profile: mine\n")
    monkeypatch.chdir(tmp_path)

    def of(**sections: Any) -> Path:
        (tmp_path / "params" / "mine.yaml").write_text(yaml.safe_dump(sections))
        return tmp_path

    return of


def test_the_documented_command_writes_tools_and_what_they_are_opened_from(project: Any) -> None:
    folder = project(episode={"protocol": "hermes", "tool_seconds": 3.0})
    page = PAGE.read_text(encoding="utf-8")
    (arguments,) = re.findall(r"^python -m tasks\.agent\.verl_tool_config (.+)$", page, re.MULTILINE)
    run(arguments.split())
    (named,) = re.findall(r"^actor_rollout_ref\S+\.tool_config_path=\$PWD/(\S+)$", page, re.MULTILINE)
    (tool,) = yaml.safe_load((folder / named).read_text())["tools"]
    assert tool["class_name"] == "tasks.agent.verl_tools.ForagerTool"
    assert tool["config"]["name"] == "search"
    settings = Path(tool["config"]["settings"])
    (said,) = re.findall(r"^Beside it lies `(\S+)`", page, re.MULTILINE)
    assert settings == folder / said
    content = json.loads(settings.read_text())
    assert sorted(content) == ["environment", "episode", "index", "retrieval", "tools"]
    episode = params.Episode.model_validate(content["episode"])
    assert (episode.protocol, episode.tool_seconds) == ("hermes", 3.0)
    assert Path(content["index"]) == folder / "data" / "index"


@pytest.mark.parametrize(
    ("sections", "arguments", "line"),
    [
        ({}, ["tools.yaml"], "episode.protocol: verl's ToolAgentLoop cannot read 'search-r1'; hermes or qwen3_coder"),
        (
            {"episode": {"protocol": "hermes"}, "tools": {"server": "start"}},
            ["tools.yaml"],
            "tools.server: no stage starts the server for verl's own loop",
        ),
        ({"episode": {"protocol": "hermes"}}, ["tools.json"], "tools.json: must end in .yaml"),
        (
            {"episode": {"protocol": "hermes"}},
            ["tools.yaml", "--index", "elsewhere"],
            "elsewhere: no such folder; run `dvc repro index`",
        ),
    ],
)
def test_what_verls_loop_cannot_use_is_one_line_and_nothing_is_written(
    project: Any, capsys: pytest.CaptureFixture[str], sections: Any, arguments: list[str], line: str
) -> None:
    folder = project(**sections)
    with pytest.raises(SystemExit, match="2"):
        run(arguments)
    said = capsys.readouterr().err
    assert said.startswith(f"verl_tool_config: error: {line}") and said.count("\n") == 1
    assert not list(folder.glob("tools.*"))
