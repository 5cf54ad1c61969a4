import math
import subprocess
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

from tasks.training.event_files import EventFiles


def shown(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard reads: steps and values by name."""
    found = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    return {
        name: [(event.step, float(make_ndarray(event.tensor_proto))) for event in found.Tensors(name)]
        for name in found.Tags()["tensors"]
    }


def test_steps_are_shown_while_the_run_goes_on_and_lie_in_the_outputs_when_it_ends(tmp_path: Path) -> None:
    events = EventFiles(tmp_path / "live")
    events.log(1, {"critic/score/mean": 0.25, "episode/success": 0.5})
    assert shown(tmp_path / "live") == {"critic/score/mean": [(1, 0.25)], "episode/success": [(1, 0.5)]}
    events.log(2, {"critic/score/mean": math.nan})
    events.publish(tmp_path / "out")
    (first, second) = shown(tmp_path / "out")["critic/score/mean"]
    assert first == (1, 0.25) and second[0] == 2 and math.isnan(second[1])


def test_a_resumed_run_shows_every_step_once(tmp_path: Path) -> None:
    for _ in range(2):
        events = EventFiles(tmp_path / "live")
        for step in (1, 2):
            events.log(step, {"a": float(step)})
    assert shown(tmp_path / "live") == {"a": [(1, 1.0), (2, 2.0)]}


def test_the_stage_needs_no_torch_for_them() -> None:
    code = "import sys, tasks.training.event_files; sys.exit('torch' in sys.modules or 'tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
