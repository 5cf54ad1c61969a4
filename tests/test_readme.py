"""The pages show no profile that the parameters would refuse."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks import params
from tasks.agent.toolbox import Tool
from tasks.agent.toolbox.base import _tools

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SECTIONS = {field.alias or name for name, field in params.Params.model_fields.items()}


def fragments(text: str) -> list[dict[str, Any]]:
    """Parts of profiles on a page: its blocks of YAML, and what stands in a line as `section: {...}`."""
    blocks = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    in_line = [found for found in re.findall(r"`(\w+: \{[^`]*\})`", text) if found.partition(":")[0] in SECTIONS]
    return [yaml.safe_load(found) for found in (*blocks, *in_line)]


SHOWN = [
    pytest.param(one, id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, one in enumerate(fragments(page.read_text(encoding="utf-8")))
]


@pytest.mark.parametrize("below", [{}, {"extends": "tiny"}], ids=["defaults", "tiny"])
@pytest.mark.parametrize("fragment", SHOWN)
def test_a_profile_that_is_shown_is_taken(workspace: Path, monkeypatch, fragment: dict, below: dict) -> None:
    # The tool that docs/add-a-tool.md adds.
    monkeypatch.setitem(
        _tools, "calculator", type("Calculator", (Tool,), {"name": "calculator", "description": "sums"})
    )
    (workspace / "params/mine.yaml").write_text(yaml.safe_dump({**below, **fragment}), encoding="utf-8")
    resolved = params.resolve("mine")
    assert resolved == params.overlay(resolved, fragment)


def test_both_forms_are_found() -> None:
    page = "Set `rl: {steps: 3}`, not `{a: 1}` or `x: {a: 1}`.\n\n```yaml\nseed: 1\n```\n\n```\nseed: 2\n```\n"
    assert fragments(page) == [{"seed": 1}, {"rl": {"steps": 3}}]
    assert {str(one.id).partition("-")[0] for one in SHOWN} >= {"README.md", "docs/protocols.md", "docs/rewards.md"}
