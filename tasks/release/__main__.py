"""`python -m tasks.release`: carry out the gate's decision and say what was done."""

from tasks.errors import exit_on_input_error
from tasks.release.action import release

with exit_on_input_error("release"):
    print(f"release: {release()}", flush=True)
