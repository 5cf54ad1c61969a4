from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.params import Index, Retrieval
from tasks.retrieval.build import build

CORPUS = [
    ("p0", "Rome", "Rome is the capital of Italy.", "https://example.org/rome"),
    ("p1", "Zürich", "Zürich is a city. A large city.", None),
    ("p2", "Italy", "Italy is a country.", None),
    ("p3", "Long", " ".join(f"word{n}" for n in range(50)), None),
]


@pytest.fixture(scope="session")
def index_params() -> Index:
    return Index.model_validate(
        {"bm25": {"k1": 1.2, "b": 0.75}, "faiss": {"dimensions": 64, "ngrams": [3, 5]}, "recall_questions": 10}
    )


@pytest.fixture(scope="session")
def retrieval() -> Callable[..., Retrieval]:
    def section(retriever: str = "bm25", words: int = 100) -> Retrieval:
        return Retrieval.model_validate({"retriever": retriever, "topk": 3, "passage_words": words})

    return section


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory, index_params: Index, write_corpus) -> Path:
    folder = tmp_path_factory.mktemp("retrieval")
    corpus, target = write_corpus(folder / "corpus.parquet", CORPUS), folder / "index"
    target.mkdir()
    build(corpus, target, index_params, lambda line: None)
    return target
