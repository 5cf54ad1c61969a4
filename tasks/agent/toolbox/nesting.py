"""JSON that a policy or a client has written, read to a depth at which nothing after it can fail."""

from __future__ import annotations

import json
from typing import Any

MOST_NESTED = 64  # objects and lists inside each other; json.dumps and pydantic fail at some hundreds


def decoded(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or nested deeper than `MOST_NESTED`.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deep to be read") from error
    level, depth = [value], 0
    while level := [one for one in level if isinstance(one, dict | list)]:
        depth += 1
        if depth > MOST_NESTED:
            raise ValueError(f"nested deeper than {MOST_NESTED}")
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return value
