"""What `${...}` in a section of verl's own keys refers to, before a stage would find out after hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from omegaconf.grammar_parser import parse

from tasks.training.overrides import flatten, hydra_overrides
from tasks.training.verl_schema import classes, kinds
from tasks.training.verl_schema.tree import find, tree


def faults(config: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys whose `${...}` cannot be read, leads nowhere, or leads to a value that the key does not take, and why.

    Args:
        config: a file of verl/trainer/config.
        settings: a section's, in which nothing else is wrong.
    """
    referring = {
        key: value
        for key, value in flatten(settings)
        if any(isinstance(one, str) and "${" in one for one in kinds.inside(value))
    }
    if not referring:
        return
    unread = {key: said for key, value in referring.items() if (said := _misread(value))}
    if unread:
        yield from unread.items()
        return
    with initialize_config_dir(str(classes.package() / "trainer" / "config"), version_base=None):
        composed = compose(config, hydra_overrides({}, settings))
    for key in referring:
        try:
            value = OmegaConf.select(composed, key)
            if OmegaConf.is_config(value):
                value = OmegaConf.to_container(value, resolve=True)
        except OmegaConfBaseException as error:
            yield key, str(error).splitlines()[0]
            continue
        node = find(tree(config), key)
        # What is null by default a stage may have set.
        if value is not None and node is not None and node.key == key and not kinds.fits(value, node.allowed):
            yield key, kinds.fault(value, node.allowed)


def _misread(value: Any) -> str | None:
    for one in kinds.inside(value):
        if isinstance(one, str):
            try:
                parse(one)
            except OmegaConfBaseException as error:
                return str(error).splitlines()[0]
    return None
