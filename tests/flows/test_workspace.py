import os
import subprocess
import sys

import pytest

from flows import workspace as place
from tasks.errors import InputError

HOLDER = """
from flows import workspace
with workspace.claim():
    print("held", flush=True)
    input()
"""


def test_one_process_holds_a_workspace(workspace):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=f"pid {holder.pid}"), place.claim():
        pass
    holder.kill()  # even then the kernel lets go of the lock
    holder.wait()
    with place.claim(), place.claim():
        pass
