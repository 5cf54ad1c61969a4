"""What verl loads in each of its processes, on a CPU and on a GPU: our estimators, our loss, our critic's model.

verl's `__init__` imports what VERL_USE_EXTERNAL_MODULES names, separated by commas and in that order. The task runner
then knows the estimators, since it computes the advantages, and the workers the loss.
"""

from __future__ import annotations

from tasks.training import estimators, losses, value_head

__all__ = ["estimators", "losses", "value_head"]
