"""Stage `params`: `python -m tasks.params` resolves the profile in force into data/params/params.yaml."""

import yaml

from tasks.errors import exit_on_input_error
from tasks.files import write_text_aside
from tasks.params.resolution import RESOLVED, resolve_in_force

with exit_on_input_error("params"):
    content = resolve_in_force()
    write_text_aside(RESOLVED, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
    print(f"params: profile {content['profile']}, {len(content)} sections -> {RESOLVED}")
