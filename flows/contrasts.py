"""The contrasts: `tiny` and each profile that changes one thing of it, one after the other, by the flow itself.

    python -m flows.contrasts

DVC restores what they share, and what an earlier, stopped run of this command has done. No model of a contrast
becomes champion. At the end the profile that was in force is in force again, with its results.

Exit codes: 0 every run completed; otherwise that of the run which did not, and the others are not started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from flows.environment import OWN_PORT
from tasks import params
from tasks.errors import InputError


def main() -> int:
    """Run all contrasts; returns the exit code."""
    try:
        before = params.profile_name()
        profiles = params.contrasts()
        for profile in profiles:
            params.resolve(profile)  # now, and not after the runs before it
        try:
            for number, profile in enumerate(profiles, 1):
                print(f"contrasts: {profile}, {number} of {len(profiles)}", flush=True)
                if code := _run(profile):
                    print(f"contrasts: {profile} did not complete; the same command goes on from here", file=sys.stderr)
                    return code
        finally:
            params.use_profile(before)
        if before in profiles:
            print(f"contrasts: {before} again, from the cache", flush=True)
            return _run(before)
    except InputError as error:
        print(f"contrasts: error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(profile: str) -> int:
    """Run the flow as a command of its own; returns its exit code."""
    environment = dict(os.environ)
    if OWN_PORT is not None:
        # The address that this process keeps for a server of its own, which it never starts.
        del environment["PREFECT_API_URL"]
    command = [sys.executable, "-m", "flows.train_and_eval", "--profile", profile, "--no-release"]
    with subprocess.Popen(command, env=environment) as flow:
        # What stops us must stop the flow, and the flow must have the time to end its stage.
        signal.signal(signal.SIGTERM, lambda number, frame: flow.terminate())
        while True:
            try:
                return flow.wait()
            except KeyboardInterrupt:  # Ctrl-C has reached the flow as well
                continue


if __name__ == "__main__":
    sys.exit(main())
