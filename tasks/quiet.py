"""Telemetry off, for this process and its children: nothing here calls home. Import it before any engine."""

from __future__ import annotations

import os

SETTINGS = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "RAY_USAGE_STATS_ENABLED": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "WANDB_MODE": "disabled",
}

os.environ.update(SETTINGS)
