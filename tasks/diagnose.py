"""Why doesn't it learn? One page that goes through the known causes on an RL run's own data.

    python -m tasks.diagnose [RUN] [--out data/diagnosis/report.html]

RUN is a workspace (by default this one), a run's own folder (data/rl, checkpoints/FINGERPRINT: also of a run that was
killed or is under way), or an MLflow run id of this workspace: of stage rl, or of the flow. The run is left as it is.
docs/diagnose.md has the causes with their thresholds. Exit code 0, whatever was found; 2: there is no such run.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import tasks.quiet  # noqa: F401  before any engine is imported
from tasks import tracking
from tasks.diagnosis import terminal
from tasks.diagnosis.finding import Finding
from tasks.diagnosis.run_data import RunData
from tasks.errors import InputError, exit_on_input_error

PAGE = Path("data/diagnosis/report.html")
_RUN_ID = re.compile(r"[0-9a-f]{32}")


def find(name: str) -> RunData:
    """The data of the run that `name` means.

    Raises:
        InputError: there is none, or what there is can't be read.
    """
    from tasks.diagnosis import loading

    folder = Path(name)
    if _RUN_ID.fullmatch(name) and not folder.exists():
        return _tracked(name)
    return loading.load(folder)


def _tracked(run_id: str) -> RunData:
    """A run by its id: its files where they are still in this workspace, else what MLflow holds of it.

    Raises:
        InputError: MLflow does not know it, or it is of another stage.
    """
    from tasks.diagnosis import loading, tracked

    record = tracking.find_run(run_id)
    if record is None:
        raise InputError("no run of this workspace's MLflow", where=run_id, mend="see `make ui`, or name a folder")
    if record.tags.get("kind") == "flow":
        # A flow names its stages' runs when it has ended well; before that there is its child alone.
        named = record.tags.get("run.rl")
        record = tracking.find_run(named) if named else tracking.child(run_id, "rl")
    if record is None or record.tags.get("stage") != "rl":
        raise InputError("neither a run of stage rl nor a flow that has one", where=run_id, mend="name such a run")
    metrics = tracked.metrics(record, tracking.history)
    for folder in loading.runs(Path()):
        data = loading.load(folder)
        if tracked.same(data, metrics):
            return data
    return tracked.load(record, metrics, tracking.artifact, Path())


def main(arguments: Sequence[str]) -> int:
    """Write the page and print the summary."""
    parser = argparse.ArgumentParser(prog="python -m tasks.diagnose", description="Why an RL run doesn't learn.")
    parser.add_argument("run", nargs="?", default=".", metavar="RUN", help="a folder or an MLflow run id (default: .)")
    parser.add_argument("--out", type=Path, default=PAGE, help=f"the page (default {PAGE})")
    options = parser.parse_args(arguments)
    with exit_on_input_error("diagnose"):
        data = find(options.run)
        findings = _diagnose(data)
        from tasks.diagnosis import page

        try:
            page.write(data, findings, options.out)
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}", where=str(options.out), mend="give another --out"
            ) from None
    terminal.show(data, findings)
    print(options.out)
    return 0


def _diagnose(data: RunData) -> list[Finding]:
    from tasks.diagnosis.catalogue import diagnose

    return diagnose(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
