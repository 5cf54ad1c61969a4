"""`python -m tasks.training.algorithms_table`: print the table of docs/algorithms.md, from presets and verl's keys.

A key of verl's belongs to a parameter when it changes as the parameter alone is put to the default or to another value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tasks.params import Episode, Rl, overlay, resolution
from tasks.training.algorithm_config import algorithm_settings

FOLDER = resolution.PRESETS / "algorithms"
# Sources of what a preset sets; `` the preset's own, where a key has none of its own.
SOURCES: Mapping[str, Mapping[str, str]] = {
    "grpo": {
        "": "Shao et al. 2024, arXiv 2402.03300, section 4.1",
        "aggregation": "verl's default (DAPO's); the paper has seq-mean-token-mean",
    },
    "dr_grpo": {"": "Liu et al. 2025, arXiv 2503.20783, section 3", "kl": "the same, section 2 and 4"},
    "dapo": {
        "": "Yu et al. 2025, arXiv 2503.14476, eq. 8",
        "clip": "the same, section 3.1 and 4.1",
        "updates": "ours; section 4.1 has 16 of 512 rollouts",
        "dynamic_sampling": "the same, eq. 11, section 3.2; the bound is ours",
        "aggregation": "the same, eq. 12, section 3.3",
        "soft_overlong": "the same, eq. 13; 4,096 of 20,480 tokens, section 4.1",
        "kl": "the same, section 2.3",
    },
    "dapo_dr": {
        "": "as dapo",
        "std_normalisation": "Liu et al. 2025, arXiv 2503.20783, section 3",
    },
    "gspo": {
        "": "Zheng et al. 2025, arXiv 2507.18071, eq. 5 to 7",
        "clip": "the same, section 5.1",
        "updates": "the same, section 5.1",
        "kl": "the paper's formulas have none (section 2)",
    },
    "ppo": {
        "": "Schulman et al. 2017, arXiv 1707.06347",
        "advantage": "Schulman et al. 2016, arXiv 1506.02438",
        "gamma": "Jin et al. 2025 (Search-R1), arXiv 2503.09516",
        "lam": "Jin et al. 2025 (Search-R1), arXiv 2503.09516",
        "critic": "Jin et al. 2025 (Search-R1), arXiv 2503.09516",
    },
    "rloo": {
        "": "Ahmadian et al. 2024, arXiv 2402.14740",
        "aggregation": "the same: a whole sequence is one action",
    },
    "reinforce_plus_plus": {"": "Hu et al. 2025, arXiv 2501.03262"},
}
# Other values of each parameter: what one of them changes is the parameter's. The others are put back to the default.
_OTHERS: Mapping[str, tuple[Any, ...]] = {
    "advantage": ("rloo", "grpo"),
    "std_normalisation": (True, False),
    "gamma": (0.5,),
    "lam": (0.5,),
    "loss": ("gpg", "vanilla"),
    "aggregation": ("seq-mean-token-mean", "token-mean"),
    "clip.low": (0.1,),
    "clip.high": (0.1,),
    "updates": (1,),
    "kl.route": ("loss", "reward"),
}
_OURS = {"soft_overlong": "a part of the reward: [rewards.md](rewards.md)"}  # what is no key of verl's


def leaves(section: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys of section rl with their values; what may be null is one value, with all that is in it."""
    for key, value in section.items():
        if isinstance(value, Mapping) and key in ("clip", "kl", "credit"):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def verls(defaults: Mapping[str, Any], *over: Mapping[str, Any]) -> dict[str, object]:
    """Verl's keys of the algorithm, under the defaults with these sections rl over them.

    What cannot act is no matter here: a parameter is changed alone to see what is its own.
    """
    section = dict(defaults["rl"])
    for top in over:
        section = overlay(section, dict(top))
    return algorithm_settings(Rl.model_validate(section), Episode.model_validate(defaults["episode"]))


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """Preset, parameter with its value, verl's key, its value, source; the current folder is the project's."""
    defaults = yaml.safe_load(resolution.DEFAULTS.read_text(encoding="utf-8"))
    for name, sources in SOURCES.items():
        preset = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))["rl"]
        made = verls(defaults, preset)
        for key, value in leaves(preset):
            others = _OTHERS.get(key) or (_at(defaults["rl"], key),)
            without = [verls(defaults, preset, _nested(key, other)) for other in others]
            mine = [one for one in made if any(made[one] != other.get(one) for other in without)]
            source = sources.get(key.partition(".")[0], sources[""])
            setting = f"`{key}: {_flow(value)}`"
            for one in mine:
                yield f"`{name}`", setting, f"`{one.lstrip('+')}`", f"`{made[one]}`", source
            if not mine:
                yield f"`{name}`", setting, "none", _OURS[key], source


def markdown() -> str:
    """The table as docs/algorithms.md shows it."""
    head = ("preset", "`rl.`", "verl's key", "value", "source")
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ("---",) * len(head), *rows()])


def _at(section: Mapping[str, Any], key: str) -> Any:
    for name in key.split("."):
        section = section[name]
    return section


def _nested(key: str, value: Any) -> dict[str, Any]:
    for name in reversed(key.split(".")):
        value = {name: value}
    return value


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=200, sort_keys=False).removesuffix("...\n").strip()


if __name__ == "__main__":
    print(markdown())
