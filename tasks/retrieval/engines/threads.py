"""How many threads a process searches with: OMP_NUM_THREADS where it is set, as PyTorch, faiss and BLAS read it too.

Who starts several processes that search on one machine gives each its share by that variable, before they start:
none of those libraries looks at it again later.
"""

from __future__ import annotations

import os


def count() -> int:
    """Threads for one search of this process, at least 1."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, int(asked)) if asked.isdigit() else len(os.sched_getaffinity(0))
