"""What is refused in a section of verl's own keys."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tasks.training.overrides import flatten
from tasks.training.verl_schema import interpolations, kinds, owned
from tasks.training.verl_schema.tree import Node, find, nearest, tree

Fault = tuple[str, str | None]  # what is wrong, and how to mend it

_NAME = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)
_LITERALS = ("null", "true", "false", "nan", "inf")  # Hydra reads them as values, also where a key stands
# Of each section: verl's configuration, the stage, who owns which key.
SECTIONS = {"verl": ("ppo_trainer", "rl", owned.RL), "sft.verl": ("sft_trainer_engine", "sft", owned.SFT)}


def faults(section: str, settings: Mapping[str, Any]) -> Iterator[Fault]:
    """What is wrong with a section's settings, key by key, and last what `${...}` refers to."""
    yield from _of_keys(section, settings)
    for key, said in interpolations.faults(SECTIONS[section][0], settings):
        yield f"{section}.{key}: {said}", None


def _of_keys(section: str, settings: Mapping[str, Any]) -> Iterator[Fault]:
    config, stage, owners = SECTIONS[section]
    root = tree(config)
    pairs = list(flatten(settings))
    for key, times in Counter(key for key, _ in pairs).items():
        if times > 1:
            yield f"{section}.{key}: stands here {times} times, nested and dotted", "keep one of them"
    for key, value in pairs:
        name = f"{section}.{key}"
        node = find(root, key)
        owner = owned.owner(owners, key)
        odd = next((one for one in _names(key, value) if not _NAME.fullmatch(one) or one.lower() in _LITERALS), None)
        if odd is not None:
            yield f"{name}: {odd!r} cannot be a name in a key", "verl's keys are of letters, digits, _ and -"
        elif owner == owned.STAGE:
            yield f"{name}: set by stage {stage}, which relies on it", "leave it out"
        elif owner is not None:
            yield f"{name}: set by {owner}", "set that, and leave this out"
        elif node is None:
            yield _unknown(root, section, key)
        elif (strange := next((one for one in kinds.inside(value) if not kinds.is_plain(one)), None)) is not None:
            yield f"{name}: {strange!r} is no value of verl's", "put text between quotes"
        elif _holds(value, "???"):
            yield f"{name}: ??? is OmegaConf's sign for a value that is missing", "give the value"
        elif node.key == key and not kinds.fits(value, node.allowed):
            yield _wrong_kind(node, name, value)
        elif value == {} and node.default:
            # OmegaConf merges it into what is there.
            yield (
                f"{name}: {{}} changes nothing",
                f"name the keys to change, or leave it out: {', '.join(_shown(node))}",
            )


def _wrong_kind(node: Node, name: str, value: Any) -> Fault:
    if node.children:
        return f"{name}: holds keys, got {value!r}", f"its keys are: {', '.join(_shown(node))}"
    return f"{name}: {kinds.fault(value, node.allowed)}", None


def _unknown(root: Node, section: str, key: str) -> Fault:
    known, above = root, ""
    for part in key.split("."):
        if part not in known.children:
            break
        known = known.children[part]
        above = known.key
    if above and not known.children:
        return f"{section}.{above}: must be {kinds.wanted(known.allowed)}, got keys", f"take out {section}.{key}"
    near = [f"'{section}.{one}'" for one in nearest(root, key)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"its keys are: {', '.join(_shown(known))}"
    return f"verl has no key '{section}.{key}'", hint


def _shown(node: Node) -> list[str]:
    return [name for name in node.children if not name.startswith("_")]


def _names(key: str, value: Any) -> Iterator[str]:
    """All names in a key and in the mappings of its value."""
    yield from key.split(".")
    for one in kinds.inside(value):
        if isinstance(one, Mapping):
            yield from map(str, one)


def _holds(value: Any, text: str) -> bool:
    return any(one == text for one in kinds.inside(value))
