from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tasks.params import Index, Retrieval, overlay
from tasks.retrieval.index.build import build

CORPUS = [
    ("p0", "Rome", "Rome is the capital of Italy.", "https://example.org/rome"),
    ("p1", "Zürich", "Zürich is a city. A large city.", None),
    ("p2", "Italy", "Italy is a country.", None),
    ("p3", "Long", " ".join(f"word{n}" for n in range(50)), None),
]
DEFAULTS = yaml.safe_load((Path(__file__).parents[2] / "params" / "defaults.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def index_section() -> Callable[..., Index]:
    """The section `index` with the defaults of the product, overlaid by what a test names."""

    def section(**top: Any) -> Index:
        return Index.model_validate(overlay(DEFAULTS["index"], top))

    return section


@pytest.fixture(scope="session")
def retrieval() -> Callable[..., Retrieval]:
    """The section `retrieval` with the defaults of the product, overlaid by what a test names."""

    def section(retriever: str = "bm25", **top: Any) -> Retrieval:
        return Retrieval.model_validate(overlay(DEFAULTS["retrieval"], {"retriever": retriever, **top}))

    return section


@pytest.fixture(scope="session")
def index_params(index_section) -> Index:
    return index_section(dense={"dimensions": 64})


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory, index_params: Index, write_corpus) -> Path:
    folder = tmp_path_factory.mktemp("retrieval")
    corpus, target = write_corpus(folder / "corpus.parquet", CORPUS), folder / "index"
    target.mkdir()
    build(corpus, target, index_params, lambda line: None)
    return target
