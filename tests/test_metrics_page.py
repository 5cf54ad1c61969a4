"""docs/metrics.md against what steps hold: recorded from verl by `python tests/recorded_metrics.py`."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
