"""All keys of one of verl's configurations: its YAML as Hydra composes it, and what its dataclasses know beyond it."""

from __future__ import annotations

import ast
import difflib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from tasks.training.verl_schema import classes, kinds

# Handed on whole, to ray.init (trainer/main_ppo.py:75) and to Nsight, so any key of theirs will do.
HANDED_ON = (
    "ray_kwargs.ray_init",
    "ray_kwargs.ray_init.runtime_env",
    "global_profiler.global_tool_config.nsys.controller_nsight_options",
    "global_profiler.global_tool_config.nsys.worker_nsight_options",
)
_LACKING = object()  # the default of a key that the dataclass alone knows


@dataclass(frozen=True)
class Node:
    """One key: its default as the YAML has it, and its annotation in the dataclass that holds it."""

    key: str
    default: Any
    annotation: ast.expr | None

    @property
    def of_class(self) -> str | None:
        """Name of the dataclass that its keys belong to."""
        target = self.default.get("_target_") if isinstance(self.default, dict) else None
        return target.rpartition(".")[2] if target else kinds.class_in(self.annotation)

    @functools.cached_property
    def allowed(self) -> frozenset[str]:
        """The kinds of values it takes, as `kinds` names them."""
        annotated = kinds.of_annotation(self.annotation)
        if self.default is _LACKING:
            return annotated
        if self.default is None and not annotated:
            return frozenset({kinds.ANY})
        return annotated | kinds.of_value(self.default)

    @functools.cached_property
    def free(self) -> bool:
        """Whether any key may stand below it."""
        if self.key in HANDED_ON or kinds.ANY in self.allowed:
            return True
        if self.of_class is not None or kinds.KEYS not in self.allowed:
            return False
        if isinstance(self.default, dict) and self.default:
            # engine_kwargs has an entry an engine, and none other is read.
            entries = all(isinstance(value, dict) for value in self.default.values())
            return kinds.KEYS in kinds.of_annotation(self.annotation) and not entries
        return True

    @functools.cached_property
    def children(self) -> dict[str, Node]:
        """The keys below it by name."""
        known: dict[str, ast.expr | None] = dict(classes.fields(self.of_class)) if self.of_class else {}
        values = self.default if isinstance(self.default, dict) else {}
        names = dict.fromkeys([*values, *known])
        return {name: Node(self._below(name), values.get(name, _LACKING), known.get(name)) for name in names}

    def _below(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    def leaves(self) -> Iterator[str]:
        """All keys below it that have no more keys."""
        for child in self.children.values():
            if child.children:
                yield from child.leaves()
            else:
                yield child.key


@functools.cache
def tree(name: str) -> Node:
    """The root of a configuration.

    Args:
        name: `ppo_trainer` or `sft_trainer_engine`, a file of verl/trainer/config.
    """
    with initialize_config_dir(str(classes.package() / "trainer" / "config"), version_base=None):
        config = compose(name)
    return Node("", OmegaConf.to_container(config, resolve=True), None)


def find(root: Node, key: str) -> Node | None:
    """The node of a dotted key, or the free one above it; None where there is no such key."""
    node = root
    for part in key.split("."):
        below = node.children.get(part)
        if below is None:
            return node if node.free else None
        node = below
    return node


def nearest(root: Node, key: str) -> list[str]:
    """The keys that may have been meant by one that does not exist, the likeliest first; three at most."""
    leaves = list(root.leaves())
    inside = [leaf for leaf in leaves if leaf.endswith(f".{key}")]
    if inside:
        return _closest(key, inside)
    spelt = _respelt(root, key)
    if spelt is not None:
        return [spelt]
    last = key.rpartition(".")[2]
    elsewhere = [leaf for leaf in leaves if leaf.rpartition(".")[2] == last]
    return _closest(key, elsewhere) or difflib.get_close_matches(key, leaves, n=1, cutoff=0.6)


def _respelt(root: Node, key: str) -> str | None:
    """The key with each part that there is not replaced by its nearest sibling, when all of it then exists."""
    node, parts = root, []
    for part in key.split("."):
        near = [part] if part in node.children else difflib.get_close_matches(part, node.children, n=1, cutoff=0.75)
        if not near:
            return None
        parts.append(near[0])
        node = node.children[near[0]]
    return ".".join(parts)


def _closest(key: str, candidates: list[str]) -> list[str]:
    def shared(candidate: str) -> tuple[int, float]:
        parts = set(key.split(".")) & set(candidate.split("."))
        return len(parts), difflib.SequenceMatcher(None, key, candidate).ratio()

    return sorted(candidates, key=shared, reverse=True)[:3]
