"""Typed parameters: `params/defaults.yaml`, overlaid by the profile named in `params/profile.yaml`.

`python -m tasks.params` is the first stage of the DAG. It resolves them into `data/params/params.yaml`, whose
sections the other stages depend on: a change of one key re-runs just the stages that read its section.
"""

from tasks.params.models import (
    Architecture,
    Demos,
    Entry,
    Environment,
    Episode,
    Index,
    Ingest,
    Messages,
    Mixture,
    Params,
    Phase,
    Pretraining,
    Proportion,
    Retrieval,
    Rl,
    Sft,
    Tools,
    Validate,
)
from tasks.params.resolution import (
    DEFAULTS,
    PROFILE,
    contrasts,
    load,
    overlay,
    parse,
    profile_name,
    profiles,
    resolve,
    use_profile,
)

__all__ = [
    "DEFAULTS",
    "PROFILE",
    "Architecture",
    "Demos",
    "Entry",
    "Environment",
    "Episode",
    "Index",
    "Ingest",
    "Messages",
    "Mixture",
    "Params",
    "Phase",
    "Pretraining",
    "Proportion",
    "Retrieval",
    "Rl",
    "Sft",
    "Tools",
    "Validate",
    "contrasts",
    "load",
    "overlay",
    "parse",
    "profile_name",
    "profiles",
    "resolve",
    "use_profile",
]
