import math
import subprocess
import sys
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tasks.training.event_files import EventFiles


def shown(reader: EventAccumulator) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard shows now: steps and values by name."""
    found = reader.Reload()
    return {name: [(one.step, one.value) for one in found.Scalars(name)] for name in found.Tags()["scalars"]}


def read(folder: Path) -> EventAccumulator:
    return EventAccumulator(str(folder))


def test_steps_are_shown_while_the_run_goes_on_and_lie_in_the_outputs_when_it_ends(tmp_path: Path) -> None:
    events = EventFiles(tmp_path / "live")
    events.log(1, {"critic/score/mean": 0.25, "episode/success": 0.5})
    assert shown(read(tmp_path / "live")) == {"critic/score/mean": [(1, 0.25)], "episode/success": [(1, 0.5)]}
    events.log(2, {"critic/score/mean": math.nan})
    events.publish(tmp_path / "out")
    (first, second) = shown(read(tmp_path / "out"))["critic/score/mean"]
    assert first == (1, 0.25) and second[0] == 2 and math.isnan(second[1])


def test_a_resumed_run_shows_every_step_once_also_where_it_is_watched(tmp_path: Path) -> None:
    watching = read(tmp_path / "live")
    for start in range(2):
        events = EventFiles(tmp_path / "live")
        for step in (0, 1, 2):
            events.log(step, {"a": float(10 * start + step)})
        assert shown(watching) == {"a": [(step, 10.0 * start + step) for step in (0, 1, 2)]}
    assert shown(read(tmp_path / "live")) == shown(watching)
    events.publish(tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 1 and shown(read(tmp_path / "out")) == shown(watching)


def test_the_stage_needs_no_torch_for_them() -> None:
    code = "import sys, tasks.training.event_files; sys.exit('torch' in sys.modules or 'tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
