"""The contrasts: `tiny` and each profile that changes one thing of it, one after the other, by the flow itself.

    python -m flows.contrasts

DVC restores what they share, and what an earlier, stopped run of this command has done. No model of a contrast
becomes champion. However it ends, the profile that was in force is in force again; when all are done and it is one
of them, its results are brought back as well.

Exit codes: 0 every run completed; 128 + the signal's number when told to stop; otherwise that of the run which did
not complete, and the others are not started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType

from flows.environment import OWN_PORT
from tasks import params
from tasks.errors import InputError


class _Stop:
    """What stops this command: it stops the flow that is running, and no other is started."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.flow: subprocess.Popen[bytes] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """The signals' handler."""
        self.number = number
        self.pass_on()

    def pass_on(self) -> None:
        """Tell the flow, if it is still running; Ctrl-C has reached it as well, and is not repeated."""
        if self.number == signal.SIGTERM and self.flow is not None:
            self.flow.terminate()  # does nothing once it has ended


def main() -> int:
    """Run all contrasts; returns the exit code."""
    stop = _Stop()
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, stop)
    try:
        before = params.profile_name()
        profiles = params.contrasts()
        for profile in (before, *profiles):
            params.resolve(profile)  # now, and not after the runs before it
        try:
            for number, profile in enumerate(profiles, 1):
                print(f"contrasts: {profile}, {number} of {len(profiles)}", flush=True)
                if code := _run(profile, stop):
                    return code
        finally:
            params.use_profile(before)
        if before in profiles:
            print(f"contrasts: {before} again, from the cache", flush=True)
            return _run(before, stop)
    except InputError as error:
        print(f"contrasts: error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(profile: str, stop: _Stop) -> int:
    """Run the flow as a command of its own, unless told to stop; returns the exit code."""
    code = 0
    if stop.number is None:
        environment = dict(os.environ)
        if OWN_PORT is not None:
            # The address that this process keeps for a server of its own, which it never starts.
            del environment["PREFECT_API_URL"]
        command = [sys.executable, "-m", "flows.train_and_eval", "--profile", profile, "--no-release"]
        stop.flow = subprocess.Popen(command, env=environment)
        stop.pass_on()  # a signal that came while it was started
        code = stop.flow.wait()  # however it ends: it must have the time to end its stage
    if stop.number is not None:
        code = 128 + stop.number
        print("contrasts: stopped; the same command goes on from here", file=sys.stderr)
    elif code:
        print(f"contrasts: {profile} did not complete; the same command goes on from here", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
