import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_no_answer_is_lost_or_crossed_while_workers_are_killed_stopped_and_flooded() -> None:
    command = [sys.executable, "-m", "benchmarks.retrieval_soak", "--seconds", "20", "--clients", "16"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    # The exit code also says how fast it recovered, which is this machine's affair.
    assert " 0 lost, 0 crossed" in done.stdout, done.stdout + done.stderr
    for event in ("kill", "stop", "stall", "nursery", "flood"):
        assert f"\n{event} " in done.stdout
