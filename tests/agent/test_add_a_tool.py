"""docs/add-a-tool.md, followed to the letter in a copy of the project."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "add-a-tool.md").read_text(encoding="utf-8")


def block(heading: str, language: str) -> str:
    """The first block of code under a heading, of a language."""
    section = TEXT.partition(heading)[2].partition("\n## ")[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found.group(1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, tokenizer: Any, build_index: Any) -> Path:
    """The project with the page's tool in the page's place, and an index to search."""
    folder = tmp_path_factory.mktemp("mine")
    for name in ("tasks", "params"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (place,) = re.findall(r"^## 1\. Write `(.*)`$", TEXT, re.MULTILINE)
    (folder / place).write_text(block("## 1.", "python"), encoding="utf-8")
    build_index(folder / "data" / "index", [("p1", "Kashi", "Kashi was born in Rove.", None)])
    tokenizer.save_pretrained(folder / "tokenizer")
    return folder


def run(project: Path, *command: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=False, **more)


def test_the_tool_has_no_more_than_40_lines() -> None:
    assert len(block("## 1.", "python").splitlines()) <= 40


def test_the_command_shows_what_the_page_says(project: Path) -> None:
    command = shlex.split(block("## 2.", "").strip())
    assert command[0] == "python"
    done = run(project, sys.executable, *command[1:])
    assert (done.returncode, done.stderr) == (0, "")
    shown = TEXT.partition("what it would read:")[2].partition("```\n")[2].partition("```")[0]
    assert shown.count("observation") == 2
    for part in re.split(r"^(?=\S)", shown, flags=re.MULTILINE)[1:]:
        assert part in done.stdout


def test_a_wrong_name_gets_one_line_and_exit_code_2(project: Path) -> None:
    done = run(project, sys.executable, "-m", "tasks.try_tool", "calculater", "1")
    assert done.returncode == 2 and "did you mean 'calculator'?" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


PLAY = """
import asyncio, json, sys
from pathlib import Path
from transformers import AutoTokenizer
from tasks import params
from tasks.agent.episode import Generation, run_episode
from tasks.agent.setup import open_setup
from tasks.params import Playing

resolved = params.parse(params.resolve("mine"), where="mine")
protocol, turns, row = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
room = {"max_turn_tokens": 200, "max_response_tokens": 2000}
episode = resolved.episode.model_copy(update={"protocol": protocol, **room})
tokenizer = AutoTokenizer.from_pretrained("tokenizer")
playing = Playing.of(resolved).model_copy(update={"episode": episode})
setup = open_setup(playing, index=Path("data/index"), tokenizer=tokenizer)
waiting = [tokenizer.encode(turn, add_special_tokens=False) for turn in turns]

async def generate(prompt_ids, *, max_tokens, stop):
    return Generation(waiting.pop(0), None)

trajectory = asyncio.run(run_episode(row, generate=generate, setup=setup))
print(json.dumps({"calls": [[c.tool, c.failure] for c in trajectory.calls], "text": trajectory.text,
                  "prompt": tokenizer.decode(trajectory.prompt_ids), "reward": trajectory.reward}))
"""
CALLS = {
    "search-r1": (
        "<search> Kashi </search>",
        "<calculator> 2 * (3 + 4) = </calculator>",
        "<calculator> 1 / 0 </calculator>",
        "<answer> 14 </answer>",
    ),
    "hermes": (
        '<tool_call>\n{"name": "search", "arguments": {"query": "Kashi"}}\n</tool_call><|im_end|>',
        '<tool_call>\n{"name": "calculator", "arguments": {"expression": "2 * (3 + 4)"}}\n</tool_call><|im_end|>',
        '<tool_call>\n{"name": "calculator", "arguments": {"expression": "1 / 0"}}\n</tool_call><|im_end|>',
        "<answer> 14 </answer><|im_end|>",
    ),
}


@pytest.mark.parametrize("protocol", CALLS)
def test_the_policy_can_use_it(project: Path, question_row: Any, protocol: str) -> None:
    (project / "params" / "mine.yaml").write_text("extends: tiny\n" + block("## 3.", "yaml"), encoding="utf-8")
    row = question_row("What is 2 * (3 + 4)?", ["14"], ["Kashi"], ["p1"])
    done = run(project, sys.executable, "-c", PLAY, protocol, json.dumps(CALLS[protocol]), json.dumps(row))
    assert done.returncode == 0, done.stderr
    played = json.loads(done.stdout.splitlines()[-1])
    assert played["calls"] == [["search", None], ["calculator", None], ["calculator", "raised"]]
    assert "14 (sum 1)" in played["text"] and "Error: it broke." in played["text"]
    assert "ZeroDivisionError" not in played["text"]
    assert played["reward"] == 1.0
