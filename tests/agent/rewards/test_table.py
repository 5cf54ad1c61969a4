from pathlib import Path

import pytest
import yaml

from tasks.agent.rewards import REWARDS, RewardParams
from tasks.agent.rewards.table import markdown

ROOT = Path(__file__).parents[3]


def test_the_document_shows_the_table() -> None:
    text = (ROOT / "docs/rewards.md").read_text(encoding="utf-8")
    assert f"\n\n{markdown()}\n\n" in text, (
        "docs/rewards.md: replace its table by what `python -m tasks.agent.rewards` prints"
    )


@pytest.mark.parametrize("name", REWARDS)
def test_an_entry_says_everything(name: str) -> None:
    entry = REWARDS[name]
    assert all((entry.formula, entry.source, entry.hacks)) and "weight" in entry.params.model_fields
    assert not any("|" in cell for cell in (entry.formula, entry.source, entry.hacks))
    assert RewardParams.model_fields[name].annotation == entry.params | None


def test_the_defaults_name_every_part_with_its_parameters() -> None:
    text = (ROOT / "params/defaults.yaml").read_text(encoding="utf-8")
    reward = yaml.safe_load(text)["environment"]["reward"]
    assert reward == dict.fromkeys(REWARDS) | {"em": {"weight": 1.0}, "format": {"weight": 0.1}}
    lines = text.partition("\n  reward:")[2].partition("\n\n")[0].splitlines()
    for name, entry in REWARDS.items():
        (line,) = [line for line in lines if line.startswith(f"    {name}: ")]
        assert all(key in line for key in entry.params.model_fields), line
