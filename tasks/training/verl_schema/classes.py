"""The fields of verl's configuration classes, read from its source.

verl's YAML files leave out keys that its dataclasses know. Importing the classes would import torch and more, for many
seconds at every stage's start; the annotations are enough, and `ast` reads them.
"""

from __future__ import annotations

import ast
import functools
from importlib.util import find_spec
from pathlib import Path

FOLDERS = ("trainer/config", "workers/config", "utils/profiler", "utils/skip")  # below verl's package


@functools.cache
def package() -> Path:
    """The folder of verl's package, which is found without being imported."""
    spec = find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("verl is not installed; run `make setup`")
    return Path(spec.submodule_search_locations[0])


@functools.cache
def _classes() -> dict[str, ast.ClassDef]:
    files = (path for folder in FOLDERS for path in sorted((package() / folder).glob("*.py")))
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    found = (node for tree in trees for node in tree.body if isinstance(node, ast.ClassDef))
    return {node.name: node for node in found if "dataclass" in "".join(map(ast.unparse, node.decorator_list))}


def is_class(name: str) -> bool:
    """Whether verl has a configuration class of that name."""
    return name in _classes()


@functools.cache
def fields(name: str) -> dict[str, ast.expr]:
    """The annotations of a class's fields by name, those of its bases included; empty when it is not verl's."""
    node = _classes().get(name)
    if node is None:
        return {}
    found: dict[str, ast.expr] = {}
    for base in node.bases:
        found |= fields(ast.unparse(base))
    own = (line for line in node.body if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name))
    found |= {line.target.id: line.annotation for line in own if not line.target.id.startswith("_")}  # type: ignore[union-attr]
    return found
