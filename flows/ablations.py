"""Ablations: a profile and its arms, each one switch apart, with the same seeds, one after the other by the flow.

    python -m flows.ablations [--profile tiny] [--seeds 0,1,2] [--arms NAME,...|all] [--list]

Seed by seed, so that what is done when it is stopped can be compared. DVC restores what the arms share, and what an
earlier, stopped run of this command has done. No model of an arm becomes champion. In MLflow all stands in the
experiment `ablations`, below one run a command. However it ends, the profile and the settings that were in force are in
force again; when all are done and they are one of the arms, its results are brought back as well.

Exit codes: 0 every run completed; 2 wrong input; 128 + the signal's number when told to stop; otherwise that of the run
which did not complete, and the others are not started.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys

import psutil

from flows import arm_sources
from flows.children import Stop, run
from tasks import params, tracking
from tasks.errors import InputError
from tasks.params import arms

GOES_ON = "the same command goes on from here"


def main() -> int:
    """Run every arm of an ablation with every seed."""
    parser = argparse.ArgumentParser(prog="python -m flows.ablations", description=main.__doc__)
    parser.add_argument("--profile", default="tiny", help="a file of params/ (default: tiny)")
    parser.add_argument("--seeds", default="0,1,2", help="whole numbers, commas between (default: 0,1,2)")
    parser.add_argument(
        "--arms", default=",".join(arms.CORE), help="names, commas between, or all (default: %(default)s)"
    )
    parser.add_argument("--list", action="store_true", help="say what the arms are, and run nothing")
    given = parser.parse_args()
    try:
        if given.list:
            for arm in arms.read(arms.names()):
                print(f"{arm.name + (' *' if arm.name in arms.CORE else ''):22}{arm.teaches}")
            print("\n* without --arms")
            return 0
        return _run_all(given.profile, _seeds(given.seeds), _arms(given.arms))
    except InputError as error:
        print(f"ablations: error: {error}", file=sys.stderr)
        return 2


def _arms(text: str) -> list[arms.Arm]:
    return arms.read(arms.names() if text == "all" else [name.strip() for name in text.split(",")])


def _seeds(text: str) -> list[int]:
    try:
        return list(dict.fromkeys(int(one) for one in text.split(",")))
    except ValueError:
        raise InputError(f"{text!r} are no whole numbers", where="--seeds", mend="write --seeds 0,1,2") from None


def _run_all(profile: str, seeds: list[int], chosen: list[arms.Arm]) -> int:
    before = params.profile_name(), params.settings_in_force()
    restored = params.resolve(*before)
    # Now, and not after the runs before it.
    runs = [(arm, seed, params.resolve(profile, arm.settings(seed))) for seed in seeds for arm in chosen]
    stop = Stop()
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, stop)
    os.environ[tracking.EXPERIMENT] = "ablations"
    try:
        with tracking.ablation_run(profile, [arm.name for arm in chosen], seeds, machine()) as above:
            for number, (arm, seed, _) in enumerate(runs, 1):
                name = f"{arm.name}, seed {seed}"
                print(f"ablations: {name}: {number} of {len(runs)}", flush=True)
                if code := _run_arm(profile, arm, seed, above.run_id, stop):
                    print(f"ablations: {_why(stop, name)}; {GOES_ON}", file=sys.stderr)
                    raise SystemExit(code)  # MLflow's run is closed as failed
    except SystemExit as ended:
        return int(ended.code or 1)
    finally:
        arm_sources.remove()
        params.use_profile(*before)
    if any(content == restored for *_, content in runs):
        print(f"ablations: {before[0]} again, from the cache", flush=True)
        code = _flow(*before, stop, {tracking.EXPERIMENT: ""})
        if code:
            print(f"ablations: {_why(stop, before[0])}; {GOES_ON}", file=sys.stderr)
        return code
    return 0


def _run_arm(profile: str, arm: arms.Arm, seed: int, above: str, stop: Stop) -> int:
    """Run the flow with an arm, its own sources made before; returns the exit code."""
    settings = arm.settings(seed)
    for command in arm_sources.commands(arm.name):
        if arm.name == arms.SELECTION[0]:
            params.use_profile(profile, settings)  # what is drawn is drawn by these
        if code := run(command, stop, {tracking.PARENT_RUN: above}):
            return code
    tags = {"name": f"{arm.name}, seed {seed}", "arm": arm.name, "seed": str(seed)}
    return _flow(profile, settings, stop, {tracking.PARENT_RUN: above, tracking.FLOW_TAGS: json.dumps(tags)})


def _flow(profile: str, settings: dict[str, object], stop: Stop, environment: dict[str, str]) -> int:
    options = [word for one in arms.options(settings) for word in ("--set", one)]
    return run(["flows.train_and_eval", "--profile", profile, *options, "--no-release"], stop, environment)


def _why(stop: Stop, name: str) -> str:
    return "stopped" if stop.number is not None else f"{name} did not complete"


def machine() -> str:
    """This machine in words: what seconds were measured on."""
    gib = psutil.virtual_memory().total / 2**30
    return f"{len(os.sched_getaffinity(0))} cores ({platform.machine()}), {gib:.0f} GiB"


if __name__ == "__main__":
    sys.exit(main())
